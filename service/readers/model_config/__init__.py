"""The reader of Hugging Face `config.json` files: the shapes, caches and weights of a model."""

from service.readers.model_config.reading import read_model

__all__ = ["read_model"]
