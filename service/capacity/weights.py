"""What the weights take on one rank: each part in its dtype, divided or copied as engines do."""

from fractions import Fraction
from math import ceil

import msgspec

from service.capacity.cache.footprint import layers_of
from service.capacity.engine import AsLoaded
from service.capacity.figures import Confidence
from service.capacity.gpu import is_one_of
from service.capacity.model import Model, WeightPart
from service.capacity.padding import Padded, padded
from service.capacity.placement import Stage
from service.capacity.question import Levers, Question
from service.capacity.units import Estimate, ceil_div, exact, surely

_DOUBT: dict[Confidence, float] = {"high": 0.0, "medium": 0.02, "low": 0.05}
"""How far off weights may be whose formats aren't all known, as a share of them: more where more was guessed."""


class Share(msgspec.Struct, frozen=True):
    """One part of the weights on one rank."""

    part: WeightPart
    of: Fraction
    """Ranks that it is divided over; not a whole number where experts don't divide evenly."""
    layers: Fraction
    """The share of its layers that is on this stage."""
    bytes: Fraction
    padding: Padded | None = None
    """How the engine pads it."""


def lora_parts(model: Model, levers: Levers) -> tuple[WeightPart, ...]:
    """The slots for LoRA adapters, in the 16 bits that adapters have. None where none are asked for or known."""
    if not levers.max_loras or model.lora is None:
        return ()
    widths, slots = model.lora.value, f"{levers.max_loras} LoRA slots of rank {levers.max_lora_rank}"
    return tuple(
        WeightPart(
            name=f"{sides} of {slots}",
            parameters=levers.max_loras * levers.max_lora_rank * width,
            dtype="bf16",
            follows_weight_dtype=False,
            most_shards=most_shards,
        )
        for sides, width, most_shards in (
            ("copied sides", widths.whole, 1),
            ("divided sides", widths.divided, None),
            ("keys' and values' sides", widths.keys_and_values, widths.kv_heads),
        )
    )


def shares(question: Question, parts: tuple[WeightPart, ...], stage: Stage) -> tuple[Share, ...]:
    """List what one rank of a pipeline stage loads."""
    model, levers = question.model.spec, question.levers
    found = []
    for part in parts:
        layers = _on(stage, part, model, levers)
        if layers and _needed(part, levers):
            ranks = _ranks(part, levers)
            loaded = layers * part.loaded_bytes(levers.weight_dtype) / ranks
            padding = padded(part, levers, question.engine.spec, question.gpu.spec)
            found.append(Share(part, ranks, layers, loaded * padding.ratio if padding else loaded, padding))
    return tuple(found)


def bytes_per_rank(loaded: tuple[Share, ...], measured: AsLoaded | None, confidence: Confidence) -> Estimate:
    """Bytes of all of them, rounded up, and between what they lie once loaded.

    An engine of which nobody measured what it loads takes what was counted.
    """
    total = sum((share.bytes for share in loaded), Fraction(0))
    if measured is None:
        return surely(ceil(total))
    doubt = exact(_DOUBT[confidence])
    low, best, high = (exact(times) for times in (measured.low, measured.best, measured.high))
    return Estimate(ceil(total * low * (1 - doubt)), ceil(total * best), ceil(total * high * (1 + doubt)))


def as_loaded(question: Question) -> AsLoaded | None:
    """What loaded weights take over what is counted, on the question's card; null where nobody measured it."""
    rows = question.engine.spec.as_loaded
    return next((one for one in rows if is_one_of(question.gpu.spec, one.cards)), None)


def _needed(part: WeightPart, levers: Levers) -> bool:
    match part.needed:
        case "always":
            return True
        case "multimodal":
            return not levers.language_model_only
        case "drafting":
            return levers.speculative_tokens > 0


def _ranks(part: WeightPart, levers: Levers) -> Fraction:
    """Ranks that a part is divided over. A rank that holds whole experts holds the larger share of those left over."""
    if part.experts and levers.expert_parallel:
        on_one = ceil_div(part.experts, levers.tensor_parallel * levers.data_parallel)
        return Fraction(part.experts, on_one)
    ranks = levers.tensor_parallel
    return Fraction(ranks if part.most_shards is None else min(ranks, part.most_shards))


def _on(stage: Stage, part: WeightPart, model: Model, levers: Levers) -> Fraction:
    match part.stage:
        case "first":
            return Fraction(int(stage.first))
        case "last":
            return Fraction(int(stage.last))
        case "ends":
            return Fraction(int(stage.first or stage.last))
        case "layers":
            if model.layers is None or levers.pipeline_parallel == 1:
                return Fraction(1)
            layers = layers_of(part.at, model.layers.value)
            return Fraction(sum(layer in stage.layers for layer in layers), len(layers))
