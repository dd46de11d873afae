"""Compressed sparse attention (DeepSeek-V4): one vector stands for keys and values of several tokens.

Beside the compressed vectors each layer keeps the last tokens uncompressed, and the compressor's own rows. All of it
is copied whole to every tensor-parallel rank.
"""

from service.capacity.cache.footprint import CacheFamily, Context, Footprint, Kept, Ring, Storage, Window
from service.capacity.dtypes import PLAIN_BITS
from service.capacity.units import ceil_div

_BLACKWELL = 10
_FP8_RECORD = 448 + 64 * 2 + 8
"""448 fp8 numbers, 64 rotary numbers in 16 bits, 8 bytes of scales."""
_MXFP8_RECORD = 512 + 16
_NVFP4_RECORD = 288
_FP8_ALIGNMENT, _PLAIN_ALIGNMENT = 576, 512
_CONTEXT_BLOCK = 256
"""Tokens of a block: the indexer's kernels and the sparse backend take no other."""
_FP32 = 4


class LatentVector(Kept, frozen=True, kw_only=True):
    """What the kinds of compressed attention have in common: a vector that is key and value at once."""

    latent_dim: int
    """Elements of the vector, its rotary part included."""
    microscaled: bool = False
    """Whether this generation keeps MXFP8 records where the card has them (DeepSeek-V4.1 on SM100)."""

    @property
    def family(self) -> CacheFamily:
        """Which kernels read it."""
        return "compressed"

    @property
    def formats(self) -> tuple[str, ...]:
        """The number formats that this cache can be kept in."""
        return ("bf16", "fp16", "fp8", "fp8_ds_mla", *(("nvfp4_ds_mla",) if self.microscaled else ()))

    def context_shards(self, ranks: int) -> int:
        """None but one: engines don't spread their windows over ranks."""
        return 1

    def record(self, storage: Storage) -> tuple[int, int, str]:
        """Bytes of one vector, the alignment of its pages, and how they come about. `fp8` means the scaled record."""
        if storage.dtype in PLAIN_BITS and storage.dtype != "fp8":
            width = PLAIN_BITS[storage.dtype] // 8
            return self.latent_dim * width, _PLAIN_ALIGNMENT, f"{self.latent_dim} x {width} B"
        if storage.dtype == "nvfp4_ds_mla":
            return _NVFP4_RECORD, _FP8_ALIGNMENT, "288 B of an NVFP4 record"
        capability = storage.compute_capability
        if self.microscaled and capability is not None and capability[0] == _BLACKWELL:
            return _MXFP8_RECORD, _FP8_ALIGNMENT, "(512 B fp8 + 16 B scales)"
        return _FP8_RECORD, _FP8_ALIGNMENT, "(448 B fp8 + 128 B rotary part + 8 B scales)"


class LatentWindow(LatentVector, frozen=True, kw_only=True, tag_field="kind", tag="latent_window"):
    """Layers that keep the last `window` tokens as vectors."""

    window: int
    block: int
    """Tokens of one block."""

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """One vector per token of the window."""
        size, alignment, formula = self.record(storage)
        if storage.dtype == "nvfp4_ds_mla":
            size, formula = _MXFP8_RECORD, "(512 B fp8 + 16 B scales)"  # only compressed vectors go to 4 bits
        return (
            Footprint(
                kind="latent_window",
                layers=self.layers,
                at=self.at,
                record_bytes=size,
                span=Window(self.window),
                block=self.block,
                alignment=alignment,
                formula=formula,
            ),
        )


class CompressedLatent(LatentVector, frozen=True, kw_only=True, tag_field="kind", tag="compressed_latent"):
    """Layers that keep one vector per `tokens_per_vector` tokens, some with an index key beside each.

    The compressor's rows are fp32 and live as short windows of `rows` tokens, `row_width` numbers each (and
    `index_row_width` for the index keys' own compressor), in blocks of `row_block`.
    """

    tokens_per_vector: int
    index_dim: int | None = None
    """Elements of an index key (fp8, with one fp32 scale); null: none."""
    rows: int | None = None
    row_width: int = 0
    index_row_width: int = 0
    row_block: int = 1

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """Vectors and index keys grow with the context; the compressor's rows don't."""
        size, alignment, formula = self.record(storage)
        kept = [self._growing("compressed_latent", size, alignment, formula)]
        if self.index_dim is not None:
            scale = ceil_div(self.index_dim, 128) * 4
            formula = f"({self.index_dim} B fp8 + {scale} B scale)"
            kept.append(self._growing("index_keys", self.index_dim + scale, alignment, formula))
        if self.rows is not None:
            widths = (self.row_width, self.index_row_width)
            kept += [self._rows(self.rows, width, alignment) for width in widths if width]
        return tuple(kept)

    def _rows(self, rows: int, width: int, alignment: int) -> Footprint:
        return Footprint(
            kind="compressor",
            layers=self.layers,
            at=self.at,
            record_bytes=width * _FP32,
            span=Window(rows),
            block=self.row_block,
            alignment=alignment,
            formula=f"{width} x {_FP32} B",
        )

    def _growing(self, kind: str, size: int, alignment: int, formula: str) -> Footprint:
        return Footprint(
            kind=kind,
            layers=self.layers,
            at=self.at,
            record_bytes=size,
            tokens_per_record=self.tokens_per_vector,
            span=Context(),
            block=_CONTEXT_BLOCK,
            alignment=alignment,
            formula=f"{formula} / {self.tokens_per_vector} tokens",
        )


class RowRing(Kept, frozen=True, kw_only=True, tag_field="kind", tag="ring"):
    """A few rows per request that wait to be pooled, overwritten in turn. Drafts lengthen it."""

    row_bytes: int
    waiting: int
    """Rows that wait when nothing is drafted."""
    step: int = 1
    """Rows come in so many at a time."""
    power_of_two: bool = False
    """Whether the number of steps is a power of two."""
    least_rows: int = 1

    @property
    def family(self) -> CacheFamily:
        """Which kernels read it."""
        return "compressed"

    def footprints(self, storage: Storage) -> tuple[Footprint, ...]:
        """Rows x bytes, once per request, the same on every rank."""
        steps = ceil_div(self.waiting + storage.speculative_tokens, self.step)
        if self.power_of_two:
            steps = 1 << (steps - 1).bit_length()
        rows = max(self.least_rows, steps * self.step)
        return (
            Footprint(
                kind="ring",
                layers=self.layers,
                at=self.at,
                record_bytes=rows * self.row_bytes,
                span=Ring(),
                formula=f"{rows} rows x {self.row_bytes} B",
            ),
        )
