"""What a model is to the planner."""

from typing import Literal

import msgspec

from service.capacity.cache import CacheKind
from service.capacity.dtypes import ElementDtype, bytes_of
from service.capacity.figures import Figure


class WeightPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters that are kept in one dtype, for example the text decoder or the vision tower."""

    name: str
    parameters: int
    dtype: ElementDtype
    follows_weight_dtype: bool
    """Whether the lever `weight_dtype` re-quantises this part; towers stay as they are."""

    def loaded_as(self, weight_dtype: Literal["auto"] | ElementDtype) -> ElementDtype:
        """The dtype that this part is in once loaded: its own, or the lever's where it follows that."""
        return weight_dtype if weight_dtype != "auto" and self.follows_weight_dtype else self.dtype


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One checkpoint: its shapes, its caches and what its weights take."""

    architecture: str
    dtype: Figure[str] | None
    """The dtype that the checkpoint's configuration names; null when it names none."""
    hidden_size: Figure[int] | None
    vocab_size: Figure[int] | None
    query_heads: Figure[int]
    max_position_embeddings: Figure[int]
    """The longest context, after RoPE scaling, in tokens."""
    caches: Figure[tuple[CacheKind, ...]]
    parameters: Figure[int] | None
    """Parameters of the text decoder with embeddings and untied head."""
    weights: Figure[tuple[WeightPart, ...]] | None
    """Null when the parameter count isn't known: such a model can't be planned."""
    notes: str | None


def weight_bytes(parts: tuple[WeightPart, ...], weight_dtype: Literal["auto"] | ElementDtype) -> int:
    """Bytes of all parts, in their own dtype (`auto`) or with the quantisable ones in another."""
    return sum(bytes_of(part.parameters, part.loaded_as(weight_dtype)) for part in parts)
