"""Every model type that can be read. Adding an architecture is one entry in the table of its kind."""

from collections.abc import Mapping

from service.readers.model_config.classic import CLASSIC
from service.readers.model_config.compressed import COMPRESSED
from service.readers.model_config.decoder import Family
from service.readers.model_config.dense import DENSE
from service.readers.model_config.gemma4 import GEMMA4
from service.readers.model_config.hybrid import HYBRID
from service.readers.model_config.hybrid_latent import HYBRID_LATENT
from service.readers.model_config.latent import LATENT
from service.readers.model_config.mamba import MAMBA
from service.readers.model_config.mixture import MIXTURE_FAMILIES

FAMILIES: Mapping[str, Family] = {
    **DENSE,
    **CLASSIC,
    **MIXTURE_FAMILIES,
    **LATENT,
    **HYBRID,
    **HYBRID_LATENT,
    **MAMBA,
    **COMPRESSED,
    **GEMMA4,
}
"""Model types and how they are read."""

BY_ARCHITECTURE: Mapping[str, str] = {
    "LlamaForCausalLM": "llama",
    "LongcatCausalLM": "longcat",
    "MistralLarge3ForCausalLM": "deepseek_v3",
    "KimiK3ForConditionalGeneration": "kimi_k3",
    "BailingMoeV2_5ForCausalLM": "bailing_hybrid",
    "BailingMoeV3ForCausalLM": "bailing_hybrid_v3",
}
"""Model types of architectures whose configuration names none, or one that several share."""

TEXT_TYPES: Mapping[str, str] = {
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "mistral3": "mistral",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "llava": "llama",
    "llava_next": "llama",
}
"""Model types of nested text configurations that name none."""

UNPLANNED: Mapping[str, str] = {
    "lfm3": "LFM3 isn't planned yet: its configuration doesn't say which layers are attention",
}
"""Model types that are known, and what about them isn't planned."""
