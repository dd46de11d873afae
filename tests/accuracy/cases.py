"""What engines printed at start-up, copied with its origin (cases.json), and how exactly the printed figures are known.

Every number with decimals is a string: the digits that were printed say how far it was rounded.
"""

from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from service.capacity.cache import CacheKind
from service.readers.question import AskedLevers

_GIB, _MIB = 2**30, 2**20


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all parts of the file share."""


class Card(_Part, frozen=True, kw_only=True):
    """A card that the catalog doesn't know. Only its name, memory and generation matter here, for defaults."""

    name: str
    gib: float
    compute_capability: str | None


class Shapes(_Part, frozen=True, kw_only=True):
    """A model that is no catalog entry: made up by a test, not named, or run unlike its checkpoint says."""

    dtype: str
    layers: int
    query_heads: int
    caches: tuple[CacheKind, ...]


class Given(_Part, frozen=True, kw_only=True):
    """The cache of one rank: as a printed size, in bytes exactly, or as a number of blocks."""

    kv_gib: Decimal | None = None
    kv_mib: Decimal | None = None
    kv_bytes: int | None = None
    blocks: int | None = None
    half_gib: Decimal | None = None
    """Half the width of a stated range of GiB; left out: half the last digit."""
    printed_parts: int = 1
    """A sum of so many printed figures, each rounded by itself (SGLang prints keys and values apart)."""
    sequences: int | None = None
    """So many requests that fill the window, where what they take is what was printed."""

    @property
    def kv_range(self) -> tuple[int, int, int] | None:
        """Bytes: the least, as printed and the most that the printed figure can stand for. Null: blocks are given."""
        if self.kv_bytes is not None:
            return self.kv_bytes, self.kv_bytes, self.kv_bytes
        printed, unit = (self.kv_gib, _GIB) if self.kv_gib is not None else (self.kv_mib, _MIB)
        if printed is None:
            return None
        half = half_unit(printed) * self.printed_parts if self.half_gib is None else self.half_gib
        return int((printed - half) * unit), int(printed * unit), int((printed + half) * unit)


class Printed(_Part, frozen=True, kw_only=True):
    """What was printed: one or more of these."""

    concurrency: Decimal | None = None
    tokens: int | None = None
    blocks: int | None = None
    usable_tokens: int | None = None
    """Tokens of all blocks but the null block."""
    blocks_per_window: int | None = None
    window_gib: Decimal | None = None
    """What one full window needs, as a refusal says it."""
    max_model_len: int | None = None
    """The longest that fits once, as a refusal says it."""
    contexts_mib: Decimal | None = None
    """What all sequences take that grows with the context."""
    states_mib: Decimal | None = None
    """What they take beside it."""


class OwnBytes(_Part, frozen=True, kw_only=True):
    """What a printed token is in bytes of one rank, worked out by hand from published shapes.

    Only where every layer keeps all of the context: then that is a product of the shapes, whatever the engine's rules.
    With windows or states it would take the engine's groups, and a wrong rule about them could excuse its own misses.

    `grain`: the next larger number of tokens that could have been printed is so many more.
    """

    bytes: int
    grain: int
    how: str


class Case(_Part, frozen=True, kw_only=True):
    """One start-up, or one test or formula that stands for one."""

    ids: tuple[str, ...]
    """In the collections that the figures were copied from: two where both have the same log."""
    figure: Literal["log", "engine_test", "formula"]
    """Who says it: an engine at start-up, an engine's own tests, or somebody else's formula."""
    origin: str
    model: str
    """A catalog key, or one of the file's own models."""
    shapes_of: str | None = None
    """What was really run, where that has only its shapes in common with the catalog's model."""
    engine: str
    release: str | None
    planned_as: str
    """The engine entry of the catalog whose rules are used."""
    planned_because: str | None = None
    gpu: str
    levers: AskedLevers
    """As stated; what is left out stands at the documented default."""
    given: Given
    printed: Printed
    own_bytes: OwnBytes | None = None
    one_message: bool = False
    """Whether bytes and figure stand in one message (a refusal): then one rank speaks of its own memory in both."""
    found_later: str | None = None
    """A fact that isn't in the log but was found out about it."""
    open_input: str | None = None
    """A needed fact that nobody stated."""

    @property
    def tensor_parallel(self) -> int:
        return self.levers.tensor_parallel or 1

    def why_undetermined(self) -> str | None:
        """Why the stated facts don't fix what an engine must print; null where they do.

        Judged by the case's own lines alone: a planner with a wrong rule must not be able to excuse its own misses.
        """
        if self.open_input is not None:
            return self.open_input
        kv, own = self.given.kv_range, self.own_bytes
        if kv is None or self.tensor_parallel == 1 or self.one_message:
            return None
        tokens = self.printed.tokens or self.printed.max_model_len
        if own is None or tokens is None:
            return (
                f"at TP {self.tensor_parallel} which rank set the blocks isn't known: its tokens are counted in the"
                " engine's groups, so nothing printed turns them into bytes"
            )
        least, most = tokens * own.bytes, (tokens + own.grain) * own.bytes
        if least <= kv[2] and kv[0] <= most:
            return None
        away = least / kv[1] - 1
        later = f" ({self.found_later})" if self.found_later else ""
        return (
            f"at TP {self.tensor_parallel} its {tokens:,} tokens are {least / _GIB:.2f} GiB, {away:+.1%} from"
            f" its own line of {kv[1] / _GIB:.2f}: another rank set the blocks, or a cause that isn't known{later}"
        )


class Apart(_Part, frozen=True, kw_only=True):
    """Cases of the collections that can't be compared, and why."""

    reason: str
    ids: tuple[str, ...]


class Collection(_Part, frozen=True, kw_only=True):
    """The whole file."""

    about: str
    cards: dict[str, Card]
    models: dict[str, Shapes]
    cases: tuple[Case, ...]
    apart: tuple[Apart, ...]

    def ids(self) -> Iterator[str]:
        """Name every case, compared or not."""
        for case in self.cases:
            yield from case.ids
        for apart in self.apart:
            yield from apart.ids


@cache
def collection() -> Collection:
    return msgspec.json.decode(Path(__file__).with_name("cases.json").read_bytes(), type=Collection)


def half_unit(printed: Decimal) -> Decimal:
    """Half of the last digit that was printed."""
    exponent = printed.as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(5).scaleb(exponent - 1)
