"""The feed-forward half of each layer: dense, or routed experts with or without shared ones."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from service.errors import Fault, Refused
from service.readers.model_config.decoder import FeedForward, FeedForwards, Shape
from service.readers.model_config.fields import HEADS, LAYERS, Fields
from service.readers.model_config.layer_patterns import numbered
from service.readers.model_config.parameters import gated
from service.readers.model_config.tally import tally

_DENSE_WIDTHS = ("dense_intermediate_size", "intermediate_size_mlp", "intermediate_size")
EXPERTS_PER_TOKEN = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_topk",
    "moe_top_k",
    "moe_k",
)
"""Names of how many routed experts each token is sent to."""


def dense(*, matrices: int = 3, bias: bool | str = "mlp_bias") -> FeedForwards:
    """One feed-forward network per layer: of three matrices with a gate, or of two."""

    def layers(fields: Fields, shape: Shape) -> Sequence[FeedForward]:
        width = fields.count("intermediate_size")
        biased = fields.flag(bias) if isinstance(bias, str) else bias
        small = (matrices - 1) * width + shape.hidden if biased else 0
        return [FeedForward(tally(dense=matrices * shape.hidden * width, small=small), width)] * shape.layers

    return layers


def nothing(_: Fields, shape: Shape) -> Sequence[FeedForward]:
    """No feed-forward that can be counted, nor any width that could be read."""
    return [FeedForward(Counter(), None)] * shape.layers


class Uncounted(msgspec.Struct, frozen=True, kw_only=True):
    """Feed-forwards whose parameters can't be counted: the fields that have their widths.

    Shared experts are no wider than those that a token is sent to.
    """

    dense: str | None = None
    """The width of dense layers, in models that have any."""
    expert: str | None = None
    """The width of one routed expert."""

    def __call__(self, fields: Fields, shape: Shape) -> Sequence[FeedForward]:
        """The widest one in every layer."""
        width = (fields.largest(self.dense) or 0) if self.dense else 0
        if self.expert:
            routed = routed_width(fields.largest(self.expert), fields)
            return [FeedForward(Counter(), beside(width, routed))] * shape.layers
        return [FeedForward(Counter(), width or None)] * shape.layers


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """What a family's experts have beside their three matrices."""

    router_bias: bool = False
    """One number per expert: a bias, or the correction of the load balance."""
    shared_gate: bool = False
    """A gate on the shared expert."""
    expert_bias: bool = False
    """Biases in every expert."""
    own_shared: int = 0
    """Shared experts that no field states."""

    def __call__(self, fields: Fields, shape: Shape) -> Sequence[FeedForward]:
        """Routed experts in the layers that the configuration says, dense networks in the others."""
        sparse = sparse_layers(fields, shape)
        routed = self._routed(fields, shape) if any(sparse) else FeedForward(tally(), 0)
        width = _dense_width(fields) if not all(sparse) else 0
        plain = FeedForward(tally(dense=gated(shape.hidden, width)), width)
        return [routed if is_sparse else plain for is_sparse in sparse]

    def _routed(self, fields: Fields, shape: Shape) -> FeedForward:
        for name in _DENSE_WIDTHS:
            fields.raw(name)  # a family's only width, or one that its layers don't have
        hidden, experts, width = shape.hidden, fields.count("num_experts", most=HEADS), expert_width(fields)
        shared = shared_width(fields, width, self.own_shared)
        weights = tally(
            experts=experts * gated(hidden, width),
            expert_biases=experts * 2 * width if self.expert_bias else 0,
            expert_output_biases=experts * hidden if self.expert_bias else 0,
            shared=gated(hidden, shared),
            small=(hidden + int(self.router_bias)) * experts + (hidden if shared and self.shared_gate else 0),
        )
        return FeedForward(weights, beside(shared, routed_width(width, fields)))


def sparse_layers(fields: Fields, shape: Shape) -> tuple[bool, ...]:
    """Which layers have routed experts: all of them, but for what the configuration takes out."""
    layers = range(shape.layers)
    if types := fields.items("mlp_layer_types"):
        fields.match_layers("mlp_layer_types", len(types), shape.layers)
        if not set(map(str, types)) <= {"dense", "sparse"}:
            detail = f"mlp_layer_types has to say dense or sparse for each of the {shape.layers} layers"
            raise Refused(Fault(fields.at("mlp_layer_types"), detail))
        for name in ("first_k_dense_replace", "moe_layer_freq"):
            fields.raw(name)  # says the same in short
        return tuple(kind == "sparse" for kind in types[: shape.layers])
    if isinstance(fields.raw("moe_layer_freq"), list):
        fields.raw("first_k_dense_replace")
        return tuple(value > 0 for value in fields.counts("moe_layer_freq", most=1, length=shape.layers))
    if fields.items("moe_layers"):
        fields.raw("interleave_moe_layer_step")
        listed = numbered(fields, shape, "moe_layers", from_one=False)
        return tuple(layer in listed for layer in layers)
    first = fields.count_or("first_k_dense_replace", 0, most=LAYERS)
    every = fields.count_or("moe_layer_freq", 1, least=1)
    step = fields.count_or("decoder_sparse_step", 1) * fields.count_or("interleave_moe_layer_step", 1)
    dense_ones = numbered(fields, shape, "mlp_only_layers", from_one=False)
    period = fields.count_or("expert_layer_period", 1, least=1)
    offset = fields.count_or("expert_layer_offset", 0)
    return tuple(
        layer >= first
        and layer % every == 0
        and step > 0
        and (layer + 1) % step == 0
        and layer not in dense_ones
        and layer % period == offset % period
        for layer in layers
    )


def expert_width(fields: Fields) -> int:
    """The width of one routed expert: `intermediate_size` where the family has no dense layers of another width."""
    return fields.count("moe_intermediate_size" if fields.has("moe_intermediate_size") else "intermediate_size")


def routed_width(width: int | None, fields: Fields, *names: str) -> int | None:
    """The width of all routed experts together that one token is sent to; null where their number isn't stated.

    `names` are what the family calls that number, if it has a name of its own for it.
    """
    stated = [number for name in names or EXPERTS_PER_TOKEN if (number := fields.largest(name)) is not None]
    return max(stated) * width if stated and width is not None else None


def beside(width: int, other: int | None) -> int | None:
    """The width of two networks that each token goes through one after the other: of the wider one."""
    return None if other is None else max(width, other)


def shared_width(fields: Fields, width: int, own: int = 0) -> int:
    """The width of all shared experts together: stated, or their number times the width of a routed one."""
    number = fields.count_or("num_shared_experts", own, most=HEADS)
    return fields.count_or("shared_expert_intermediate_size", number * width)


def _dense_width(fields: Fields) -> int:
    for name in _DENSE_WIDTHS:
        if fields.has(name):
            return fields.count(name)
    return fields.count("intermediate_size")
