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
"""Model types of architectures whose configurations may name none."""

SHARED: Mapping[tuple[str, str], str] = {
    ("MistralLarge3ForCausalLM", "mistral"): "deepseek_v3",
    ("KimiK3ForConditionalGeneration", "kimi_linear"): "kimi_k3",
    ("BailingMoeV3ForCausalLM", "bailing_hybrid"): "bailing_hybrid_v3",
}
"""Architectures under the model type of another: which one they are read as."""

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

WRAPPERS: Mapping[str, str] = {
    "aya_vision": "AyaVision",
    "cohere2_vision": "Cohere2Vision",
    "deepseek_vl_v2": "DeepseekVLV2",
    "got_ocr2": "GotOcr2",
    "idefics3": "Idefics3",
    "inkling_mm_model": "Inkling",
    "interns1": "InternS1",
    "internvl": "InternVL",
    "internvl_chat": "InternVLChat",
    "kimi_k25": "KimiK25",
    "kimi_vl": "KimiVL",
    "lfm2_vl": "Lfm2Vl",
    "llava": "Llava",
    "llava_next": "LlavaNext",
    "llava_next_video": "LlavaNextVideo",
    "llava_onevision": "LlavaOnevision",
    "mistral3": "Mistral3",
    "paligemma": "PaliGemma",
    "qwen2_5_omni": "Qwen2_5Omni",
    "qwen2_5_omni_thinker": "Qwen2_5OmniThinker",
    "smolvlm": "SmolVLM",
    "video_llava": "VideoLlava",
    "vipllava": "VipLlava",
    "voxtral": "Voxtral",
}
"""Model types around a text decoder of any family, and what their classes are called. They put images or sound before
it as tokens, and keep nothing of their own."""

UNPLANNED: Mapping[str, str] = {
    "lfm3": "LFM3 isn't planned from a configuration, which doesn't say which layers are attention:"
    " the catalog has LiquidAI/LFM3-1.7B",
}
"""Model types that are known, and what about them isn't planned."""
