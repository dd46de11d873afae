"""A text decoder layer by layer, and how it becomes the caches of a model."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from service.capacity.cache import CacheKind
from service.capacity.cache.footprint import Ranges
from service.readers.model_config.fields import Fields
from service.readers.model_config.tally import Tally

_LONGEST_STEP = 32
"""Layer patterns repeat within so many layers."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The widths that every decoder has."""

    layers: int
    hidden: int
    vocabulary: int
    query_heads: int
    context: int
    """The longest context after RoPE scaling, in tokens."""
    positions: int
    """max_position_embeddings as stated: windows of that size or more don't count."""


class Mixer(msgspec.Struct, frozen=True):
    """What mixes tokens in one layer: its caches, each said of one layer, and its parameters."""

    caches: tuple[CacheKind, ...]
    weights: Tally


class FeedForward(msgspec.Struct, frozen=True):
    """What each token goes through by itself in one layer."""

    weights: Tally
    width: int | None
    """Channels of one token inside it: of dense networks that it goes through one after the other the widest, of the
    experts that it is sent to all together. 0 where there is none, null where that isn't known."""


class Drafts(msgspec.Struct, frozen=True):
    """The checkpoint's own draft layers."""

    caches: tuple[CacheKind, ...] | None
    """What they keep; null where that isn't known."""
    weights: Tally | None = None
    """What they weigh; null where that can't be counted."""


Mixers = Callable[[Fields, Shape], Sequence[Mixer]]
FeedForwards = Callable[[Fields, Shape], Sequence[FeedForward]]

DraftsOf = Callable[[Fields, Shape, Sequence[Mixer], Sequence[Tally]], Drafts]


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """How the configurations of one model type are read. Adding an architecture is adding one of these."""

    config_class: str
    """The class of Transformers, or of the model's own code, whose defaults stand in for fields left out."""
    mixers: Mixers
    feed_forwards: FeedForwards
    also: frozenset[str] = frozenset()
    """What its classes are called where not as that of its configuration: `MPT` of MPTForCausalLM."""
    layers: Callable[[Fields], int] | None = None
    """How the number of layers is read where it isn't `num_hidden_layers`."""
    norms: int = 2
    """Normalisations of the hidden size in each layer."""
    norm_width: int = 1
    """Parameters of a normalisation per channel: 2 with a bias, 0 without any."""
    tied: bool = False
    """Whether the output head is the embedding table where the configuration doesn't say."""
    defaults: Mapping[str, Any] = {}
    """The class defaults of fields that real configurations leave out."""
    harmless: frozenset[str] = frozenset()
    """Fields of this family alone that change neither a cache nor a tensor's shape."""
    only: Mapping[str, Sequence[bool | int | str]] = {}
    """Fields of which these values alone change neither: any other is refused, one that switches off as well."""
    drafts: DraftsOf | None = None
    extras: Callable[[Fields, Shape], Tally] | None = None
    """Parameters outside layers, embeddings and head."""
    counted: bool = True
    """Whether the parameters of this architecture can be counted from its configuration."""
    experts_only: bool = False
    """Whether 4-bit checkpoints of this family that list nothing quantise routed experts only."""


def caches_of(mixers: Sequence[Mixer]) -> tuple[CacheKind, ...]:
    """Bring the layers' caches together: one of each kind, with the layers that it is in unless all are alike."""
    where: dict[CacheKind, list[int]] = {}
    for layer, mixer in enumerate(mixers):
        for cache in mixer.caches:
            where.setdefault(cache, []).append(layer)
    alike = all(mixer.caches == mixers[0].caches for mixer in mixers)
    together: list[CacheKind] = []
    for cache, layers in where.items():
        at = () if alike else ranges_of(sorted(set(layers)))
        together.append(msgspec.structs.replace(cache, layers=len(layers), at=at))
    return tuple(together)


def ranges_of(layers: Sequence[int]) -> Ranges:
    """Write ascending layer numbers as few ranges with steps: 0, 1, 2, 4, 5, 6 as (0, 5, 4), (1, 6, 4), (2, 7, 4)."""
    left = dict.fromkeys(layers)
    ranges: list[tuple[int, int, int]] = []
    while left:
        first = next(iter(left))
        best = (1, 1)
        for step in range(1, _LONGEST_STEP + 1):
            count = 1
            while first + count * step in left:
                count += 1
            if count > best[0]:
                best = (count, step)
        count, step = best
        for layer in range(first, first + count * step, step):
            del left[layer]
        ranges.append((first, first + (count - 1) * step + 1, step))
    return tuple(ranges)


def widest(layers: Sequence[FeedForward]) -> int | None:
    """The width of the widest one; null where there is none, or one that isn't known."""
    widths = [layer.width for layer in layers if layer.width is not None]
    return (max(widths) or None) if len(widths) == len(layers) else None


def total(tallies: Sequence[Tally]) -> Tally:
    """Add up."""
    added: Tally = Counter()
    for one in tallies:
        added.update(one)
    return added
