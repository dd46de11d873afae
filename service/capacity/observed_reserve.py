"""Taking the reserve from start-ups of the same deployment: which count as the same, and what they come to."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

import msgspec

from service.capacity.question import ObservedReserve, Question
from service.capacity.reserve_fit import MARGIN
from service.capacity.reserve_rules import Profiled
from service.capacity.units import Estimate, exact

_LEVERS = (
    "weight_dtype",
    "pipeline_parallel",
    "pipeline_layers",
    "data_parallel",
    "expert_parallel",
    "decode_context_parallel",
    "max_num_seqs",
    "max_num_batched_tokens",
    "speculative_tokens",
    "max_loras",
    "max_lora_rank",
    "enforce_eager",
    "language_model_only",
)
"""What a reserve depends on beside model, card, release and tensor parallel: 1,024 sequences keep 4 GiB more back than
256 where a vocabulary is large."""

_RELEASE = "release"


class KeptBack(msgspec.Struct, frozen=True):
    """What one start-up kept back, and how it was started."""

    observation: str
    start_up: str
    """Its digest: one may be told of several plans, and is several observations then."""
    on: str
    bytes: int
    """Beside the weights as they were planned, so that the cache comes out as it was seen."""
    weights: int | None
    """What was planned for those; null where that wasn't kept yet."""
    conditions: str


def conditions_of(question: Question, version: str | None = None) -> str:
    """How a deployment is started, as far as its reserve depends on it: equal texts for equal conditions.

    The minor version that was printed is one of them where the engine's key names no release.
    """
    levers, rule = question.levers, question.engine.spec.reserve_rule
    conditions = {name: getattr(levers, name) for name in _LEVERS}
    if isinstance(rule, Profiled) and rule.whole_windows_up_to:
        conditions["max_model_len"] = levers.max_model_len
    if question.draft_model is not None:
        conditions["draft_model"] = question.draft_model.digest
    if "@" not in question.engine.key and version is not None:
        conditions[_RELEASE] = ".".join(version.removeprefix("v").split(".")[:2])
    return msgspec.json.encode(conditions, order="sorted").decode()


def without_release(conditions: str) -> str:
    """Conditions as a question has them, which doesn't say what the engine will print."""
    found = msgspec.json.decode(conditions)
    return msgspec.json.encode({name: one for name, one in found.items() if name != _RELEASE}, order="sorted").decode()


def differing(conditions: str, other: str) -> str:
    """Name what two conditions differ in: `max_num_seqs 256 and not 1024`."""
    one, two = msgspec.json.decode(conditions), msgspec.json.decode(other)
    names = sorted({*one, *two})
    return ", ".join(
        f"{name} {_shown(one.get(name))} and not {_shown(two.get(name))}"
        for name in names
        if one.get(name) != two.get(name)
    )


def beside(kept: KeptBack, question: Question, weights: int) -> KeptBack:
    """What a start-up kept back beside weights as they are planned today: the cache that was seen stays as it is.

    Else a correction of a model's weights would be taken from the cache, until it is started anew.
    """
    if kept.weights is None or kept.weights == weights:
        return kept
    more = Fraction(kept.weights - weights)
    if question.engine.spec.fraction_of == "free":  # the weights lie inside of the fraction, what is kept outside
        more /= exact(question.levers.gpu_memory_utilization)
    return msgspec.structs.replace(kept, bytes=kept.bytes + ceil(more), weights=weights)


def observed_from(start_ups: Sequence[KeptBack]) -> ObservedReserve:
    """What start-ups come to, newest first and at least one: the least, the middle and the most.

    Two that differ by more than chance have no middle: one of them is wrong, and nobody knows which. The most is
    likeliest then, as it promises the least, in the range of both; a third start-up settles it.
    """
    amounts = sorted(one.bytes for one in start_ups)
    count = len(amounts)
    middle = floor(Fraction(amounts[(count - 1) // 2] + amounts[count // 2], 2))
    newest = start_ups[0]
    return ObservedReserve(
        observation=newest.observation,
        on=newest.on,
        start_ups=count,
        bytes=Estimate(amounts[0], amounts[-1] if count == 2 and unlike(amounts) else middle, amounts[-1]),  # noqa: PLR2004
    )


def unlike(two: Sequence[int]) -> bool:
    """Whether two start-ups differ by more than each may be off by chance, least first."""
    least, most = two
    return most - least > 2 * MARGIN


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()
