"""How engines come to the memory that they keep back: one frozen type per rule, with its constants as data."""

import msgspec

from service.capacity.cache import CacheFamily
from service.capacity.dtypes import ElementDtype
from service.capacity.figures import Figure


class ByMemory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A default that depends on the card's memory."""

    tiers: tuple[tuple[int, int], ...]
    """(Bytes of memory, the default from there on), smallest first; the first from 0 bytes on."""
    small_too: tuple[str, ...]
    """Words in the names of cards that get the first default whatever their memory."""


class Overhead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What one kind of deployment keeps beside the step that is profiled, in bytes per GPU: contexts, NCCL, graphs.

    Of the kinds of a list the first that a deployment is of counts, so the special ones stand first.
    """

    cards: tuple[str, ...] = ()
    """Words of which one is in the card's vendor or architecture; empty: any card."""
    caches: tuple[CacheFamily, ...] = ()
    """Families of caches of which the model's is one; empty: any."""
    experts: bool | None = None
    """Whether the model has routed experts; null: either."""
    weights: tuple[ElementDtype, ...] = ()
    """Formats of which one is that of most weights; empty: any."""
    tensor_parallel: tuple[int, int]
    """From so many ranks to so many."""
    low: int
    best: int
    high: int
    logs: int
    """Start-ups that it was measured on; 0: it follows from its neighbours."""
    source: str


class TowerBurst(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the largest input of a vision or audio tower takes while it is profiled, in bytes per GPU."""

    architectures: tuple[str, ...]
    """Beginnings of the architectures whose towers are so."""
    low: int
    best: int
    high: int
    logs: int
    """Start-ups that it was measured on."""
    source: str


class SharedGraphs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an estimate of CUDA graphs may come to where the GPU's memory is the host's too, in bytes per GPU.

    It is the difference of two readings of free memory, which the host moves meanwhile: down too, but then it promises
    a cache that isn't there.
    """

    memory_types: tuple[str, ...]
    """Those of cards that have no memory of their own."""
    most: Figure[int]


class Profiled(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="profiled"):
    """A release that measures its largest step at start-up and keeps back what that takes (vLLM).

    The reserve is the largest of three bursts that don't overlap, and what is kept beside them: the sampler's dry run
    over `max_num_seqs` rows of logits, one step of `max_num_batched_tokens` through the widest layer, or a tower's
    largest input.
    """

    sampler_bytes: Figure[float]
    """Bytes for each sequence and entry of the vocabulary; the head is gathered, so tensor parallel doesn't divide."""
    fused_sampler_bytes: Figure[float] | None
    """The same where a sampler is installed that doesn't sort; null: nothing else is usual."""
    channel_bytes: Figure[int]
    """Bytes for each token of a step and channel: of the hidden state, and of the rank's part of the feed-forward."""
    whole_windows_up_to: int
    """Windows up to so many tokens are profiled in one step (before chunked prefill); longer ones in steps of
    `chunk`, without the sampler. 0: steps are `max_num_batched_tokens`, whatever the window."""
    chunk: int
    towers: tuple[TowerBurst, ...]
    """Towers that are known to take more than a step of text; of others nothing is counted."""
    graph_bytes: Figure[int] | None
    """What of the overheads `enforce_eager` gives back: CUDA graphs; null: they are captured outside of the budget."""
    delta_net_spread: Figure[int] | None
    """How much more a start-up may keep back where gated delta nets are tuned while memory is profiled."""
    overheads: tuple[Overhead, ...]
    shared_graphs: SharedGraphs | None = None
    """Null where graphs are captured outside of the budget. Versions stored before there was this field lack it."""


class HeldBack(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="held_back"
):
    """A release that computes from the card and the deployment what to leave free for steps and graphs (SGLang).

    The rest, as a share of the card's memory, is the default of its memory fraction. All amounts in MiB.
    """

    base: int
    per_token: float
    """For each token of a step."""
    least_tokens: int
    """Smaller steps count as one of so many tokens."""
    per_rank: int
    """For each rank of tensor and pipeline parallel."""
    batch: ByMemory
    """The largest batch whose steps are captured."""
    batch_of_many: ByMemory
    """The same from `many` ranks of tensor parallel on."""
    many: int
    per_sequence: int
    """For each sequence of that batch: graphs."""
    per_shared_sequence: int
    """For each sequence of it and each data-parallel copy, where the copies share their experts."""
    per_shared_sequence_of_large: float
    """As much again where the batch has more than `large_batch` sequences."""
    large_batch: int
    least: int
    """At least so much on cards of more than `least_from`."""
    least_from: int
    draft_layers: int
    """For the model's own draft layers."""
    draft_model: int
    """For another checkpoint that drafts."""
    source: str
    overheads: tuple[Overhead, ...]
    """What is gone before the model is loaded: contexts and NCCL."""


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="measured"):
    """A release that runs a filled batch and gives the cache a share of what is left then (TensorRT-LLM).

    What the run takes is known from measurements only.
    """

    channel_bytes: Figure[float]
    """Bytes for each token of a step and channel: of the hidden state, and of the rank's part of the feed-forward."""
    overheads: tuple[Overhead, ...]


ReserveRule = Profiled | HeldBack | Measured
"""Every rule that this release knows; a flat reserve needs none."""
