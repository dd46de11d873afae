"""A start-up that is another than was asked about is told by what its log states, and by nothing else."""

import re
from collections.abc import Mapping
from types import MappingProxyType

import pytest

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


def faults(told: Reading, levers: Mapping[str, object] = NOTHING, **changes: object) -> dict[str, str]:
    document = {"model": "test/grouped", "gpu": {"key": "card", "version": 1}, "engine": "vllm@0.10"} | changes
    document["levers"] = {"max_model_len": 8192} | dict(levers)
    question = resolve(strict_json.convert(document, AskedQuestion), CATALOG)
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
    assert not_stated(reading()) == (
        "decode_context_parallel",
        "max_num_seqs",
        "max_num_batched_tokens",
        "speculative_tokens",
    )
    told = read_observation(strict_json.convert({"plan": PLAN, "fields": {"outcome": "failed"}}, AskedObservation))
    assert {"version", "model", "tensor_parallel", "gpu_memory_utilization"} <= set(not_stated(told))


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


def test_every_line_that_is_named_exists() -> None:
    found = faults(reading(max_seq_len="1", tensor_parallel_size="2", share="0.5", kv_cache_dtype="fp8"))
    assert {int(line) for words in found.values() for line in re.findall(r"line (\d+)", words)} == {1, 4}
