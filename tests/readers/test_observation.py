"""Which amounts of a log count: those of the tightest rank, each once, in the digits that say most."""

import pytest

from service.capacity.observed import Observed
from service.capacity.units import GIB, Estimate
from service.errors import Refused
from service.readers import strict_json
from service.readers.observation import AskedObservation, Reading, checkpoint_name, read_observation
from tests.start_up_logs import FOLDER

PLAN = f"pln_{'0' * 64}"


def read(log: str) -> Reading:
    return read_observation(AskedObservation(plan=PLAN, log=log))


def logged(name: str) -> Observed:
    (file,) = FOLDER.glob(f"{name}*.log")
    return read(file.read_bytes().decode("utf-8", errors="replace")).observed


def gib(amount: Estimate | None) -> float | None:
    return None if amount is None else round(amount.best / GIB, 2)


@pytest.mark.parametrize(
    ("log", "amounts", "users", "outcome"),
    [
        ("vllm-0.10.2", (79.19, 14.99, 54.96), 54.96, "ready"),
        ("vllm-0.33.0", (23.53, 7.56, 12.52), 2.78, "ready"),
        # Two ranks: the second has less left and doesn't say what its weights took.
        ("vllm-0.21.0", (None, 7.67, 60.98), 21.68, "ready"),
        # Both ranks say everything: 36.48 and 36.53 GiB are left.
        ("vllm-0.6.6", (79.15, 30.71, 36.48), 9.12, "ready"),
        # Computed: 821 blocks of 16 tokens over 4,096.
        ("vllm-0.4.2", (None, 12.55, None), 3.21, "ready"),
        ("vllm-0.9.2", (None, 27.52, 1.87), None, "failed"),
        # Keys and values of full layers and of windows: 2 x 4.08 + 2 x 16.70, printed once more as 41.56.
        ("sglang-0.5.9", (None, 51.48, 41.56), None, "ready"),
        ("tensorrt-llm-1.1", (79.19, 16.42, 50.04), None, "ready"),
        ("tensorrt-llm-0.13", (79.10, 14.96, 55.73), None, "ready"),
        ("vllm-0.22.1", (79.18, None, None), None, "failed"),
    ],
)
def test_a_log_says_one_amount_of_each_kind(
    log: str, amounts: tuple[float | None, float | None, float | None], users: float | None, outcome: str
) -> None:
    seen = logged(log)
    assert (gib(seen.reported_capacity), gib(seen.weights), gib(seen.kv_budget)) == amounts
    assert (seen.max_concurrency, seen.outcome) == (users, outcome)


def test_the_digits_that_say_most_count() -> None:
    # Available: 54.96 GiB; in use: 59,012,850,893 bytes. Loading took 14.9889 GiB; 14.99 GiB for weight.
    seen = logged("vllm-0.10.2")
    assert seen.kv_budget == Estimate(59_012_850_893, 59_012_850_893, 59_012_850_893)
    assert seen.weights is not None
    assert seen.weights.low / GIB == pytest.approx(14.98885, abs=1e-9)
    assert seen.weights.high / GIB == pytest.approx(14.98895, abs=1e-9)


def test_a_refusal_says_what_a_window_takes() -> None:
    assert gib(logged("vllm-0.9.2").bytes_per_window) == 6.25
    assert logged("vllm-0.9.2").failure == "window_too_long"


LINES = (
    "INFO [api_server.py:1] vLLM API server version 0.10.2\n"
    "(EngineCore_DP0 pid=1) INFO [core.py:76] Initializing a V1 LLM engine (v0.10.2) with config: model='a/b'{config}\n"
    "(EngineCore_DP0 pid=1) INFO [m.py:2] Model loading took 14.99 GiB and 4.0 seconds\n"
    "(EngineCore_DP0 pid=1) INFO [m.py:3] Model loading took 1.50 GiB and 4.0 seconds\n"
)


def test_weights_printed_twice_are_added_where_a_draft_is_loaded_too() -> None:
    told = read(LINES.format(config=", speculative_config=SpeculativeConfig(method='eagle', num_spec_tokens=3)"))
    assert gib(told.observed.weights) == 16.49


def test_weights_printed_twice_without_a_draft_are_not_guessed_at() -> None:
    told = read(LINES.format(config="") + "(EngineCore_DP0 pid=1) INFO [m.py:4] Available KV cache memory: 9.00 GiB\n")
    assert told.observed.weights is None
    assert "The weights are printed as 14.99, 1.50: none of them is taken for all." in told.notes


@pytest.mark.parametrize(("stages", "weights"), [(1, 14.99), (2, None)])
def test_of_another_stage_the_weights_say_nothing(stages: int, weights: float | None) -> None:
    log = (
        "INFO [core.py:76] Initializing a V1 LLM engine (v0.10.2) with config: model='a/b',"
        f" pipeline_parallel_size={stages}\n"
        "(Worker_PP0 pid=1) INFO [m.py:2] Model loading took 14.99 GiB and 4.0 seconds\n"
        "(Worker_PP0 pid=1) INFO [m.py:4] Available KV cache memory: 9.00 GiB\n"
        "(Worker_PP1 pid=2) INFO [m.py:4] Available KV cache memory: 8.00 GiB\n"
    )
    assert gib(read(log).observed.kv_budget) == 8.0
    assert gib(read(log).observed.weights) == weights


def test_of_unlike_cards_the_smaller_counts() -> None:
    said = (
        "INFO [w.py:4] Free memory on device (70.00/{} GiB) on startup. Desired GPU memory utilization is (0.9, 71)\n"
    )
    log = LINES.format(config="") + said.format("79.19") + said.format("79.10") + said.format("79.25")
    assert gib(read(log).observed.reported_capacity) == 79.10


def test_a_log_of_countless_ranks_keeps_some_facts_of_it() -> None:
    lines = "".join(f"(Worker_TP{rank} pid=1) INFO [m.py:2] Model loading took 14.99 GiB and\n" for rank in range(3000))
    assert len(read(LINES.format(config="") + lines).facts) == 200


def test_only_facts_and_their_places_are_kept_of_a_log() -> None:
    private = "hf_VerySecretToken"
    log = (FOLDER / "vllm-0.10.2-llama-3.1-8b-h100.log").read_text(encoding="utf-8")
    log = f"export HF_TOKEN={private}\n" + log.replace("'acme/llama", f"'/home/{private}/llama")
    log = log.replace("speculative_config=None", f"speculative_config={{'model': '{private}'}}")
    told = read(log)
    assert private not in repr(told.facts)
    assert private not in repr(told.observed)
    facts = {(fact.name, fact.value, fact.line) for fact in told.facts}
    assert ("model", "llama-3.1-8b-instruct", 5) in facts
    assert ("kv_cache", "54.96", 8) in facts
    assert ("version", "0.10.2", 2) in facts


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ("model='az://acct/ckpt?sig=SECRETSAS/x'", {"model": "ckpt"}),
        ("model='https://user:SECRETpw@host/llama-8b'", {"model": "llama-8b"}),
        ("model='user:SECRETpw@host'", {}),
        ("model='/models/hf_SECRETabcdefghijk'", {}),
        ("model='a/SECRET name'", {}),
        (f"model='a/SECRET{'x' * 91}'", {}),
        ("model='a/b', kv_cache_dtype='SECRET'", {"model": "b"}),
        ("model='a/b', dtype='torch.bfloat16', quantization='hf_secretsecret'", {"model": "b", "dtype": "bfloat16"}),
        ("model='a/b', kv_cache_dtype='fp8_e4m3'", {"model": "b", "kv_cache_dtype": "fp8_e4m3"}),
    ],
)
def test_a_text_without_the_form_of_a_name_is_not_kept(config: str, kept: dict[str, str]) -> None:
    log = LINES.replace("model='a/b'{config}", config).replace("3] Model loading took 1.50", "3] Other 1.50")
    told = read(log)
    assert {one.name: one.value for one in told.facts if one.name in {"model", "dtype", "kv_cache_dtype"}} == kept
    assert "secret" not in repr(told).casefold()


@pytest.mark.parametrize(
    ("printed", "version"),
    [("0.10.2+gSECRET.cu128", "0.10.2"), ("0.5.9.post1", "0.5.9.post1"), ("0.11.0rc2.dev3", "0.11.0rc2.dev3")],
)
def test_of_a_version_only_the_public_part_is_kept(printed: str, version: str) -> None:
    assert fields(version=printed, weights=1).version == version
    log = (
        LINES.replace("0.10.2", printed).replace("{config}", "").replace("3] Model loading took 1.50", "3] Other 1.50")
    )
    assert read(log).observed.version == version


def test_a_version_that_is_none_is_refused_without_being_repeated() -> None:
    with pytest.raises(Refused) as refused:
        fields(version="hf_SECRET", weights=1)
    assert refused.value.faults[0].pointer == "/fields/version"
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("meta-llama/Llama-3.1-8B", "Llama-3.1-8B"),
        ("/models/llama/", "llama"),
        ("C:\\models\\llama", "llama"),
        ("/cache/hub/models--meta-llama--Llama-3.1-8B/snapshots/0e9e39f2/", "Llama-3.1-8B"),
        ("/cache/models--gpt2/snapshots/abc", "abc"),
        ("llama", "llama"),
        ("", ""),
    ],
)
def test_a_checkpoint_is_named_by_the_last_part_of_its_path(path: str, name: str) -> None:
    assert checkpoint_name(path) == name


def test_a_text_that_is_no_log_is_refused_at_its_place() -> None:
    with pytest.raises(Refused, match="not an engine's start-up log") as refused:
        read("hello\n")
    assert refused.value.faults[0].pointer == "/log"


def test_a_start_of_which_nothing_can_be_compared_is_refused_with_what_is_missing() -> None:
    with pytest.raises(Refused, match="the log lacks: engine configuration, weights"):
        read("INFO [api_server.py:1] vLLM API server version 0.10.2\n")


def fields(**given: object) -> Observed:
    return read_observation(strict_json.convert({"plan": PLAN, "fields": given}, AskedObservation)).observed


def test_a_printed_amount_stands_for_all_that_rounds_to_it() -> None:
    seen = fields(weights="14.99 GiB", kv_cache=59_012_850_893, reported_capacity="81153 MiB").weights
    assert seen is not None
    assert (seen.low, seen.high) == (int(14.985 * GIB), int(14.995 * GIB) + 1)
    assert fields(kv_cache="0 KiB").kv_budget == Estimate(-512, 0, 512)
    assert fields(kv_cache=59_012_850_893).kv_budget == Estimate(*[59_012_850_893] * 3)


@pytest.mark.parametrize(
    "wrong", ["14.99", "14.99 GB", "14,99 GiB", "-1 GiB", "1 GiB\n", " 1 GiB", "1e3 GiB", "\u0665 GiB", -1, 1.5]
)
def test_what_is_no_amount_is_refused_at_its_place(wrong: object) -> None:
    with pytest.raises(Refused) as refused:
        fields(weights=wrong)
    assert refused.value.faults[0].pointer == "/fields/weights"


@pytest.mark.parametrize("given", [{}, {"version": "0.10.2"}, {"outcome": "ready"}, {"outcome": "unfinished"}])
def test_fields_that_say_nothing_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(Refused, match="nothing that can be compared"):
        fields(**given)


def test_a_failed_start_alone_says_something() -> None:
    assert fields(outcome="failed").outcome == "failed"


@pytest.mark.parametrize(
    "document",
    [
        {"log": "x"},
        {"plan": PLAN},
        {"plan": PLAN, "question": {"model": "a", "gpu": "b"}, "log": "x"},
        {"plan": PLAN, "log": "x", "fields": {"outcome": "failed"}},
        {},
    ],
)
def test_both_of_two_and_neither_are_refused(document: dict[str, object]) -> None:
    with pytest.raises(Refused, match="give one of the two"):
        read_observation(strict_json.convert(document, AskedObservation))
