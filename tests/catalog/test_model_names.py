"""A checkpoint's name is of a model unless it states something that is another's: its size, its version, its words."""

import pytest

from service.catalog.bundled import bundled_catalog
from service.catalog.contradictions import contradictions, not_stated
from service.catalog.resolve import resolve
from service.readers.observation import AskedObservation, Reading, read_observation
from service.readers.question import AskedLevers, AskedQuestion
from tests.accuracy.deployments import deployments
from tests.collected import collected, entries

CATALOG = bundled_catalog()


def loads(name: str) -> Reading:
    log = (
        f"INFO [api_server.py:1971] vLLM API server version 0.10.2\n"
        f"INFO [utils.py:328] non-default args: {{'model': {name!r}}}\n"
        "INFO [w.py:3] Available KV cache memory: 4.96 GiB\n"
    )
    return read_observation(AskedObservation(plan=f"pln_{'0' * 64}", log=log))


def held(name: str, key: str) -> tuple[bool, bool]:
    """Whether a name contradicts a model, and whether it states it."""
    levers = AskedLevers(max_model_len=2048)
    question = resolve(AskedQuestion(model=key, gpu="h200-sxm-141gb", engine="vllm@0.10", levers=levers), CATALOG)
    told = loads(name)
    faults = contradictions(question, told, CATALOG)
    assert {fault.pointer for fault in faults} <= {"/model"}
    return bool(faults), "model" not in not_stated(question, told)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("/data/llama-3.1-8b-instruct-main", "meta-llama/Llama-3.1-8B-Instruct"),
        ("/data/Llama-3_1-8B_20250101", "meta-llama/Llama-3.1-8B-Instruct"),
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct"),
        ("meta-llama/Meta-Llama-3.1-405B-Instruct-FP8", "meta-llama/Llama-3.1-405B-Instruct-FP8"),
        ("meta-llama/Meta-Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("Llama2-7B", "meta-llama/Llama-2-7b-hf"),
        ("Qwen2.5-7B", "Qwen/Qwen2.5-7B-Instruct-AWQ"),
        ("google/gemma-4-26B-A4B", "google/gemma-4-26B-A4B-it"),
        ("Qwen2.5-VL-72B", "Qwen/Qwen2.5-VL-72B-Instruct"),
        ("qwen3.6-35b-a3b-nvfp4", "nvidia/Qwen3.6-35B-A3B-NVFP4"),
        ("deepseek-v4-flash", "deepseek-ai/DeepSeek-V4-Flash-0731"),
        ("Mistral-7B-Instruct-v0.3-2", "mistralai/Mistral-7B-Instruct-v0.3"),
    ],
)
def test_a_name_of_the_model_in_other_words_is_the_models(name: str, key: str) -> None:
    assert held(name, key) == (False, True)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistralai/Mistral-7B-Instruct-v0.3"),
        ("some/other-70b", "Qwen/Qwen3-8B"),
        ("Qwen/Qwen3-14B", "Qwen/Qwen3-8B"),
        ("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-VL-7B-Instruct"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("Qwen3.6-35B-A3B", "Qwen/Qwen3.5-35B-A3B"),
        ("meta-llama/Meta-Llama-3-8B", "meta-llama/Llama-3.1-8B"),
        ("meta-llama/Meta-Llama-3-8B", "Qwen/Qwen3-8B"),
        ("Qwen/Qwen3-8B-FP8", "Qwen/Qwen3-8B"),
        ("Qwen3-8B-AWQ", "Qwen/Qwen3-8B-FP8"),
        ("mistralai/Mistral-Small-24B-Instruct-2501", "mistralai/Mistral-Small-3.2-24B-Instruct-2506"),
        ("google/gemma-4-E2B-it", "google/gemma-4-12B-it"),
        ("XiaomiMiMo/MiMo-V2.5", "XiaomiMiMo/MiMo-7B-Base"),
        ("mistralai/Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x22B-v0.1"),
    ],
)
def test_another_size_version_format_or_model_contradicts(name: str, key: str) -> None:
    assert held(name, key)[0]


@pytest.mark.parametrize("name", ["/models/c0ffee12", "me/my-tuning", "/mnt/checkpoint-step-1000", "/models/prod-a1"])
def test_a_name_that_is_no_models_states_nothing(name: str) -> None:
    assert held(name, "Qwen/Qwen3-8B") == (False, False)


def test_every_model_of_the_catalog_goes_by_its_own_name() -> None:
    contradicted = []
    for key in CATALOG.models.keys:
        question = resolve(
            AskedQuestion(model=key, gpu="h200-sxm-141gb", engine="vllm@0.33", levers=AskedLevers(max_model_len=512)),
            CATALOG,
        )
        faults = contradictions(question, loads(key), CATALOG)
        if any(fault.pointer == "/model" for fault in faults):
            contradicted.append(key)
    assert contradicted == []


@collected
def test_every_start_up_of_the_collection_goes_by_the_name_that_it_was_logged_under() -> None:
    names = {case["id"]: case["model"] for case in entries("start_up_logs", under="cases")}
    found = [(names[log], one.model) for one in deployments().deployments for log in one.ids if log in names]
    assert len(found) > 50
    assert [pair for pair in found if held(*pair)[0]] == []
