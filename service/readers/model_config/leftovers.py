"""Fields that nobody read: harmless by name, or a reason to refuse."""

import re
from collections.abc import Mapping

from service.readers.model_config.fields import Fields

_HARMLESS = frozenset(
    [
        "_name_or_path",
        "_attn_implementation",
        "_attn_implementation_autoset",
        "_from_model_config",
        "architectures",
        "attn_implementation",
        "attention_dropout",
        "attention_probs_dropout_prob",
        "attn_dropout",
        "auto_map",
        "activation_function",
        "bad_words_ids",
        "base_model_tp_plan",
        "begin_suppress_tokens",
        "chunk_size_feed_forward",
        "diversity_penalty",
        "do_sample",
        "early_stopping",
        "embd_pdrop",
        "exponential_decay_length_penalty",
        "finetuning_task",
        "freq_allocation",
        "hidden_act",
        "hidden_activation",
        "id2label",
        "init_method",
        "initializer_factor",
        "input_jitter_noise",
        "router_jitter_noise",
        "is_decoder",
        "label2id",
        "language_model_only",
        "length_penalty",
        "mamba_hidden_act",
        "max_length",
        "min_length",
        "mlp_hidden_act",
        "model_type",
        "name_or_path",
        "no_repeat_ngram_size",
        "encoder_no_repeat_ngram_size",
        "num_beam_groups",
        "num_beams",
        "num_return_sequences",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "output_scores",
        "partial_rotary_factor",
        "prefix",
        "problem_type",
        "projector_hidden_act",
        "remove_invalid_values",
        "repetition_penalty",
        "resid_pdrop",
        "return_dict",
        "return_dict_in_generate",
        "spatial_merge_size",
        "sep_token_id",
        "suppress_tokens",
        "task_specific_params",
        "temperature",
        "tf_legacy_loss",
        "tie_encoder_decoder",
        "tokenizer_class",
        "top_k",
        "top_p",
        "torchscript",
        "transformers.js_config",
        "typical_p",
        "unsloth_fixed",
        "unsloth_version",
        "use_bfloat16",
        "use_cache",
        "use_unified_vision_chunk",
        "video_placeholder",
        "image_placeholder",
        "pretraining_tp",
        "vision_feature_layer",
        "vision_feature_select_strategy",
        "vision_soft_tokens_per_image",
        "mm_tokens_per_image",
        "multimodal_projector_bias",
        "ignore_index",
        "image_seq_length",
        "image_grid_pinpoints",
        "image_aspect_ratio",
        "use_image_newline_parameter",
        "model_max_length",
        "tokenizer_config",
        "padding_side",
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "layer_norm_eps",
        "layer_norm_epsilon",
        "layernorm_epsilon",
        "original_max_position_embeddings",
    ]
)
_OBJECTS = frozenset(
    [
        "auto_map",  # which code is loaded: its names are checked with the architecture's
        "exllama_config",  # which kernel one engine multiplies by
        "exponential_decay_length_penalty",  # how text is generated
        "id2label",
        "label2id",  # the words of a classifier's head
        "init_config",  # how parameters were drawn before training
        "meta",  # notes of the tool that quantised
        "producer",  # its name and version
        "task_specific_params",  # how text is generated, task by task
        "tokenizer_config",
        "transformers.js_config",  # how a browser loads other files of the repository
    ]
)
"""Harmless names whose values may be objects, of whatever is in them. Any other object is read or refused."""
_OF_MEMORY = re.compile(
    "cache|kv|window|head|layer|state|latent|rank|memor|token|attn|attention|share|compress|chunk|slot|sink|recurrent"
)
"""Words that may concern the cache: no pattern makes a name that has one harmless."""
_OF_A_TOKEN = re.compile(r"([a-z0-9_]+)_token_(?:id|ids|id_list|index)")
"""Numbers of single tokens of the vocabulary."""
_HARMLESS_WORDS = re.compile(
    r"""([a-z0-9_]+_)?dropout(_prob)?
      |([a-z0-9_]+_)?(eps|epsilon|version)
      |([a-z0-9_]+_)?(loss_coef|loss_weight)
      |(rope|rotary)_(theta|base|dim|percent|pct|emb_base|local_base_freq|interleave|interleaved|type|scaling_factor)
      |initializer_range|init_std|mup_(base_width|width_multiplier|embedding_multiplier)|activation_situ_(linear_)?beta""",
    re.VERBOSE,
)
_TOWERS = re.compile(
    r"(vision|audio|video|image|speech|visual|vit|talker|token2wav|code2wav|projector|sound)_?(config|encoder_config|tower_config)?"
)


def is_tower(name: str) -> bool:
    """Whether it is the nested configuration of what isn't the text decoder."""
    return _TOWERS.fullmatch(name) is not None


def unknown_in(fields: Fields, harmless: frozenset[str]) -> tuple[str, ...]:
    """Names that no one read and that aren't known to be harmless, in alphabetical order.

    What is null, false or empty is switched off. Of an object it isn't enough that its name is known: it has to be
    read field by field, or its name is one of those that hold nothing of the text decoder.
    """
    return tuple(
        name
        for name in sorted(fields.names())
        if not is_tower(name) and not _switched_off(fields, name) and not _is_known(fields, name, harmless)
    )


def _is_known(fields: Fields, name: str, harmless: frozenset[str]) -> bool:
    by_name = name in harmless or name in _HARMLESS or _by_pattern(name)
    if _holds_objects(fields.written(name)):
        return name in fields.opened or (by_name and name in _OBJECTS)
    return by_name or name in fields.read


def _holds_objects(value: object) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(item, Mapping) for item in value))


def _by_pattern(name: str) -> bool:
    if of_a_token := _OF_A_TOKEN.fullmatch(name):
        return not _OF_MEMORY.search(of_a_token[1])
    return _HARMLESS_WORDS.fullmatch(name) is not None and not _OF_MEMORY.search(name)


def _switched_off(fields: Fields, name: str) -> bool:
    value = fields.written(name)
    return value is None or value is False or value in ([], {}, "")
