"""Every collected config.json against what was found out about its model, where the collection is at hand."""

import json
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from service.capacity.cache import CompressedLatent, ConvolutionHistory, EncoderOnly, LatentWindow, SharedCache
from service.capacity.cache.footprint import Chunk, Context, Ring, State, Storage, Window
from service.capacity.model import Model
from service.errors import Refused
from service.readers.model_config import read_model
from tests.collected import FOLDER, collected, entries

ENTRIES: dict[str, dict[str, Any]] = {
    entry["hf_id"]: entry for entry in entries("models", "models_2026", under="models") if entry["raw_config"]
}
REFUSED = {
    "meituan-longcat/LongCat-2.0": "/kv_lora_rank",
    "LiquidAI/LFM3-1.7B": "/model_type",
}
CORRECTED_TOTALS = {
    # The collection counts a bias of the output projection, which the model doesn't have: with 36 x 4,096 fewer, the
    # published total is decoder and draft layer exactly (7,622,619,136 + 210,790,400 = 7,833,409,536).
    "XiaomiMiMo/MiMo-7B-Base": 7_622_619_136,
}
CONTEXTS = {
    # The collection ignores the dynamic RoPE factor of 2, by which engines lengthen 32,768.
    "internlm/internlm2_5-7b-chat": 65_536,
}
UNCOUNTED = {
    # The collection says itself that its total lacks the gates.
    "thinkingmachines/Inkling",
}
DECODER_LAYERS = {
    # The collection counts its 28 attention sublayers; each decoder layer has two.
    "meituan-longcat/LongCat-Flash-Lite-Sparse": 14,
}
WITHOUT_DRAFTS = {
    # The collection shows the ring with 1 to 4 drafts: 8 rows instead of 4, of 512 bytes, in 11 layers.
    "zai-org/GLM-5.3-Flash": 4 * 512 * 11,
}
WIDER = {
    # The layers of one token's share of the experts alternate with dense ones of 16,384.
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": 16_384,
    # The collection has the experts' width where the dense layers' is another.
    "thinkingmachines/Inkling": 24_576,
    # Layers that share a cache are twice as wide.
    "google/gemma-4-E2B-it": 2 * 6_144,
    # The collection has none: the widest block is 5.25 x 2/3 x 8,192.
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1": 28_672,
}
WITHOUT_WIDTHS = ("nvidia/NVIDIA-Nemotron-Labs-3-Puzzle-75B-A9B-BF16",)
STATES = {
    # The collection counts states of 4 bytes; the engine's own logs show 2 for this generation.
    "Qwen/Qwen3-Coder-Next": 39_518_208,
}
KINDS = {
    "full": {"FullAttention", "LatentAttention"},
    "mla": {"LatentAttention"},
    "sliding": {"SlidingWindow"},
    "chunked": {"ChunkedLocal"},
    "mamba": {"Mamba2"},
    "mamba1": {"Mamba1"},
    "moe_only": set(),
    "mlp": set(),
    "no_attention": set(),
    "linear": {"GatedDeltaNet"},
    "kda": {"KimiDeltaAttention"},
    "lightning": {"LightningAttention"},
    "shortconv": {"ShortConvolution"},
}
BESIDE = {"IndexKeys", "RowRing", "LatentWindow", "ConvolutionHistory"}
"""Kinds that the collection doesn't count as layers of their own."""

pytestmark = collected


def config_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((FOLDER / entry["raw_config"]).read_text())
    return config


def read(name: str) -> tuple[dict[str, Any], Model]:
    entry = ENTRIES[name]
    return entry, read_model(config_of(entry))


def layers_of(model: Model) -> list[set[str]]:
    """The kinds of caches in each layer."""
    assert model.layers is not None
    count = model.layers.value
    found: list[set[str]] = [set() for _ in range(count)]
    for cache in model.caches.value:
        if isinstance(cache, SharedCache | EncoderOnly):
            continue
        label = type(cache).__name__
        if isinstance(cache, CompressedLatent):
            label = {4: "csa", 128: "hca"}.get(cache.tokens_per_vector, "ced")
        for first, end, step in cache.at or ((0, count, 1),):
            for layer in range(first, end, step):
                found[layer].add(label)
    return found


READABLE = sorted(set(ENTRIES) - set(REFUSED))


def test_169_configurations_were_collected() -> None:
    assert len(ENTRIES) == 169


@pytest.mark.parametrize(("name", "pointer"), REFUSED.items())
def test_a_configuration_that_cannot_be_read_is_refused_by_name(name: str, pointer: str) -> None:
    with pytest.raises(Refused) as refused:
        read_model(config_of(ENTRIES[name]))
    assert refused.value.faults[0].pointer == pointer


@pytest.mark.parametrize("name", READABLE)
def test_the_widths_and_the_context_are_the_ones_found(name: str) -> None:
    entry, model = read(name)
    assert model.hidden_size is not None
    assert model.vocab_size is not None
    assert model.layers is not None
    assert model.hidden_size.value == entry["hidden_size"]
    assert model.vocab_size.value == entry["vocab_size"]
    assert model.query_heads.value == entry["num_attention_heads"]
    assert model.max_position_embeddings.value == CONTEXTS.get(name, entry["max_position_embeddings"])
    assert model.layers.value == DECODER_LAYERS.get(name, entry["num_hidden_layers"])


@pytest.mark.parametrize("name", READABLE)
def test_each_layer_keeps_the_kind_of_cache_found(name: str) -> None:
    entry, model = read(name)
    expected = [
        label
        for run in entry["layer_kinds_rle"].split()
        for label in [run.partition("x")[2]] * int(run.partition("x")[0])
    ]
    if name in DECODER_LAYERS:
        expected = expected[::2]
    owning = len(expected) - (entry["num_kv_shared_layers"] or 0)
    for layer, (label, found) in enumerate(zip(expected, layers_of(model), strict=True)):
        kinds = found - BESIDE
        if layer >= owning:
            assert kinds == set()
        elif label in ("csa", "hca"):
            assert kinds == {label}
        elif label in ("swa_only", "ced"):
            assert kinds <= {"ced"}
        else:
            expected_kinds = KINDS[label]
            ple = kinds - {"ShortConvolution"} if label != "shortconv" else kinds
            assert (ple <= expected_kinds and len(ple) == 1) if expected_kinds else ple == set()


@pytest.mark.parametrize("name", READABLE)
def test_heads_windows_and_latents_are_the_ones_found(name: str) -> None:
    entry, model = read(name)
    for cache in model.caches.value:
        kind = type(cache).__name__
        if kind in ("SlidingWindow", "LatentWindow"):
            assert getattr(cache, "window") == entry["sliding_window_effective"]  # noqa: B009
        if kind == "ChunkedLocal":
            assert getattr(cache, "chunk") == entry["attention_chunk_size"]  # noqa: B009
        if kind == "LatentAttention":
            latent = entry["mla"]
            assert (cache.latent_dim, cache.rope_dim) == (latent["kv_lora_rank"], latent["qk_rope_head_dim"] or 0)  # type: ignore[union-attr]
        if kind in ("FullAttention", "SlidingWindow", "ChunkedLocal") and not entry.get("per_layer_type_geometry"):
            heads = {heads for heads in entry["per_layer_kv_heads"] or [entry["num_key_value_heads"]] if heads}
            assert {cache.kv_heads} == heads  # type: ignore[union-attr]
            assert (cache.key_dim, cache.value_dim) == (entry["head_dim"], entry["head_dim"])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "name", [name for name in READABLE if (ENTRIES[name].get("per_layer_type_geometry") or {}).get("full_attention")]
)
def test_layers_of_unlike_heads_are_told_apart(name: str) -> None:
    entry, model = read(name)
    kinds = {"FullAttention": "full_attention", "SlidingWindow": "sliding_attention"}
    for cache in model.caches.value:
        if isinstance(cache, SharedCache | ConvolutionHistory):
            continue
        geometry = entry["per_layer_type_geometry"][kinds[type(cache).__name__]]
        found = (cache.kv_heads, cache.key_dim, cache.value_dim)  # type: ignore[union-attr]
        assert found == (geometry["kv_heads"], geometry["head_dim"], geometry.get("v_head_dim", geometry["head_dim"]))


@pytest.mark.parametrize("name", [name for name in READABLE if ENTRIES[name]["recurrent_state"]])
def test_states_are_the_ones_found(name: str) -> None:
    entry, model = read(name)
    state = entry["recurrent_state"]
    dtype = {"float32": "fp32", None: None}[state.get("ssm_dtype")]
    cache = next(one for one in model.caches.value if "state_dtype" in one.__struct_fields__)
    if state["type"] in ("kda", "gated_deltanet") or "3" in name:
        assert cache.state_dtype in (dtype, "fp32")  # type: ignore[union-attr]
    (footprint,) = cache.footprints(Storage(dtype="bf16", model_dtype="fp32"))
    elements = (state.get("per_layer_ssm_state_elems") or 0) + (state.get("per_layer_conv_state_elems") or 0)
    assert footprint.record_bytes == 4 * elements
    assert footprint.layers == state["num_state_layers"]


@pytest.mark.parametrize("name", [name for name in READABLE if ENTRIES[name]["total_params"] and name not in UNCOUNTED])
def test_the_parameters_are_counted_to_the_unit(name: str) -> None:
    entry, model = read(name)
    assert model.parameters is not None
    assert model.parameters.value == CORRECTED_TOTALS.get(name, entry["total_params"])
    assert model.weights is not None
    assert sum(part.parameters for part in model.weights.value if part.needed == "always") == model.parameters.value


@pytest.mark.parametrize("name", [name for name in READABLE if ENTRIES[name].get("cache_components")])
def test_the_bytes_of_a_token_and_of_a_request_are_the_ones_found(name: str) -> None:
    entry, model = read(name)
    storage = Storage(dtype="bf16", model_dtype="bf16")
    footprints = [footprint for cache in model.caches.value for footprint in cache.footprints(storage)]
    growing = sum(
        (
            Fraction(one.record_bytes * one.layers, one.tokens_per_record)
            for one in footprints
            if isinstance(one.span, Context)
        ),
        Fraction(0),
    )
    fixed = 0
    for one in footprints:
        if isinstance(one.span, Window | Chunk):
            fixed += one.record_bytes * one.layers * one.span.tokens
        elif isinstance(one.span, State | Ring):
            fixed += one.record_bytes * one.layers
    assert growing == Fraction(entry["kv_bytes_per_token_tp1_bf16"])
    found = entry["state_bytes_per_request_tp1"] or 0
    assert fixed + WITHOUT_DRAFTS.get(name, 0) == STATES.get(name, found)


@pytest.mark.parametrize("name", [name for name in READABLE if name not in WITHOUT_WIDTHS])
def test_the_widest_feed_forward_layer_is_the_one_found(name: str) -> None:
    entry, model = read(name)
    experts, dense = entry["moe"], WIDER.get(name, entry["intermediate_size"])
    routed = experts["experts_per_token"] * experts["moe_intermediate_size"] if experts else 0
    has_dense_layers = not experts or experts.get("first_k_dense_replace") or name in WIDER
    assert model.feed_forward_width is not None
    assert model.feed_forward_width.value == max(routed, dense if has_dense_layers else 0)


@pytest.mark.parametrize("name", WITHOUT_WIDTHS)
def test_a_width_that_no_field_states_is_null(name: str) -> None:
    assert read(name)[1].feed_forward_width is None


def backwards(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {name: backwards(value[name]) for name in reversed(value)}
    return value


@pytest.mark.parametrize("name", READABLE)
def test_the_order_of_fields_changes_nothing(name: str) -> None:
    config = config_of(ENTRIES[name])
    assert read_model(backwards(config)) == read_model(config)


def drafted(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("mtp")) and entry["mtp"].get("extra_kv_elems_per_token") is not None


@pytest.mark.parametrize("name", [name for name in READABLE if drafted(ENTRIES[name])])
def test_draft_layers_keep_what_was_found_where_the_configuration_declares_them(name: str) -> None:
    entry, model = read(name)
    if model.draft_caches is None:  # a trimmed file, or a pattern of blocks that isn't in it
        declared = [field for field in json.dumps(config_of(entry)).split('"') if "nextn" in field or "mtp" in field]
        assert declared == []
        return
    storage = Storage(dtype="bf16", model_dtype="bf16")
    extra = [footprint for cache in model.draft_caches.value for footprint in cache.footprints(storage)]
    vectors = sum(one.record_bytes * one.layers for one in extra if one.kind != "index_keys")
    assert vectors == 2 * entry["mtp"]["extra_kv_elems_per_token"]


def test_windows_of_compressed_models_have_the_blocks_of_their_generation() -> None:
    for name, block in (("deepseek-ai/DeepSeek-V4-Flash", 64), ("deepseek-ai/DeepSeek-V4.1-Flash", 32)):
        _, model = read(name)
        (window,) = [cache for cache in model.caches.value if isinstance(cache, LatentWindow)]
        assert window.block == block


PASSED_OVER = {
    # Towers: what they keep isn't in the text decoder's cache.
    "/vision_config": 23,
    "/vision_config/id2label": 1,
    "/vision_config/label2id": 1,
    "/vision_config/rope_parameters": 3,
    # The words of a classifier's head.
    "/text_config/id2label": 3,
    "/text_config/label2id": 3,
}
"""Objects of the collected configurations in which nothing concerns the cache, and how many have them."""


def objects_in(value: Any, pointer: str = "") -> list[str]:  # noqa: ANN401
    if isinstance(value, list):
        return [found for index, item in enumerate(value) for found in objects_in(item, f"{pointer}/{index}")]
    if not isinstance(value, dict):
        return []
    return [pointer, *(found for name, item in value.items() for found in objects_in(item, f"{pointer}/{name}"))]


def test_an_invented_field_is_refused_in_every_object_that_concerns_the_text_decoder() -> None:
    passed_over: Counter[str] = Counter()
    for entry in ENTRIES.values():
        for pointer in objects_in(config_of(entry)):
            config = config_of(entry)
            place: Any = config
            for part in pointer.split("/")[1:]:
                place = place[int(part)] if isinstance(place, list) else place[part]
            place["kv_compression_ratio"] = 4
            try:
                read_model(config)
            except Refused as refused:
                named = [fault.pointer for fault in refused.faults]
                # An empty object of a name that isn't known is switched off, until there is something in it.
                expected = {f"{pointer}/kv_compression_ratio"} | ({pointer} if len(place) == 1 else set())
                assert expected & set(named) or entry["hf_id"] in REFUSED
            else:
                passed_over[pointer] += 1
    assert passed_over == PASSED_OVER
