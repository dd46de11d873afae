"""Recurrent states: what layers without a growing cache keep of a request.

A state is rewritten at every step and is as large for one token as for a million. Convolution windows are kept in
the model's dtype and grow by the draft's tokens; states have a format of their own, whatever the cache's. Both are
sharded by tensor parallel.
"""

from service.capacity.cache.footprint import CacheFamily, Footprint, Kept, State, Storage
from service.capacity.dtypes import PLAIN_BITS


class Recurrent(Kept, frozen=True, kw_only=True):
    """What recurrent layers of every kind have in common."""

    state_dtype: str | None = None
    """The format of the state; null: the model's dtype."""

    @property
    def family(self) -> CacheFamily:
        """Which kernels read it."""
        return "state"

    def _footprint(
        self, storage: Storage, kind: str, *, conv: int, conv_rows: int, state: int, checkpointed: bool
    ) -> tuple[Footprint, ...]:
        """Convolution channels x rows and state elements of one rank."""
        conv_width = PLAIN_BITS[storage.model_dtype] // 8
        state_width = PLAIN_BITS[self.state_dtype or storage.model_dtype] // 8
        terms = []
        if conv:
            terms.append(f"{conv} channels x {conv_rows} x {conv_width} B")
        if state:
            terms.append(f"{state} state elements x {state_width} B")
        return (
            Footprint(
                kind=kind,
                layers=self.layers,
                at=self.at,
                record_bytes=conv * conv_rows * conv_width + state * state_width,
                span=State(checkpointed),
                formula=" + ".join(terms),
            ),
        )


class Mamba1(Recurrent, frozen=True, kw_only=True, tag_field="kind", tag="mamba1"):
    """Selective state space (Mamba, Jamba)."""

    inner_dim: int
    state_dim: int
    conv_kernel: int

    def can_split(self, ranks: int) -> bool:
        """Whether so many ranks get as many channels each."""
        return self.inner_dim % ranks == 0

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """Inner channels x (state + kernel - 1)."""
        channels = self.inner_dim // storage.tensor_parallel
        return self._footprint(
            storage,
            "mamba1",
            conv=channels,
            conv_rows=self.conv_kernel - 1,
            state=channels * self.state_dim,
            checkpointed=False,
        )


class Mamba2(Recurrent, frozen=True, kw_only=True, tag_field="kind", tag="mamba2"):
    """State space duality (Mamba-2: Nemotron-H, Granite 4, Falcon-H1)."""

    heads: int
    head_dim: int
    groups: int
    state_dim: int
    conv_kernel: int

    def can_split(self, ranks: int) -> bool:
        """Whether so many ranks get as many heads each."""
        return self.heads % ranks == 0

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """Heads x head x state, and the convolution over heads x head + 2 groups x state channels.

        Groups that tensor parallel doesn't divide are repeated until it does: one per rank.
        """
        ranks = storage.tensor_parallel
        groups = self.groups if self.groups % ranks == 0 else max(self.groups, ranks)
        channels = (self.heads * self.head_dim + 2 * groups * self.state_dim) // ranks
        return self._footprint(
            storage,
            "mamba2",
            conv=channels,
            conv_rows=self.conv_kernel - 1 + storage.speculative_tokens,
            state=self.heads // ranks * self.head_dim * self.state_dim,
            checkpointed=True,
        )


class GatedDeltaNet(Recurrent, frozen=True, kw_only=True, tag_field="kind", tag="gated_delta_net"):
    """Gated delta rule (Qwen3-Next, Qwen3.5 and later)."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int

    def can_split(self, ranks: int) -> bool:
        """Whether so many ranks get as many heads each."""
        return self.key_heads % ranks == 0 and self.value_heads % ranks == 0

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """Value heads x value x key, and the convolution over queries, keys and values."""
        ranks = storage.tensor_parallel
        channels = (2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim) // ranks
        return self._footprint(
            storage,
            "gated_delta_net",
            conv=channels,
            conv_rows=self.conv_kernel - 1 + storage.speculative_tokens,
            state=self.value_heads // ranks * self.value_dim * self.key_dim,
            checkpointed=True,
        )


class KimiDeltaAttention(Recurrent, frozen=True, kw_only=True, tag_field="kind", tag="kda"):
    """Kimi delta attention (Kimi-Linear, Kimi-K3, GLM-5.3-Flash, Ling-3.0)."""

    heads: int
    head_dim: int
    conv_kernel: int

    def can_split(self, ranks: int) -> bool:
        """Whether so many ranks get as many heads each."""
        return self.heads % ranks == 0

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """Heads x head x head, and the convolutions over queries, keys and values."""
        ranks = storage.tensor_parallel
        return self._footprint(
            storage,
            "kda",
            conv=3 * self.heads * self.head_dim // ranks,
            conv_rows=self.conv_kernel - 1 + storage.speculative_tokens,
            state=self.heads // ranks * self.head_dim * self.head_dim,
            checkpointed=True,
        )


class LightningAttention(Recurrent, frozen=True, kw_only=True, tag_field="kind", tag="lightning"):
    """Linear attention with a fixed decay (MiniMax-01, Ring, Ling 2.6): no convolution."""

    heads: int
    head_dim: int

    def can_split(self, ranks: int) -> bool:
        """Whether so many ranks get as many heads each."""
        return self.heads % ranks == 0

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """Heads x head x head."""
        state = self.heads // storage.tensor_parallel * self.head_dim * self.head_dim
        return self._footprint(storage, "lightning", conv=0, conv_rows=0, state=state, checkpointed=False)


class ShortConvolution(Recurrent, frozen=True, kw_only=True, tag_field="kind", tag="short_conv"):
    """A convolution over the last few tokens and nothing else (LFM2)."""

    channels: int
    conv_kernel: int
    replicated: bool = False
    """Whether every tensor-parallel rank holds all channels; such windows grow by the draft's tokens as well."""

    def can_split(self, ranks: int) -> bool:
        """Whether so many ranks get as many channels each."""
        return self.replicated or self.channels % ranks == 0

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """Channels x (kernel - 1)."""
        ranks = 1 if self.replicated else storage.tensor_parallel
        drafted = storage.speculative_tokens if self.replicated else 0
        return self._footprint(
            storage,
            "short_conv",
            conv=self.channels // ranks,
            conv_rows=self.conv_kernel - 1 + drafted,
            state=0,
            checkpointed=self.replicated,
        )
