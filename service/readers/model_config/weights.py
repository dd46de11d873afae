"""The parts that a model's weights are kept in, from the parameters of its layers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from service.capacity.dtypes import BITS, ElementDtype, Scales
from service.capacity.model import WeightPart
from service.capacity.units import ceil_div
from service.errors import Fault, Refused
from service.readers.model_config.decoder import Drafts, ranges_of
from service.readers.model_config.quantisation import Quantisation
from service.readers.model_config.tally import Role, Tally

_SHARDED: tuple[Role, ...] = ("attention", "dense", "shared experts", "state")
"""Groups that tensor parallel divides without limit: one part, `layers`, where all are in one format."""
_SMALL_DEFICIT = 1_000_000
"""Published totals may lack a few buffers that the shapes have: at most one part in so many."""
_OUTSIDE_LAYERS = -1
_BIASES: tuple[Role, ...] = ("expert biases", "expert output biases")
_NAMES: Mapping[str, str] = {"keys and values": "key and value projections", "dense": "dense feed-forward"}
"""Groups whose parts are called otherwise."""
TOWERS, OUTSIDE = "towers and scales", "rest (towers, draft layers, scales)"
"""What a total has beyond the parts that were counted: where only towers are left, and where nobody can tell."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a decoder, layer by layer and outside of its layers."""

    layers: Sequence[Tally]
    extras: Tally
    embeddings: int
    head: int
    """0 where the head is the embedding table."""
    final_norm: int
    hidden: int
    experts: int = 0
    """Routed experts of a layer that has any."""
    expert_width: int = 0
    drafts: Drafts | None = None

    @property
    def text(self) -> int:
        """Parameters of the text decoder."""
        inside = sum(sum(layer.values()) for layer in self.layers)
        return inside + sum(self.extras.values()) + self.embeddings + self.head + self.final_norm


def parts_of(counted: Counted, formats: Quantisation) -> tuple[WeightPart, ...]:
    """Few parts: each of one format, spread in one way."""
    by_part: dict[tuple[Role, int, ElementDtype], Counter[int]] = {}
    for index, layer in enumerate(counted.layers):
        for (role, shards), parameters in layer.items():
            by_part.setdefault((role, shards, formats.of(role, index)), Counter())[index] += parameters
    for (role, shards), parameters in counted.extras.items():
        by_part.setdefault((role, shards, formats.plain), Counter())[_OUTSIDE_LAYERS] += parameters
    by_part.setdefault(("norms and routers", 1, formats.plain), Counter())[_OUTSIDE_LAYERS] += counted.final_norm
    # What a quantised checkpoint keeps in 16 bits stays so; of a plain one nobody knows what would be kept.
    plain = formats.quantised is None
    return (
        WeightPart(
            name="embeddings",
            parameters=counted.embeddings,
            dtype=formats.plain,
            follows_weight_dtype=plain,
            stage="first" if counted.head else "ends",
        ),
        *_layer_parts(by_part, counted, formats.scales_of, plain=plain),
        *(
            (
                WeightPart(
                    name="head", parameters=counted.head, dtype=formats.plain, follows_weight_dtype=plain, stage="last"
                ),
            )
            if counted.head
            else ()
        ),
        *_draft_parts(counted, formats),
    )


def _layer_parts(
    by_part: Mapping[tuple[Role, int, ElementDtype], Counter[int]],
    counted: Counted,
    scales_of: Callable[[ElementDtype], Scales | None],
    *,
    plain: bool,
) -> tuple[WeightPart, ...]:
    """Sharded groups of one format that are in every layer become one part; others say what tells them apart.

    A group is cut by shards and format, so each part has one set of layers, which pipeline parallel places it in.
    """
    everywhere = frozenset(range(len(counted.layers)))
    formats = {dtype for role, _, dtype in by_part if role in _SHARDED}
    together: dict[tuple[str, int, ElementDtype, frozenset[int]], int] = {}
    for (role, shards, dtype), in_layers in by_part.items():
        layers = frozenset(index for index, parameters in in_layers.items() if parameters) - {_OUTSIDE_LAYERS}
        name = "layers" if role in _SHARDED and len(formats) == 1 and layers == everywhere else _NAMES.get(role, role)
        key = (name, shards, dtype, layers)
        together[key] = together.get(key, 0) + sum(in_layers.values())
    parts = []
    for (name, shards, dtype, layers), parameters in sorted(together.items(), key=lambda part: -part[1]):
        alike = [(s, d) for other, s, d, _ in together if other == name]
        said = name
        if len({s for s, _ in alike}) > 1:
            said += f" of {shards} heads"
        if len({d for s, d in alike if s == shards}) > 1:
            said += f" in {dtype}"
        fixed = not plain and name in ("norms and routers", "per-layer embeddings", *_BIASES)
        parts.append(
            WeightPart(
                name=said,
                parameters=parameters,
                dtype=dtype,
                scales=scales_of(dtype),
                follows_weight_dtype=not fixed,
                most_shards=shards or None,
                experts=counted.experts if name in ("experts", *_BIASES) else 0,
                expert_shape=_padded_shape(counted, parameters) if (name, dtype) == ("experts", "mxfp4") else None,
                at=() if layers in (everywhere, frozenset()) else ranges_of(sorted(layers)),
                stage="first" if name == "per-layer embeddings" else "layers",
            )
        )
    return tuple(part for part in parts if part.parameters)


def _draft_parts(counted: Counted, formats: Quantisation) -> tuple[WeightPart, ...]:
    """The draft layers, whose experts are a part of their own because expert parallel divides them."""
    if counted.drafts is None or counted.drafts.weights is None:
        return ()
    experts = sum(n for (role, _), n in counted.drafts.weights.items() if role == "experts")
    rest = sum(counted.drafts.weights.values()) - experts
    last = len(counted.layers)
    parts = []
    for name, parameters, role in (
        ("draft layers", rest, "attention"),
        ("experts of draft layers", experts, "experts"),
    ):
        if parameters:
            dtype = formats.of(role, last)  # type: ignore[arg-type]
            parts.append(
                WeightPart(
                    name=name,
                    parameters=parameters,
                    dtype=dtype,
                    scales=formats.scales_of(dtype),
                    follows_weight_dtype=True,
                    experts=counted.experts if role == "experts" else 0,
                    stage="last",
                    needed="drafting",
                )
            )
    return tuple(parts)


def _padded_shape(counted: Counted, parameters: int) -> tuple[int, int] | None:
    """Hidden size and width of one expert, where its three matrices are what the part is made of."""
    hidden = counted.hidden
    whole_ones = counted.expert_width and not parameters % (3 * hidden * counted.expert_width * counted.experts)
    return (hidden, counted.expert_width) if whole_ones else None


def with_remainder(
    parts: tuple[WeightPart, ...], counted: Counted, total: int | None, formats: Quantisation, *, towers: bool
) -> tuple[WeightPart, ...]:
    """Add what the caller's total has beyond what was counted, under a name that doesn't claim to know more.

    Raises:
        Refused: the total is smaller than the text decoder, and not because two 4-bit numbers were counted as one; or
            it is more than twice as large, which no tower or draft explains.
    """
    if total is None:
        return parts
    over = total - counted.text
    packed = formats.quantised is not None and BITS[formats.quantised] < 8  # noqa: PLR2004
    if over < 0 and not packed and -over * _SMALL_DEFICIT > counted.text:
        detail = f"{total:,} parameters were given, and the text decoder alone has {counted.text:,}"
        raise Refused(Fault("", detail))
    if over > counted.text:
        detail = (
            f"{total:,} parameters were given, {over:,} more than the text decoder has:"
            f" that is more than its own {counted.text:,}"
        )
        raise Refused(Fault("", detail))
    drafted = sum(part.parameters for part in parts if part.needed == "drafting")
    if drafted > over and not packed:  # declared, and not in these files
        parts, drafted = tuple(part for part in parts if part.needed != "drafting"), 0
    rest = over - drafted
    if rest <= _scales_in(parts):
        return parts
    sure = towers and (counted.drafts is None or drafted > 0)
    part = WeightPart(
        name=TOWERS if sure else OUTSIDE,
        parameters=rest,
        dtype=formats.plain,
        follows_weight_dtype=False,
        needed="multimodal" if towers else "always",
    )
    return (*parts, part)


def _scales_in(parts: tuple[WeightPart, ...]) -> int:
    """Scales of 8-bit weights, which a total of tensors counts as parameters and which stand by their weights here."""
    wide = [part for part in parts if part.dtype in ("fp8", "int8")]
    kept = [(part.parameters, part.scales) for part in wide if part.scales is not None]
    return sum(ceil_div(parameters, scales.numbers) for parameters, scales in kept)


def as_checkpoint(parts: tuple[WeightPart, ...], weight_bytes: int) -> tuple[WeightPart, ...]:
    """One part of the files' size, with what isn't always loaded kept apart.

    Raises:
        Refused: the files are smaller than what is kept apart.
    """
    apart = tuple(part for part in parts if part.needed != "always")
    always = [part for part in parts if part.needed == "always"]
    left = weight_bytes - sum(part.loaded_bytes("auto") for part in apart)
    if left <= 0:
        raise Refused(Fault("", f"{weight_bytes:,} bytes are fewer than the draft layers and towers alone take"))
    by_dtype: Counter[ElementDtype] = Counter()
    for part in always:
        by_dtype[part.dtype] += part.parameters
    return (whole(sum(by_dtype.values()), by_dtype.most_common(1)[0][0], left), *apart)


def whole(parameters: int, dtype: ElementDtype, size: int | None, scales: Scales | None = None) -> WeightPart:
    """All weights as one part."""
    name = "checkpoint" if size is not None else "all weights"
    return WeightPart(
        name=name, parameters=parameters, dtype=dtype, scales=scales, follows_weight_dtype=True, bytes=size
    )
