"""Start-ups by model, card, flags and release (deployments.json): what is planned from these, and what was seen."""

from decimal import Decimal
from functools import cache
from pathlib import Path

import msgspec

from service.readers.question import AskedLevers

_GIB = 2**30


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all parts of the file share."""


class Printed(_Part, frozen=True, kw_only=True):
    """What was printed: concurrency where there is one, else the GiB of the cache, else tokens that mean the same."""

    concurrency: Decimal | None = None
    kv_gib: Decimal | None = None
    tokens: int | None = None


class Deployed(_Part, frozen=True, kw_only=True):
    """One start-up, once, though both collections may have it."""

    ids: tuple[str, ...]
    origin: str
    model: str
    gpu: str
    engine: str
    planned_because: str | None = None
    """Why this release, where none is stated."""
    levers: AskedLevers
    """As stated; what is left out stands at the release's default."""
    printed: Printed
    weights_gib: Decimal | None = None
    """What one rank said that it loaded."""
    unstated: str | None = None
    """A flag that isn't stated and that explains what is off, by name."""
    informs: tuple[str, str] | None = None
    """The releases that its overhead says something of, where that isn't all that share the rule."""
    failed: bool = False
    """Whether the engine refused to start."""
    fitted: bool = True
    """Whether overheads are fitted to it: not where weights, release or fraction are taken from elsewhere."""


class Cell(_Part, frozen=True, kw_only=True):
    """What vLLM kept back on one card: a cell of a public table, in GiB."""

    model: str
    tensor_parallel: int
    engine: str
    low_gib: Decimal
    high_gib: Decimal
    gpu: str = "h200-sxm-141gb"

    @property
    def middle(self) -> int:
        """Bytes halfway between the ends."""
        return int((self.low_gib + self.high_gib) / 2 * _GIB)


class Filled(_Part, frozen=True, kw_only=True):
    """Users that TensorRT-LLM held at once, measured; once, though both collections may have it."""

    ids: tuple[str, ...]
    model: str
    gpu: str
    tensor_parallel: int
    max_model_len: int
    max_num_batched_tokens: int
    fraction: float
    users: int


class LeftOut(_Part, frozen=True):
    """Start-ups that can't be planned from what is stated, and why."""

    ids: tuple[str, ...]
    reason: str


class Deployments(_Part, frozen=True, kw_only=True):
    """The whole file."""

    about: str
    deployments: tuple[Deployed, ...]
    fitted_only: tuple[Deployed, ...]
    """Start-ups that say what was kept back and are left out of what is compared, for a reason given there."""
    left_out: tuple[LeftOut, ...]
    cells: tuple[Cell, ...]
    tensorrt_llm: tuple[Filled, ...]
    sglang: tuple[Deployed, ...]


_DEEPSEEK = ("deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3.2")
_WITHIN = Decimal("0.1")


def cells_by_difference() -> tuple[Cell, ...]:
    """Cells of a B200 and of an MI300X, as the table's text states them: as differences from those of an H200.

    B200: within about 0.1 GiB for dense models and experts, 1.7 lower for DeepSeek-R1 and V3.2. MI300X: 0.9 to 2.5
    more, so that its cells are wide.
    """
    found = []
    for one in deployments().cells:
        less = Decimal("1.7") if one.model in _DEEPSEEK else Decimal(0)
        b200 = {"low_gib": one.low_gib - less - _WITHIN, "high_gib": one.high_gib - less + _WITHIN}
        mi300x = {"low_gib": one.low_gib + Decimal("0.9"), "high_gib": one.high_gib + Decimal("2.5")}
        found.append(msgspec.structs.replace(one, gpu="b200-sxm", **b200))
        found.append(msgspec.structs.replace(one, gpu="mi300x", **mi300x))
    return tuple(found)


@cache
def deployments() -> Deployments:
    return msgspec.json.decode(Path(__file__).with_name("deployments.json").read_bytes(), type=Deployments)
