"""Configurations of models for tests, as their files have them."""

from collections.abc import Mapping
from typing import Any

LLAMA: Mapping[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
"""Llama 3 8B, with only what a reader needs."""
