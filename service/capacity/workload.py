"""Request lengths as a caller knows them, in their normal form: one frozen type per kind of workload."""

from functools import lru_cache
from itertools import chain

import msgspec
import numpy as np
from numpy.typing import NDArray


class Mean(msgspec.Struct, frozen=True, tag_field="kind", tag="mean", kw_only=True):
    """Every request holds so many tokens all the time."""

    tokens: int


class Bin(msgspec.Struct, frozen=True):
    """So many requests of more than `lower` and at most `upper` tokens; without `upper` up to the window."""

    lower: int
    upper: int | None
    count: int


class Total(msgspec.Struct, frozen=True, tag_field="kind", tag="total", kw_only=True):
    """A histogram of total lengths (prompt and output together), bins sorted and merged."""

    bins: tuple[Bin, ...]


class Joint(msgspec.Struct, frozen=True, tag_field="kind", tag="joint", kw_only=True):
    """A joint histogram: count [i, j, n] says n requests with prompt and output in bins i and j."""

    prompt_edges: tuple[int | None, ...]
    output_edges: tuple[int | None, ...]
    counts: tuple[tuple[int, int, int], ...]


class Rows(msgspec.Struct, frozen=True, tag_field="kind", tag="rows", kw_only=True):
    """Single requests as (prompt tokens, output tokens), in the order given."""

    rows: tuple[tuple[int, int], ...]
    ordered: bool = False
    """Whether that is the order in which they came: then it says how their mean wanders."""


class Marginal(msgspec.Struct, frozen=True, kw_only=True):
    """A histogram of one side of the requests: bins sorted and merged, and the measured sum where there is one."""

    bins: tuple[Bin, ...]
    tokens: int | None
    """All tokens of all requests together, as measured: sets where in their bins requests lie. Null: not measured."""


class Found(msgspec.Struct, frozen=True):
    """Something that a reader found in what it was given, and that an answer has to say: a stable code and a text."""

    code: str
    text: str


class Marginals(msgspec.Struct, frozen=True, tag_field="kind", tag="marginals", kw_only=True):
    """A histogram of prompts and one of outputs: what is known when nobody kept which prompt had which output."""

    prompt: Marginal
    output: Marginal
    mean_held_tokens: float | None
    """Tokens that a running request held on average, measured on a running engine; null: not measured."""
    found: tuple[Found, ...] = ()


@lru_cache(maxsize=8)
def table_of(rows: tuple[tuple[int, int], ...]) -> NDArray[np.int64]:
    """Rows as an array, built once for all that weigh them: nobody writes into it."""
    table = np.fromiter(chain.from_iterable(rows), np.int64, 2 * len(rows)).reshape(-1, 2)
    table.flags.writeable = False
    return table


Paired = Mean | Total | Joint | Rows
"""Lengths whose mean follows exactly."""
Workload = Paired | Marginals
