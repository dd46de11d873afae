"""One frozen type per kind of KV cache: each says what its layers store on one rank (`footprints`)."""

from service.capacity.cache.attention import (
    ChunkedLocal,
    CrossAttention,
    EncoderOnly,
    FullAttention,
    KeysAndValues,
    SharedCache,
    SlidingWindow,
)
from service.capacity.cache.compressed import CompressedLatent, LatentWindow, RowRing
from service.capacity.cache.footprint import CacheFamily, Footprint, Storage, Terms
from service.capacity.cache.history import ConvolutionHistory
from service.capacity.cache.latent import IndexKeys, LatentAttention
from service.capacity.cache.states import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    Mamba1,
    Mamba2,
    ShortConvolution,
)

CacheKind = (
    FullAttention
    | SlidingWindow
    | ChunkedLocal
    | CrossAttention
    | EncoderOnly
    | SharedCache
    | LatentAttention
    | IndexKeys
    | LatentWindow
    | CompressedLatent
    | RowRing
    | ConvolutionHistory
    | Mamba1
    | Mamba2
    | GatedDeltaNet
    | KimiDeltaAttention
    | LightningAttention
    | ShortConvolution
)
"""Every kind that this release plans."""

__all__ = [
    "CacheFamily",
    "CacheKind",
    "ChunkedLocal",
    "CompressedLatent",
    "ConvolutionHistory",
    "CrossAttention",
    "EncoderOnly",
    "Footprint",
    "FullAttention",
    "GatedDeltaNet",
    "IndexKeys",
    "KeysAndValues",
    "KimiDeltaAttention",
    "LatentAttention",
    "LatentWindow",
    "LightningAttention",
    "Mamba1",
    "Mamba2",
    "RowRing",
    "SharedCache",
    "ShortConvolution",
    "SlidingWindow",
    "Storage",
    "Terms",
]
