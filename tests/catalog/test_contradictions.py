"""A start-up that is another than was asked about is told by what its log states, and by nothing else."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from service.capacity.question import Question
from service.catalog.contradictions import contradictions, not_stated
from service.catalog.entries import Catalog
from service.catalog.resolve import resolve
from service.readers import strict_json
from service.readers.observation import AskedObservation, Reading, read_observation
from service.readers.question import AskedQuestion
from tests.fixed_catalog import ENGINE, FIXED, RULED, version

CATALOG = Catalog(
    1,
    [
        *FIXED,
        *(version("engines", key, ENGINE) for key in ("vllm@0.10", "vllm@0.11", "vllm@0.11.0", "sglang@0.5")),
        version("engines", "vllm@0.12", RULED | {"reserve_bytes": ENGINE["reserve_bytes"]}),
    ],
)
PLAN = f"pln_{'0' * 64}"
NOTHING: Mapping[str, object] = MappingProxyType({})

CONFIG = {
    "model": "'test/grouped'",
    "dtype": "torch.bfloat16",
    "max_seq_len": "8192",
    "tensor_parallel_size": "1",
    "pipeline_parallel_size": "1",
    "data_parallel_size": "1",
    "quantization": "None",
    "enforce_eager": "False",
    "kv_cache_dtype": "auto",
    "enable_prefix_caching": "False",
}


def reading(release: str = "0.10.2", memory: str = "79.65", share: str = "0.9", **config: str) -> Reading:
    """A log that states what the question asks, or something else."""
    told = ", ".join(f"{name}={value}" for name, value in (CONFIG | config).items())
    log = (
        f"INFO [core.py:76] Initializing a V1 LLM engine (v{release}) with config: {told}\n"
        "INFO [m.py:2] Model loading took 14.99 GiB and 4.012245 seconds\n"
        "INFO [w.py:3] Available KV cache memory: 54.96 GiB\n"
        f"INFO [w.py:4] Free memory on device (78.66/{memory} GiB) on startup. Desired GPU memory utilization is"
        f" ({share}, 71.27 GiB). Actual usage is 14.99 GiB for weight, 1.25 GiB for peak activation\n"
        "INFO:     Application startup complete.\n"
    )
    return read_observation(AskedObservation(plan=PLAN, log=log))


def started(arguments: Mapping[str, object], *lines: str) -> Reading:
    """A log that states no more than arguments, and what is in the lines."""
    log = (
        "INFO [api_server.py:1971] vLLM API server version 0.10.2\n"
        f"INFO [utils.py:328] non-default args: {dict(arguments)}\n"
        "INFO [m.py:3] Model loading took 14.99 GiB and 4.012245 seconds\n"
    )
    return read_observation(AskedObservation(plan=PLAN, log=log + "".join(f"{line}\n" for line in lines)))


def asked_of(levers: Mapping[str, object] = NOTHING, **changes: object) -> Question:
    document = {"model": "test/grouped", "gpu": {"key": "card", "version": 1}, "engine": "vllm@0.10"} | changes
    document["levers"] = {"max_model_len": 8192} | dict(levers)
    return resolve(strict_json.convert(document, AskedQuestion), CATALOG)


def faults(told: Reading, levers: Mapping[str, object] = NOTHING, **changes: object) -> dict[str, str]:
    question = asked_of(levers, **changes)
    return {fault.pointer: fault.detail for fault in contradictions(question, told, CATALOG)}


def test_a_start_up_as_asked_contradicts_nothing() -> None:
    assert faults(reading()) == {}


@pytest.mark.parametrize(
    ("told", "pointer", "words"),
    [
        ({"max_seq_len": "4096"}, "/levers/max_model_len", "it was 4096 (line 1), and is 8192 here"),
        ({"tensor_parallel_size": "2"}, "/levers/tensor_parallel", "it was 2 (line 1), and is 1 here"),
        ({"pipeline_parallel_size": "2"}, "/levers/pipeline_parallel", "it was 2 (line 1), and is 1 here"),
        ({"data_parallel_size": "2"}, "/levers/data_parallel", "it was 2 (line 1), and is 1 here"),
        ({"enforce_eager": "True"}, "/levers/enforce_eager", "it was True (line 1), and is False here"),
        ({"kv_cache_dtype": "fp8"}, "/levers/kv_cache_dtype", "it was fp8 (line 1), and is bf16 here"),
        ({"share": "0.92"}, "/levers/gpu_memory_utilization", "it was 0.92 (line 4), and is 0.9 here"),
        (
            {"quantization": "compressed-tensors"},
            "/model",
            "the log loads weights quantised by compressed-tensors (line 1), and they are bf16 here",
        ),
        (
            {"memory": "44.39"},
            "/gpu",
            f"the engine saw {round(44.39 * 2**30):,} B of memory, and card shows 85,520,809,984 B",
        ),
        ({"model": "'a/Mixed'"}, "/model", "the log loads 'Mixed' (line 1), the question is of test/grouped"),
        (
            {"model": "'a/grouped-FP8'"},
            "/model",
            "the log loads 'grouped-FP8' (line 1), the question is of test/grouped",
        ),
    ],
    ids=str,
)
def test_a_fact_that_contradicts_is_named_with_its_line(told: dict[str, str], pointer: str, words: str) -> None:
    assert faults(reading(**told)) == {pointer: words}


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ({"model": "test/mixed"}, "/model"),
        ({"levers": {"weight_dtype": "fp8"}}, "/levers/weight_dtype"),
        ({"levers": {"weight_dtype": "fp16"}}, None),
    ],
)
def test_weights_that_the_engine_found_unquantised_are_no_quantised_ones(
    question: dict[str, Any], place: str | None
) -> None:
    words = "the log loads unquantised weights (line 1), and they are fp8 here"
    assert faults(reading(model="'a/folder'"), **question) == ({place: words} if place else {})
    # What was asked for says nothing: the checkpoint may bring its own.
    assert faults(started({"quantization": None}), **question) == {}


def test_every_contradiction_is_named() -> None:
    assert set(faults(reading(max_seq_len="4096", tensor_parallel_size="2", memory="10.00"), engine="generic")) == {
        "/engine",
        "/gpu",
        "/levers/max_model_len",
        "/levers/tensor_parallel",
    }


@pytest.mark.parametrize(
    ("release", "engine", "held"),
    [
        ("0.10.0", "vllm@0.10", True),
        ("0.10.1.1", "vllm@0.10", True),
        ("0.10.2rc1.dev3+g1a2b", "vllm@0.10", True),
        ("0.1.7", "vllm@0.10", False),
        ("0.100.0", "vllm@0.10", False),
        ("0.11.0", "vllm@0.11", False),  # there is a closer entry
        ("0.11.0", "vllm@0.11.0", True),
        ("0.11.2", "vllm@0.11", True),
        ("0.11.2", "vllm@0.11.0", False),
        ("0.10.2", "sglang@0.5", False),
        ("0.10.2", "generic", False),
        ("0.50.0", "vllm@0.10", False),
    ],
)
def test_a_release_is_the_catalogs_closest(release: str, engine: str, held: bool) -> None:  # noqa: FBT001 - a case's value
    assert ("/engine" in faults(reading(release), engine=engine)) is not held


def test_the_release_that_it_was_is_named() -> None:
    assert faults(reading("0.11.0"))["/engine"] == (
        "it was vllm 0.11.0, which is vllm@0.11.0; the question is of vllm@0.10"
    )
    assert faults(reading("0.50.0"))["/engine"] == (
        "it was vllm 0.50.0, which is no release of the catalog; the question is of vllm@0.10"
    )


@pytest.mark.parametrize(
    "model",
    [
        "'Test/Grouped'",
        "'/models/grouped'",
        "'/models/7f3a'",
        "'me/my-tuning'",
        "'/hub/models--x--Grouped/snapshots/1/'",
    ],
)
def test_a_name_that_tells_nothing_contradicts_nothing(model: str) -> None:
    assert faults(reading(model=model)) == {}


@pytest.mark.parametrize(
    ("model", "stated"),
    [("'/models/grouped-2026-11-30'", True), ("'/models/7f3a'", False), ("'me/my-tuning'", False)],
)
def test_a_name_that_tells_nothing_states_no_model(model: str, stated: bool) -> None:  # noqa: FBT001 - a case's value
    assert ("model" in not_stated(asked_of(), reading(model=model))) is not stated


def test_a_model_that_is_given_inline_has_no_name_to_contradict() -> None:
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 512,
        "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 1024, "vocab_size": 1000,
        "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "tie_word_embeddings": True,
    }  # fmt: skip
    assert faults(reading(model="'test/grouped'"), model={"config": config}) == {}


def test_cards_of_one_name_may_differ_by_a_hundredth() -> None:
    assert faults(reading(memory="79.19")) == {}
    assert faults(reading(memory="80.40")) == {}


def test_a_share_in_32_bits_is_the_share_that_was_asked_for() -> None:
    assert faults(reading(share="0.8999999761581421")) == {}
    assert faults(reading(share="0.9001")) != {}


def test_a_share_means_nothing_where_the_cache_was_set_by_hand() -> None:
    assert faults(reading(share="0.5"), {"kv_cache_memory_bytes": 10**10}) == {}


def test_prefix_caching_matters_to_states_only() -> None:
    told = reading("0.12.0", enable_prefix_caching="False", model="'a/b'")
    levers = {"enable_prefix_caching": True}
    assert faults(told, levers, engine="vllm@0.12") == {}
    assert set(faults(told, levers, engine="vllm@0.12", model="test/states")) == {"/levers/enable_prefix_caching"}


def test_a_lever_that_nothing_is_predicted_from_contradicts_nothing() -> None:
    log = (
        "[2026-03-02 06:00:00] server_args=ServerArgs(model_path='test/grouped', context_length=8192, tp_size=1)\n"
        "[2026-03-02 06:05:22] Load weight end. elapsed=3.45 s, type=X, avail mem=61.80 GB, mem usage=14.99 GB.\n"
        "[2026-03-02 06:05:30] max_total_num_tokens=213761, chunked_prefill_size=8192, max_prefill_tokens=16384,"
        " max_running_requests=2048, context_len=8192, available_gpu_mem=19.30 GB\n"
    )
    told = read_observation(AskedObservation(plan=PLAN, log=log))
    assert faults(told, engine="sglang@0.5") == {}
    assert faults(told, {"max_num_seqs": 64, "max_num_batched_tokens": 8192}, engine="sglang@0.5") == {
        "/levers/max_num_seqs": "it was 2048 (line 3), and is 64 here"
    }
    # Without a version the name of the engine tells.
    assert faults(told)["/engine"] == "the log is of sglang, the question of vllm@0.10"


def test_fields_contradict_by_their_version_and_the_memory() -> None:
    document = {"plan": PLAN, "fields": {"version": "0.11.2", "reported_capacity": "23.5 GiB"}}
    told = read_observation(strict_json.convert(document, AskedObservation))
    assert set(faults(told)) == {"/engine", "/gpu"}


def test_what_is_not_stated_is_named() -> None:
    assert not_stated(asked_of(), reading()) == (
        "expert_parallel",
        "decode_context_parallel",
        "max_num_seqs",
        "max_num_batched_tokens",
        "block_size",
        "speculative_tokens",
        "max_loras",
    )
    assert "max_loras" not in not_stated(asked_of(), started({"enable_lora": False}))
    told = read_observation(strict_json.convert({"plan": PLAN, "fields": {"outcome": "failed"}}, AskedObservation))
    assert {"version", "model", "tensor_parallel", "gpu_memory_utilization"} <= set(not_stated(asked_of(), told))


@pytest.mark.parametrize(
    "line",
    [
        "Maximum concurrency for 1,048,576 tokens per request: 5.00x",
        "max seq len (1048576) is larger than the maximum number of tokens that can be stored in KV cache (8192)",
    ],
)
def test_a_window_beside_a_concurrency_or_in_a_refusal_contradicts_too(line: str) -> None:
    log = f"INFO [m.py:2] Model loading took 14.99 GiB and 4.012245 seconds\nINFO {line}\n"
    told = read_observation(AskedObservation(plan=PLAN, log=log))
    assert faults(told) == {"/levers/max_model_len": "it was 1048576 (line 2), and is 8192 here"}
    assert faults(told, {"max_model_len": 4096})["/levers/max_model_len"].endswith("is 4096 here")


@pytest.mark.parametrize(
    ("arguments", "levers", "found"),
    [
        ({"load_format": "auto", "hf_overrides": {}, "enable_eplb": False}, {}, {}),
        ({"block_size": 64}, {}, {"block_size": "it was 64 (line 2), and is 16 here"}),
        ({"block_size": 64}, {"block_size": 64}, {}),
        ({"enable_lora": True}, {}, {"max_loras": "LoRA was on (line 2), and there are no slots here"}),
        ({"enable_lora": True}, {"max_loras": 4}, {}),
        ({"enable_lora": False, "max_loras": 1, "max_lora_rank": 16}, {}, {}),
        ({"enable_lora": False}, {"max_loras": 4}, {"max_loras": "LoRA was off (line 2), and there are 4 slots here"}),
        ({"enable_lora": True, "max_loras": 2}, {"max_loras": 4}, {"max_loras": "it was 2 (line 2), and is 4 here"}),
        (
            {"enable_lora": True, "max_loras": 4, "max_lora_rank": 64},
            {"max_loras": 4},
            {"max_lora_rank": "it was 64 (line 2), and is 16 here"},
        ),
        ({"cpu_offload_gb": 0}, {}, {}),
        (
            {"cpu_offload_gb": 4.5},
            {},
            {"": "4.5 GiB of weights stayed in the host's memory (cpu_offload_gb, line 2), which no lever plans"},
        ),
        (
            {"num_gpu_blocks_override": 2000},
            {},
            {
                "kv_cache_memory_bytes": "the cache was limited by hand to 2,000 blocks or tokens (line 2), which no"
                " lever plans"
            },
        ),
        (
            {"kv_cache_memory_bytes": 10**10},
            {},
            {"kv_cache_memory_bytes": "the cache was set by hand (line 2), and is what a share leaves here"},
        ),
        ({"kv_cache_memory_bytes": 10**10}, {"kv_cache_memory_bytes": 10**10}, {}),
        (
            {"kv_cache_memory_bytes": 10**10},
            {"kv_cache_memory_bytes": 10**9},
            {"kv_cache_memory_bytes": "it was 10000000000 (line 2), and is 1000000000 here"},
        ),
        (
            {"speculative_config": {"method": "ngram"}},
            {},
            {"speculative_tokens": "tokens were drafted (line 2), and none are here"},
        ),
        (
            {"kv_cache_dtype": "int8_per_token_head"},
            {},
            {"kv_cache_dtype": "it was int8_per_token_head (line 2), and is bf16 here"},
        ),
        ({"kv_cache_dtype": "int8_per_token_head"}, {"kv_cache_dtype": "int8_per_token_head"}, {}),
        ({"kv_cache_dtype": "nvfp4_4over6"}, {"kv_cache_dtype": "nvfp4"}, {}),
        (
            {"kv_cache_dtype": "turboquant_k8v4"},
            {"kv_cache_dtype": "fp8"},
            {"kv_cache_dtype": "it was turboquant_k8v4 (line 2), and is fp8 here"},
        ),
        ({"dtype": "float32"}, {}, {"weight_dtype": "it was float32 (line 2), and is bf16 here"}),
        ({"dtype": "float32"}, {"weight_dtype": "fp32"}, {}),
        ({"dtype": "float16"}, {"weight_dtype": "fp32"}, {"weight_dtype": "it was float16 (line 2), and is fp32 here"}),
        ({"dtype": "half", "kv_cache_dtype": "auto"}, {}, {}),
        (
            {"dtype": "float32", "kv_cache_dtype": "auto"},
            {"weight_dtype": "fp32"},
            {"kv_cache_dtype": "it was float32, as the weights, (line 2), and is bf16 here"},
        ),
        (
            {"dtype": "float32", "kv_cache_dtype": "auto"},
            {"weight_dtype": "fp32", "kv_cache_dtype": "fp32"},
            {},
        ),
    ],
    ids=str,
)
def test_a_flag_in_the_arguments_is_held_against_its_lever(
    arguments: dict[str, object], levers: dict[str, object], found: dict[str, str]
) -> None:
    told = faults(started(arguments), levers)
    assert set(told) == {f"/levers/{name}".rstrip("/") for name in found}
    for name, words in found.items():
        assert told[f"/levers/{name}".rstrip("/")].startswith(words)


@pytest.mark.parametrize(
    ("stated", "here", "ranks", "model", "held"),
    [
        (True, False, 2, "test/experts", True),
        (False, True, 2, "test/experts", True),
        (True, True, 2, "test/experts", False),
        (True, False, 1, "test/experts", False),
        (True, False, 2, "test/grouped", False),
    ],
)
def test_expert_parallel_matters_where_there_are_experts_and_ranks(
    stated: bool,  # noqa: FBT001 - a case's value
    here: bool,  # noqa: FBT001
    ranks: int,
    model: str,
    held: bool,  # noqa: FBT001
) -> None:
    told = started({"enable_expert_parallel": stated, "tensor_parallel_size": ranks})
    found = faults(told, {"expert_parallel": here, "tensor_parallel": ranks}, model=model)
    words = f"it was {stated} (line 2), and is {here} here"
    assert found == ({"/levers/expert_parallel": words} if held else {})


@pytest.mark.parametrize(
    ("arguments", "place", "words"),
    [
        (
            {"load_format": "dummy"},
            "/model",
            "no checkpoint was loaded (load_format dummy, line 2), which no lever plans",
        ),
        (
            {"hf_overrides": {"num_hidden_layers": 18}},
            "/model",
            "fields of its configuration were written over (hf_overrides, line 2), which no lever plans",
        ),
        ({"skip_mm_profiling": True}, "/levers", "the largest input of a tower wasn't profiled"),
        ({"enable_eplb": True}, "/levers/expert_parallel", "some experts were there more than once"),
    ],
    ids=str,
)
def test_what_no_lever_plans_is_refused_by_its_name(arguments: dict[str, object], place: str, words: str) -> None:
    found = faults(started(arguments))
    assert set(found) == {place}
    assert found[place].startswith(words)


@pytest.mark.parametrize(
    ("arguments", "without", "held"),
    [
        ({}, False, ""),
        ({"language_model_only": False}, False, ""),
        ({"language_model_only": True}, True, ""),
        ({"language_model_only": True}, False, "it was True (line 2), and is False here"),
        ({"language_model_only": False}, True, "it was False (line 2), and is True here"),
        ({"limit_mm_per_prompt": {"image": 2}}, False, ""),
        ({"limit_mm_per_prompt": {"image": 0, "video": 0}}, True, ""),
        ({"language_model_only": True, "limit_mm_per_prompt": {"image": 0}}, True, ""),
        (
            {"limit_mm_per_prompt": {"image": 0}},
            False,
            "no inputs of a tower were let in (limit_mm_per_prompt, line 2)",
        ),
        ({"limit_mm_per_prompt": {"image": 2}}, True, "some inputs of a tower were let in"),
        ({"limit_mm_per_prompt": {"image": 2, "video": 0}}, False, "some inputs of a tower weren't let in (line 2)"),
    ],
    ids=str,
)
def test_a_tower_that_was_left_out_is_held_against_its_lever(
    arguments: dict[str, object],
    without: bool,  # noqa: FBT001 - a case's value
    held: str,
) -> None:
    found = faults(started(arguments), {"language_model_only": without}, model="test/experts")
    assert set(found) == ({"/levers/language_model_only"} if held else set())
    assert found.get("/levers/language_model_only", "").startswith(held)
    assert faults(started(arguments)) == {}  # of a model without one it says nothing
    named = "language_model_only" in not_stated(asked_of(model="test/experts"), started(arguments))
    assert named is ("language_model_only" not in arguments)


@pytest.mark.parametrize(
    ("scheme", "dtype", "held"),
    [
        ("fp8", "fp8", False),
        ("fp8", "int4", True),
        ("awq_marlin", "int4", False),
        ("awq", "fp8", True),
        ("gptq_marlin", "int8", False),
        ("modelopt_fp4", "fp8", True),
        ("compressed-tensors", "int4", False),
        ("some-new-scheme", "fp8", False),
    ],
)
def test_a_scheme_of_quantisation_keeps_weights_in_its_own_formats(scheme: str, dtype: str, held: bool) -> None:  # noqa: FBT001 - a case's value
    found = faults(started({"quantization": scheme}), {"weight_dtype": dtype})
    words = f"the log loads weights of {scheme} (line 2), and they are {dtype} here"
    assert found == ({"/levers/weight_dtype": words} if held else {})


@pytest.mark.parametrize("version", ["0.1.dev20073+g8e685d198", "0.1.dev1"])
def test_a_build_without_tags_names_no_release(version: str) -> None:
    told = reading(version)
    assert faults(told) == {}
    assert "version" in not_stated(asked_of(), told)
    assert set(faults(told, engine="sglang@0.5")) == {"/engine"}


@pytest.mark.parametrize(
    ("prefix", "levers", "pointer"),
    [
        ("(Worker_TP3 pid=7) ", {"tensor_parallel": 2}, "/levers/tensor_parallel"),
        ("(Worker_TP3 pid=7) ", {"tensor_parallel": 4}, None),
        ("(EngineCore_DP0 pid=7) ", {}, None),
        ("(EngineCore_DP1 pid=7) ", {}, "/levers/data_parallel"),
        ("(Worker_PP1_TP0 pid=7) ", {}, "/levers/pipeline_parallel"),
        ("(Worker_TP0_EP0 pid=7) ", {}, None),
        ("(Worker_TP1_EP1 pid=7) ", {"tensor_parallel": 2, "expert_parallel": True}, None),
        ("(VllmWorker rank=3 pid=7) ", {"tensor_parallel": 2}, "/levers/tensor_parallel"),
        ("(VllmWorker rank=3 pid=7) ", {"tensor_parallel": 2, "pipeline_parallel": 2}, None),
        ("(VllmWorkerProcess pid=7) ", {}, None),
    ],
)
def test_a_rank_that_the_question_has_not_contradicts(
    prefix: str, levers: dict[str, object], pointer: str | None
) -> None:
    told = faults(started({}, f"{prefix}INFO Available KV cache memory: 54.96 GiB"), levers)
    assert set(told) == ({pointer} if pointer else set())
    if pointer:
        assert told[pointer].startswith("line 4 is of ")


def test_a_rank_says_nothing_where_the_arguments_do() -> None:
    told = started({"tensor_parallel_size": 2}, "(Worker_TP3 pid=7) INFO Available KV cache memory: 54.96 GiB")
    assert faults(told, {"tensor_parallel": 2}) == {}


def test_the_line_of_a_cache_that_was_set_by_hand_contradicts_a_share_and_other_bytes() -> None:
    line = "Initial free memory 78.66 GiB, reserved 6.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes"
    told = started({}, f"INFO {line} config and skipped memory profiling.")
    place = "/levers/kv_cache_memory_bytes"
    assert faults(told)[place] == "the cache was set by hand (line 4), and is what a share leaves here"
    assert faults(told, {"kv_cache_memory_bytes": 6 * 2**30}) == {}
    assert faults(told, {"kv_cache_memory_bytes": 7 * 2**30}) == {
        place: "it was about 6,442,450,944 (line 4), and is 7,516,192,768 here"
    }


def test_fp8_of_sparse_attention_is_its_record_with_scales() -> None:
    told = started({"kv_cache_dtype": "fp8"})
    assert faults(told, {"kv_cache_dtype": "fp8_ds_mla"}, model="test/sparse") == {}
    assert set(faults(told, {"kv_cache_dtype": "fp8_ds_mla"}, model="test/latent")) == {"/levers/kv_cache_dtype"}


@pytest.mark.parametrize(
    ("arguments", "pointers"),
    [
        ("ep_size=1, lora_paths=None, cpu_offload_gb=0, max_total_tokens=None", set()),
        ("ep_size=8", set()),
        ("load_format='dummy'", {"/model"}),
        ("json_model_override_args='{}'", set()),
        ("json_model_override_args='{\"num_hidden_layers\": 18}'", {"/model"}),
        ("enable_lora=None, lora_paths={'a': '/b'}, max_loras_per_batch=8", {"/levers/max_loras"}),
        ("cpu_offload_gb=8", {"/levers"}),
        ("max_total_tokens=100000", {"/levers/kv_cache_memory_bytes"}),
        ("page_size=64", {"/levers/block_size"}),
        ("speculative_algorithm='EAGLE3'", {"/levers/speculative_tokens"}),
    ],
)
def test_the_other_engine_states_the_same_by_names_of_its_own(arguments: str, pointers: set[str]) -> None:
    log = (
        f"[2026-03-02 06:00:00] server_args=ServerArgs(model_path='test/grouped', tp_size=1, {arguments})\n"
        "[2026-03-02 06:05:22] Load weight end. elapsed=3.45 s, type=X, avail mem=61.80 GB, mem usage=14.99 GB.\n"
    )
    told = read_observation(AskedObservation(plan=PLAN, log=log))
    assert set(faults(told, engine="sglang@0.5")) == pointers


def test_every_line_that_is_named_exists() -> None:
    found = faults(reading(max_seq_len="1", tensor_parallel_size="2", share="0.5", kv_cache_dtype="fp8"))
    assert {int(line) for words in found.values() for line in re.findall(r"line (\d+)", words)} == {1, 4}
