"""What a model is to the planner."""

from fractions import Fraction
from typing import Literal

import msgspec

from service.capacity.cache import CacheKind
from service.capacity.cache.footprint import Ranges
from service.capacity.dtypes import BITS, ElementDtype, KvCacheDtype, Scales, bytes_of, layout, width
from service.capacity.figures import Figure

_A_BYTE = 8

AskedWeightDtype = Literal["auto"] | ElementDtype


class WeightPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Weights that are kept in one dtype and spread over ranks in one way, for example all experts."""

    name: str
    parameters: int
    dtype: ElementDtype
    follows_weight_dtype: bool
    """Whether the lever `weight_dtype` re-quantises this part; embeddings, norms and towers stay as they are."""
    scales: Scales | None = None
    """What the checkpoint keeps beside its quantised numbers; null: what its dtype comes with."""
    bytes: int | None = None
    """What the checkpoint's files hold, where that is known better than by parameters and dtype."""
    most_shards: int | None = None
    """Ranks of tensor parallel that it is divided over at most, then copied: 1 for norms and latent projections, the
    number of KV heads for keys and values; null: no limit."""
    experts: int = 0
    """Routed experts of a layer, where the part is made of them: expert parallel gives each rank of all data-parallel
    copies whole ones."""
    expert_shape: tuple[int, int] | None = None
    """Hidden size and width of one expert, where its format is one that engines pad."""
    at: Ranges = ()
    """Which layers it is in, for pipeline parallel; empty: all of them, in equal shares."""
    stage: Literal["layers", "first", "last", "ends"] = "layers"
    """Where pipeline parallel puts it: with its layers, on the first or last stage, or (tied embeddings) on both."""
    needed: Literal["always", "multimodal", "drafting"] = "always"
    """What it is loaded for: towers are left out by `language_model_only`, a draft comes with `speculative_tokens`."""

    def loaded_as(self, weight_dtype: AskedWeightDtype) -> ElementDtype:
        """The dtype that this part is in once loaded: its own, or the lever's where it follows that.

        Embeddings and head, at the ends of the model, are never kept in 4 bits.
        """
        if weight_dtype == "auto" or not self.follows_weight_dtype:
            return self.dtype
        return self.dtype if self.stage != "layers" and BITS[weight_dtype] < _A_BYTE else weight_dtype

    def loaded_scales(self, weight_dtype: AskedWeightDtype) -> Scales | None:
        """The scales that this part has once loaded: its own, unless it is re-quantised."""
        return self.scales if self.loaded_as(weight_dtype) == self.dtype else None

    def loaded_width(self, weight_dtype: AskedWeightDtype) -> Fraction:
        """Bits of one parameter once loaded."""
        return width(self.loaded_as(weight_dtype), self.loaded_scales(weight_dtype))

    def layout(self, weight_dtype: AskedWeightDtype) -> str:
        """What makes up that width, in words."""
        return layout(self.loaded_as(weight_dtype), self.loaded_scales(weight_dtype))

    def loaded_bytes(self, weight_dtype: AskedWeightDtype) -> int:
        """Bytes of the whole part once loaded, all ranks together and nothing copied."""
        if self.bytes is not None and self.loaded_as(weight_dtype) == self.dtype:
            return self.bytes
        return bytes_of(self.parameters, self.loaded_width(weight_dtype))


class LoraWidths(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Inputs and outputs of all projections that LoRA adapts (attention and dense feed-forward), all layers together.

    An adapter has so many elements for each unit of its rank.
    """

    whole: int
    """Sides that every rank of tensor parallel holds."""
    divided: int
    """Sides that are divided over the ranks."""
    keys_and_values: int
    """Sides that are divided over the ranks up to the number of KV heads."""
    kv_heads: int


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One checkpoint: its shapes, its caches and what its weights take."""

    architecture: str
    dtype: Figure[str] | None
    """The dtype that the checkpoint's configuration names; null when it names none."""
    hidden_size: Figure[int] | None
    vocab_size: Figure[int] | None
    query_heads: Figure[int]
    max_position_embeddings: Figure[int]
    """The longest context, after RoPE scaling, in tokens."""
    feed_forward_width: Figure[int] | None = None
    """Channels of one token inside the widest feed-forward layer, those of all experts that it goes to together; null
    where it isn't known."""
    layers: Figure[int] | None = None
    """Decoder layers, those without a cache included."""
    caches: Figure[tuple[CacheKind, ...]]
    draft_caches: Figure[tuple[CacheKind, ...]] | None = None
    """What the checkpoint's own draft layers keep when drafting is on; empty when they read the model's caches, null
    when it has none or they aren't known."""
    kv_cache_scheme: Figure[KvCacheDtype] | None = None
    """The number format that the checkpoint's quantisation declares for its cache; null when it declares none."""
    parameters: Figure[int] | None
    """Parameters of the text decoder with embeddings and untied head."""
    weights: Figure[tuple[WeightPart, ...]] | None
    """Null when what they take isn't known: such a model is planned only in a cache whose bytes are given."""
    lora: Figure[LoraWidths] | None = None
    """Null where LoRA on this architecture isn't planned."""
    notes: str | None
