"""Latent caches: one compressed vector per token that stands for the keys and values of all heads.

No rank can hold a part of it, so tensor parallel copies it whole to every rank.
"""

from service.capacity.cache.footprint import CacheFamily, Context, Footprint, Kept, Storage
from service.capacity.dtypes import PLAIN_BITS
from service.capacity.units import ceil_div

_HOPPER, _WORKSTATION_BLACKWELL = 9, 12

_SCALED_FP8 = 512 + 4 * 4 + 64 * 2
"""fp8_ds_mla: 512 fp8 numbers, four fp32 scales, 64 rotary numbers in 16 bits."""
_SCALED_NVFP4 = 352
"""nvfp4_ds_mla: 512 numbers of 4 bits, their fp8 scales, and the rotary part."""
_LONG_HEAD = 256
"""Elements that heads of more than 128 are padded to a multiple of."""
_SCALED_SHAPE = (512, 64)
"""The only latent that the scaled records are made for."""


class LatentAttention(Kept, frozen=True, kw_only=True, tag_field="kind", tag="latent"):
    """Multi-head latent attention (DeepSeek): one latent and one rotary key per token and layer."""

    latent_dim: int
    """kv_lora_rank."""
    rope_dim: int
    """qk_rope_head_dim; 0 where the latent carries the position itself."""
    sparse: bool = False
    """Whether an indexer picks the tokens that are read: such kernels take other records."""
    heads: int | None = None
    """Heads that the latent stands for; only engines without kernels for latents ask."""
    key_dim: int | None = None
    """Elements of a key of one such head, its rotary part included."""

    @property
    def family(self) -> CacheFamily:
        """Which kernels read it."""
        return "latent"

    @property
    def formats(self) -> tuple[str, ...]:
        """The number formats that this cache can be kept in."""
        scaled = ("fp8_ds_mla", "nvfp4_ds_mla") if (self.latent_dim, self.rope_dim) == _SCALED_SHAPE else ()
        return ("bf16", "fp16", "fp32", "fp8", *scaled)

    def stored_as(self, storage: Storage) -> str:
        """The record that engines really keep: sparse kernels take scaled fp8 on Hopper, and only that on SM12x."""
        if not self.sparse or storage.compute_capability is None or "fp8_ds_mla" not in self.formats:
            return storage.dtype
        generation = storage.compute_capability[0]
        if generation == _WORKSTATION_BLACKWELL and storage.dtype != "nvfp4_ds_mla":
            return "fp8_ds_mla"
        return "fp8_ds_mla" if generation == _HOPPER and storage.dtype == "fp8" else storage.dtype

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """(Latent + rotary key) x element for every token, the same on every rank."""
        as_heads = storage.latents_as_heads and storage.dtype in PLAIN_BITS
        if as_heads and self.heads is not None and self.key_dim is not None:
            return (self._as_heads(self.heads, self.key_dim, storage),)
        dtype = self.stored_as(storage)
        if dtype == "fp8_ds_mla":
            size, formula = _SCALED_FP8, "(512 B fp8 + 16 B scales + 128 B rotary key)"
        elif dtype == "nvfp4_ds_mla":
            size, formula = _SCALED_NVFP4, "352 B of an NVFP4 record"
        else:
            size = ceil_div((self.latent_dim + self.rope_dim) * PLAIN_BITS[dtype], 8)
            formula = f"({self.latent_dim} + {self.rope_dim}) x {PLAIN_BITS[dtype] // 8} B"
        return (
            Footprint(
                kind="latent", layers=self.layers, at=self.at, record_bytes=size, span=Context(), formula=formula
            ),
        )

    def _as_heads(self, heads: int, key_dim: int, storage: Storage) -> Footprint:
        """Keys and values of every head, both as wide as kernels for long heads take them."""
        width = ceil_div(key_dim, _LONG_HEAD) * _LONG_HEAD
        own = max(1, heads // storage.tensor_parallel)
        bits = PLAIN_BITS[storage.dtype]
        return Footprint(
            kind="latent_as_heads",
            layers=self.layers,
            at=self.at,
            record_bytes=ceil_div(own * 2 * width * bits, 8),
            span=Context(),
            formula=f"{own} heads x ({width} + {width}) x {bits // 8} B, as this engine has no kernels for latents",
        )


class IndexKeys(Kept, frozen=True, kw_only=True, tag_field="kind", tag="index_keys"):
    """One small key per token (or per few tokens) by which a sparse-attention indexer finds what to read."""

    key_dim: int
    stored: str
    """`fp8` with one fp32 scale per 128 numbers, `fp8_unscaled`, or `bf16`: its own format, whatever the cache's."""
    tokens_per_key: int = 1

    @property
    def family(self) -> CacheFamily:
        """Which kernels read it."""
        return "latent"

    def context_shards(self, ranks: int) -> int:
        """As the latents they belong to; those beside heads (16-bit or unscaled keys) aren't spread."""
        return ranks if self.stored == "fp8" else 1

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """One key per record, the same on every rank."""
        if self.stored == "fp8":
            size = self.key_dim + ceil_div(self.key_dim, 128) * 4
            formula = f"({self.key_dim} B fp8 + {size - self.key_dim} B scale)"
        elif self.stored == "fp8_unscaled":
            size, formula = self.key_dim, f"{self.key_dim} B fp8"
        else:
            size, formula = self.key_dim * 2, f"{self.key_dim} x 2 B"
        pooled = f" / {self.tokens_per_key} tokens" if self.tokens_per_key > 1 else ""
        return (
            Footprint(
                kind="index_keys",
                layers=self.layers,
                at=self.at,
                record_bytes=size,
                tokens_per_record=self.tokens_per_key,
                span=Context(),
                formula=formula + pooled,
            ),
        )
