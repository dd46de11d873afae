"""Start-up logs: what is read of each, of cut ones, of several starts, and of text that is none."""

import json
import re
import time
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import Refused
from service.readers.start_up_log import StartUpLog, read_start_up_log
from service.readers.start_up_log.arguments import pairs_in
from service.readers.start_up_log.lines import LONGEST_LINE, MOST_ANCHORS, lines_holding
from service.readers.start_up_log.printed import ByteRange, byte_range
from service.readers.start_up_log.reading import ENGINES
from tests.start_up_logs import FOLDER, LOGS, expected, pieces, told

GIB = 2**30
EXPECTED = expected()
ONE_START = [log for log in LOGS if ", start 1 of 1" in EXPECTED[log.stem]["outcome"]]

log_files = pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)


def read(name: str) -> StartUpLog:
    return read_start_up_log((FOLDER / f"{name}.log").read_bytes())


def vllm(*messages: str) -> StartUpLog:
    """Read lines as vLLM's V1 engine of release 0.11.2 writes them."""
    start = "INFO 11-30 10:01:40 [api_server.py:1971] vLLM API server version 0.11.2"
    return read_start_up_log("".join(f"{message}\n" for message in (start, *messages)))


def test_there_are_twenty_logs_of_three_engines_and_more_than_six_releases() -> None:
    releases = {re.match(r"(vllm|sglang|tensorrt-llm)-(\d+\.\d+)", log.stem) for log in LOGS}
    assert None not in releases
    names = {match.groups() for match in releases if match}
    assert len(LOGS) >= 20
    assert {engine for engine, _ in names} == {"vllm", "sglang", "tensorrt-llm"}
    assert len(names) >= 18
    assert {log.stem for log in LOGS} == set(EXPECTED)


@log_files
def test_a_log_says_what_was_written_into_it_and_nothing_else(log: Path) -> None:
    assert told(read_start_up_log(log.read_bytes())) == EXPECTED[log.stem]


@log_files
def test_every_expected_value_stands_on_its_line(log: Path) -> None:
    # Independent of the reader: the table itself is held against the text.
    lines = log.read_bytes().decode().replace(",", "").split("\n")
    for name, values in EXPECTED[log.stem].items():
        if "speculative" in name or name.endswith(
            ("enable_prefix_caching", "first_engine", "initialised", "budget", "by_hand", "unquantised", "hf_overrides")
        ):
            continue
        for piece in values.split(", "):
            value, _, where = piece.partition(" @")
            if where and name != "failure":
                shown = value.partition("x ")[0] if name == "concurrency" else value
                assert shown in lines[int(where.partition(" ")[0]) - 1], (name, piece)


@log_files
def test_the_engine_is_the_one_in_the_name(log: Path) -> None:
    assert log.stem.startswith(read_start_up_log(log.read_bytes()).engine)


def test_blocks_lie_within_the_printed_memory_of_the_tightest_rank() -> None:
    # The bytes of one block are those of the model: layers x KV heads of a rank x 2 x width x bytes x 16 tokens.
    for name, block, blocks in (
        ("vllm-0.10.2-llama-3.1-8b-h100", 32 * 8 * 2 * 128 * 2 * 16, 450_224 // 16),
        ("vllm-0.11.2-qwen3-30b-dp2-coloured", 48 * 4 * 2 * 128 * 2 * 16, 375_408 // 16),
        ("vllm-0.18.1-qwen3-8b-h200-cri-crlf", 36 * 8 * 2 * 128 * 2 * 16, 787_888 // 16),
        ("vllm-0.21.0-qwen3-8b-tp2", 36 * 4 * 2 * 128 * 2 * 16, 888_096 // 16),
        ("vllm-0.6.3-window-too-long", 32 * 8 * 2 * 128 * 2 * 16, 1_408),
        ("vllm-0.6.6-qwen2.5-32b-tp2", 64 * 4 * 2 * 128 * 2 * 16, 18_677),
    ):
        available = read(name).available_kv_cache
        assert available is not None
        assert available.value.low // block <= blocks <= available.value.high // block, name


def test_of_several_ranks_the_tightest_counts_and_is_named() -> None:
    log = read("vllm-0.21.0-qwen3-8b-tp2")
    assert log.available_kv_cache is not None
    assert (log.available_kv_cache.value.printed, log.available_kv_cache.rank) == (Decimal("60.98"), "TP1")
    log = read("vllm-0.11.2-qwen3-30b-dp2-coloured")
    assert log.kv_cache_tokens is not None
    assert log.concurrency is not None
    assert (log.kv_cache_tokens.value, log.kv_cache_tokens.rank) == (375_408, "DP1")
    assert (log.concurrency.value.printed, log.concurrency.rank) == (Decimal("11.46"), "DP1")


def test_what_the_engine_resolved_stands_above_what_was_asked_for() -> None:
    told_by = read("sglang-0.5.20-hybrid-with-draft").deployment
    assert told_by.max_num_seqs is not None
    assert told_by.max_num_seqs.value == 43
    assert told_by.kv_cache_dtype is not None
    assert told_by.kv_cache_dtype.value == "float8_e4m3fn"
    assert told_by.tensor_parallel is not None
    assert told_by.tensor_parallel.value == 1


def test_sglang_s_tokens_are_those_of_its_scheduler() -> None:
    log = read("sglang-0.5.9-window-pools")
    assert log.kv_cache_tokens is not None
    assert log.kv_cache_tokens.value == 213_761


def test_the_last_start_that_came_to_an_end_is_read_and_said_to_be() -> None:
    log = read("vllm-0.13.0-qwen3-coder-next-restarts")
    assert log.notes == ("The log holds 3 starts; number 2 was read.",)


def test_the_kv_cache_of_the_profile_is_not_taken_for_the_final_one() -> None:
    lines = (FOLDER / "tensorrt-llm-1.1-llama-3.1-8b-pytorch.log").read_text(encoding="utf-8").splitlines(keepends=True)
    at_peak = next(number for number, line in enumerate(lines) if "Peak memory" in line)
    log = read_start_up_log("".join(lines[: at_peak + 1]))
    assert log.kv_cache_tokens is None
    assert "final KV cache size" in log.missing


def test_a_start_that_only_got_to_its_profile_came_to_no_end() -> None:
    whole = (FOLDER / "tensorrt-llm-1.1-llama-3.1-8b-pytorch.log").read_text(encoding="utf-8")
    log = read_start_up_log(whole + (FOLDER / "tensorrt-llm-1.2-cut-while-profiling.log").read_text(encoding="utf-8"))
    assert (log.start, log.starts) == (1, 2)
    assert log.kv_cache_tokens is not None
    assert log.kv_cache_tokens.value == 409_952


# Concurrency


def test_the_first_engine_s_concurrency_follows_from_its_blocks() -> None:
    log = read("vllm-0.4.2-llama-2-7b-a10")
    assert log.concurrency is not None
    # 821 blocks x 16 tokens / 4,096 = 3.207
    assert (log.concurrency.value.printed, log.concurrency.value.max_model_len) == (Decimal("3.21"), 4096)
    assert log.concurrency.value.computed
    assert log.no_concurrency is None


@pytest.mark.parametrize("name", ["vllm-0.11.2-cut-in-a-figure", "sglang-0.5.9-window-pools"])
def test_anywhere_else_it_is_not_guessed(name: str) -> None:
    log = read(name)
    assert log.concurrency is None
    assert log.no_concurrency is not None
    assert "layers" in log.no_concurrency


def test_early_releases_of_the_second_engine_are_not_taken_for_the_first() -> None:
    lines = (FOLDER / "vllm-0.7.0-v1-llama-3.1-8b.log").read_text(encoding="utf-8").splitlines(keepends=True)
    assert read_start_up_log("".join(lines[:3])).concurrency is None


def test_tokens_on_the_host_are_kept_apart() -> None:
    log = vllm("GPU + host KV cache size: 91,152 tokens, Maximum concurrency for 32,768 tokens per request: 2.78x")
    assert log.kv_cache_tokens is None
    assert log.concurrency is None
    assert [seen.value for seen in log.pool.kv_cache_tokens_with_host] == [91_152]
    assert [seen.value.printed for seen in log.concurrencies_with_host] == [Decimal("2.78")]


# Figures


@pytest.mark.parametrize(
    ("digits", "unit", "best", "half"),
    [
        ("14.9888", "GB", Decimal("14.9888") * GIB, Decimal("0.00005") * GIB),
        ("58.70", "GiB", Decimal("58.7") * GIB, Decimal("0.005") * GIB),
        ("1.0", "GiB", Decimal(1) * GIB, Decimal("0.005") * GIB),
        ("-2.81", "GiB", Decimal("-2.81") * GIB, Decimal("0.005") * GIB),
        ("320.00", "MiB", Decimal(320) * 2**20, Decimal("0.005") * 2**20),
    ],
)
def test_a_printed_amount_is_a_range_of_bytes(digits: str, unit: str, best: Decimal, half: Decimal) -> None:
    amount = byte_range(digits, unit, 2)
    assert abs(amount.best - best) <= Decimal("0.5")
    assert amount.low <= best - half < amount.low + 1
    assert amount.high - 1 < best + half <= amount.high


def test_whole_bytes_are_exact() -> None:
    assert byte_range("59012850893", "bytes", 2) == ByteRange(Decimal(59012850893), *(59012850893,) * 3)


def elsewhere(digits: str, zero: int) -> str:
    """Digits of another script, which begin at a code point of their own."""
    return digits.translate({ord("0") + value: zero + value for value in range(10)})


@pytest.mark.parametrize(
    "line",
    [
        "Available KV cache memory: 58,70 GiB",
        "GPU KV cache size: 447.088 tokens",
        "GPU KV cache size: 44,70,88 tokens",
        "GPU KV cache size: -5 tokens",
        "# GPU blocks: 1234567890123456",
        "# CPU blocks: 2048",
        "Model loading took 14,99 GiB memory and 3 seconds",
        "Available KV cache memory: nan GiB",
        "Maximum concurrency for 8,192 tokens per request: 1e9x",
        "Maximum concurrency for 8,192 tokens per request: -5.01x",
        f"Available KV cache memory: {elsewhere('58.7', 0x0660)} GiB",
        "Available KV cache memory: 1000000000000.00 GiB",
        f"Available KV cache memory: {'9' * 400} GiB",
        f"GPU KV cache size: {elsewhere('447', 0xFF10)} tokens",
        f"Using max model len 4{elsewhere('0', 0x0966)}",
        f"non-default args: {{'max_model_len': {elsewhere('8192', 0xFF10)}}}",
        "non-default args: {'gpu_memory_utilization': 1e-1, 'max_num_seqs': 1_000}",
        "non-default args: {'max_model_len': -1, 'gpu_memory_utilization': nan, 'max_num_seqs': 2.5}",
    ],
)
def test_digits_that_no_engine_prints_are_not_read(line: str) -> None:
    assert pieces(vllm(line)) == {("version", "0.11.2 @1")}


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("(EngineCore_DP3 pid=7) INFO 11-30 10:02:11 [gpu_worker.py:298] ", "DP3"),
        ("(EngineCore_1 pid=7) INFO ", "DP1"),
        ("(EngineCore pid=7) INFO ", None),
        ("(Worker_DP1_TP3_EP11 pid=7) INFO ", "DP1_TP3_EP11"),
        ("(Worker pid=7) (Worker_PP1_TP0 pid=7) INFO ", "PP1_TP0"),
        ("(VllmWorker TP2 pid=7) INFO ", "TP2"),
        ("(VllmWorker rank=2 pid=7) INFO ", "rank=2"),
        ("(RayWorkerWrapper pid=918, ip=10.0.0.2) INFO ", "pid=918"),
        ("Nov 30 10:02:11 host vllm[9]: (Worker_TP1 pid=9) INFO ", "TP1"),
        ("INFO 11-30 10:02:11 [gpu_worker.py:298] ", None),
    ],
)
def test_the_rank_is_read_from_the_prefix(line: str, rank: str | None) -> None:
    (seen,) = vllm(f"{line}Available KV cache memory: 5.00 GiB").memory.available_kv_cache
    assert seen.rank == rank


# Failures

NEEDED_MORE = (
    "ValueError: To serve at least one request with the model's max seq len (32000), (1.1 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (0.59 GiB). Based on the available memory, the estimated "
    "maximum model length is 17184. Try increasing `gpu_memory_utilization`"
)
NEEDED_MORE_BEFORE = (
    "ValueError: To serve at least one request with the models's max seq len (40960), (10.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (1.25 GiB). Based on the available memory,  Try increasing "
    "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
)
NO_MEMORY_BEFORE = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity; "
    "20.02 GiB already allocated; 1.21 GiB free; 20.10 GiB reserved in total by PyTorch)"
)
NO_MEMORY_ON_AMD = (
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 448.00 MiB. GPU 3 has a total capacity of 191.98 GiB "
    "of which 0 bytes is free."
)
NO_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        (NEEDED_MORE, "window_too_long, needed 1.1, available 0.59, max_model_len 32000, longest_model_len 17184"),
        (NEEDED_MORE_BEFORE, "window_too_long, needed 10.00, available 1.25, max_model_len 40960"),
        (NO_MEMORY_BEFORE, "out_of_memory, needed 2.00, available 1.21, total 23.69"),
        (NO_MEMORY_ON_AMD, "out_of_memory, needed 448.00, available 0, total 191.98"),
        (NO_MEMORY, "out_of_memory, needed 2.00"),
    ],
)
def test_a_refusal_keeps_its_figures_and_counts_once(line: str, figures: str) -> None:
    log = vllm(line, f"(APIServer pid=1) {line}")
    shown = [f"{name} {value}" for name, value in told(log).items() if name.startswith("failure")]
    assert ", ".join(shown).replace("failure ", "").replace(" @2", "") == figures
    assert log.outcome == "failed"


# Cut, damaged and hostile text


@pytest.mark.parametrize("log", ONE_START, ids=lambda log: log.stem)
def test_cut_at_any_line_a_log_says_a_part_of_the_same(log: Path) -> None:
    text = log.read_bytes().decode()
    whole = pieces(read_start_up_log(text))
    lines = text.split("\n")
    for count in range(1, len(lines)):
        try:
            cut = read_start_up_log("\n".join(lines[:count]) + "\n")
        except Refused:
            continue
        assert pieces(cut) <= whole, count
        assert cut.missing or count >= len(lines) - 3 or EXPECTED[log.stem].get("missing") is None


@given(st.sampled_from(ONE_START), st.floats(0, 1))
def test_cut_anywhere_a_log_says_a_part_of_the_same(log: Path, where: float) -> None:
    text = log.read_bytes().decode()
    try:
        cut = read_start_up_log(text[: int(where * len(text))])
    except Refused:
        return
    assert pieces(cut) <= pieces(read_start_up_log(text))


def test_a_last_line_without_an_end_is_named() -> None:
    assert read("vllm-0.11.2-cut-in-a-figure").notes == ("Line 7 has no end; its last digits aren't trusted.",)
    assert not vllm("# GPU blocks: 1381").notes


def test_an_amount_at_the_end_of_a_cut_line_keeps_its_unit() -> None:
    start = "INFO vLLM API server version 0.11.2\n"
    log = read_start_up_log(f"{start}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 320.00 MiB")
    (failure,) = log.failures
    assert failure.needed is not None
    assert failure.needed.best == 320 * 2**20


FRAGMENTS = sorted(
    {rule.anchor for engine in ENGINES for rule in engine.rules}
    | {told_by.anchor for engine in ENGINES for told_by in engine.arguments}
    | {marker.anchor for engine in ENGINES for marker in engine.markers}
    | {line for log in LOGS for line in log.read_text(encoding="utf-8").split("\n")}
    | set("0123456789.,()[]{}='\"\\\n\r\x1b\0\ud800")
)


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=20), max_size=40).map("".join) | st.text() | st.binary())
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    try:
        log = read_start_up_log(text)
    except Refused:
        return
    told(log)
    assert (log.concurrency is None) == (log.no_concurrency is not None)
    assert log.deployment
    assert 1 <= log.start <= log.starts


@pytest.mark.parametrize("text", ["", "\n\n", "hello\nworld\n", "CUDA out of memory. Tried to allocate 2.00 GiB."])
def test_what_is_no_start_up_log_is_refused_with_what_was_looked_for(text: str) -> None:
    with pytest.raises(Refused) as caught:
        read_start_up_log(text)
    (fault,) = caught.value.faults
    assert fault.pointer == ""
    for engine in ("vLLM: 'GPU KV cache size'", "SGLang: 'Load weight end'", "TensorRT-LLM: 'TensorRT-LLM version'"):
        assert engine in fault.detail


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    body = (FOLDER / "vllm-0.9.2-window-too-long.log").read_bytes()
    spoilt = body.replace(b"Traceback", b"Trace\xff\xfeback")
    assert spoilt != body
    assert told(read_start_up_log(spoilt)) == EXPECTED["vllm-0.9.2-window-too-long"]


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-8"])
def test_a_log_that_begins_with_a_mark_is_read_as_it_says(codec: str) -> None:
    body = (FOLDER / "vllm-0.10.2-llama-3.1-8b-h100.log").read_text(encoding="utf-8").replace("\n", "\r\n")
    assert told(read_start_up_log(f"\ufeff{body}".encode(codec))) == EXPECTED["vllm-0.10.2-llama-3.1-8b-h100"]


SAYS = "INFO 11-30 10:01:40 [api_server.py:1971] vLLM API server version 0.11.2"


@pytest.mark.parametrize("name", ["log", "message", "msg", "MESSAGE", "textPayload", "line", "body", "text"])
@pytest.mark.parametrize("around", ["{}\n", "[{},\n", "  {}\r\n", "{}"])
def test_the_message_of_a_line_of_json_is_read_under_any_collector_s_name(name: str, around: str) -> None:
    said = f'\x1b[36m{SAYS}\x1b[0m\n(Worker_TP1 pid=7) "quoted" Available KV cache memory: 5.00 GiB\n'
    log = read_start_up_log(around.format(json.dumps({"level": "info", name: said, "pid": 7})))
    assert told(log)["available_kv_cache"] == "5.00 @1 TP1"
    assert told(log)["version"] == "0.11.2 @1"


@pytest.mark.parametrize(
    "line",
    [
        '{"log": "nothing", "log2": "GPU KV cache size: 5 tokens"}',
        '{"log": "nothing", "other": "GPU KV cache size: 5 tokens"}',
    ],
)
def test_what_another_member_of_a_line_of_json_says_is_no_message(line: str) -> None:
    assert "kv_cache_tokens" not in told(vllm(line))


def test_a_line_of_json_that_is_cut_is_read_as_it_stands() -> None:
    line = json.dumps({"log": "INFO GPU KV cache size: 447,088 tokens\n"})
    assert told(vllm(line[:-1]))["kv_cache_tokens"] == "447088 @2"
    cut = read_start_up_log(f"{SAYS}\n{line[: line.index('088')]}")
    assert "kv_cache_tokens" not in told(cut)


def test_what_users_wrote_is_not_read() -> None:
    line = "GPU KV cache size: 5 tokens"
    served = vllm("GPU KV cache size: 447,088 tokens", "INFO:     Application startup complete.", line)
    assert [seen.value for seen in served.pool.kv_cache_tokens] == [447_088]
    assert not vllm(f"INFO Received request cmpl-1: prompt: '{line}'").pool.kv_cache_tokens


def test_a_line_without_bounds_is_read_as_far_as_a_line_goes() -> None:
    endless = "GPU KV cache size: 5 tokens " + "x" * 30_000_000 + " Available KV cache memory: 5.00 GiB"
    log = vllm(endless)
    assert [seen.value for seen in log.pool.kv_cache_tokens] == [5]
    assert not log.memory.available_kv_cache


ANCHORS = sorted({anchor for engine in ENGINES for anchor in engine.anchors()})


@pytest.mark.parametrize("filler", ["", "a", "x" * 120, "(Worker_TP0 pid=7)", "\x1b[0m", "\N{GRINNING FACE}", "{"])
def test_only_lines_that_hold_what_an_engine_says_are_looked_at(filler: str) -> None:
    # What is counted is work: a line that says nothing takes none, however many there are.
    says = [f"{anchor} 1" for anchor in ANCHORS]
    fillers = [filler] * 5000
    looked_at = lines_holding("".join(f"{line}\n" for line in [*fillers, *says, *fillers]), ANCHORS).lines
    assert [(line.number, line.text) for line in looked_at] == list(enumerate(says, 5001))
    assert all(anchor in line.anchors for anchor, line in zip(ANCHORS, looked_at, strict=True))


def test_what_a_progress_bar_wrote_over_hides_nothing() -> None:
    bar = "\rLoading shards:  50%|#####     |" * 5000  # one line, longer than any that is read whole
    log = vllm(f"{bar}(Worker_TP1 pid=7) Available KV cache memory: 5.00 GiB", f"{bar}\r# GPU blocks: 44{bar}")
    assert told(log)["available_kv_cache"] == "5.00 @2 TP1"
    assert told(log)["gpu_blocks"] == "44 @3"
    assert not log.notes


def test_a_bar_that_a_rank_began_leaves_it_what_it_says_next() -> None:
    # The prefix stands where the line began, the bar writes over it, and the next record ends the line.
    bar = "(Worker_TP0 pid=7) \rCapturing CUDA graphs: 100%|##| 35/35 [00:04<00:00,  8.1it/s]"
    graphs = "INFO 02-11 07:01:22 [gpu_model_runner.py:5051] Graph capturing finished in 11 secs, took 1.12 GiB"
    other = "(Worker_TP1 pid=8) INFO 02-11 07:01:22 [gpu_worker.py:366] Available KV cache memory: 5.00 GiB"
    log = vllm(f"{bar}\r{graphs}", f"{bar}{graphs}{other}", f"{graphs}\r{other}")
    assert told(log)["cuda_graphs"] == "1.12 @2 TP0, 1.12 @4"
    assert told(log)["available_kv_cache"] == "5.00 @3 TP1"


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("anchor", ["LLM engine", "LLM Args:"])
def test_lines_that_hold_something_are_passed_over_once(anchor: str, end: str) -> None:
    # In a text without line feeds a search for each line's end would take hours: the time limit of every test fails.
    looked_at = lines_holding(f"{anchor}{end}" * 60_000, ANCHORS).lines
    assert len(looked_at) == 60_000
    assert looked_at[-1].number == (1 if end == "\r" else 60_000)


@pytest.mark.parametrize("anchor", sorted({rule.anchor for engine in ENGINES for rule in engine.rules}))
def test_a_line_full_of_beginnings_takes_no_longer(anchor: str) -> None:
    # With a pattern that backtracks it would take minutes; the time limit of every test is what fails then.
    fillers = (anchor, f"{anchor}1,111", f"{anchor}1.1 GiB ", f"{anchor}(")
    lines = "".join(filler * (LONGEST_LINE // len(filler)) + "\n" for filler in fillers)
    assert vllm(*lines.splitlines()).starts >= 1


@pytest.mark.parametrize(("starts", "kept"), [(1, 16), (9, 16), (4000, 1)])
def test_countless_failures_take_no_longer_than_other_lines(starts: int, kept: int) -> None:
    # Each beside all before it would take minutes; the time limit of every test is what fails then.
    marker = "INFO vLLM API server version 0.10.2\n"
    failures = [f"out of memory. Tried to allocate {number} MiB\n" for number in range(40_000)]
    log = "".join(marker + "".join(failures[start::starts]) for start in range(starts))
    began = time.monotonic()
    read = read_start_up_log(log)
    assert time.monotonic() - began < 10
    assert (read.starts, read.outcome) == (starts, "failed")
    assert len(read.failures) == kept


@pytest.mark.parametrize(
    "line",
    [
        "with config: ",
        "with config: model='a', quantization=None, x=1",
        "server_args=",
        "server_args=ServerArgs(",
        "LLM engine (v",
        "LLM engine (v0.9.2) with config: model='a'",
        "KV cache size: 1 tokens",
        "Application startup complete\rvLLM API server version 0.9.2",
    ],
)
def test_of_a_log_that_says_the_same_without_end_the_end_is_read(line: str) -> None:
    # Unbounded, four MiB take up to eleven seconds.
    count = 2**22 // (len(line) + 1)
    last = (
        "INFO vLLM API server version 0.11.2\nINFO Available KV cache memory: 54.96 GiB\nApplication startup complete\n"
    )
    began = time.monotonic()
    log = read_start_up_log(f"{line}\n" * count + last)
    assert time.monotonic() - began < 4
    assert log.available_kv_cache is not None
    assert log.available_kv_cache.line == count + 2
    (note,) = (note for note in log.notes if "left out" in note)
    left_out = int(re.sub(r"[^0-9]", "", note))
    # About as many as are counted, of which a line may hold several.
    assert count - MOST_ANCHORS - 5000 < left_out < count - MOST_ANCHORS // 4


# Arguments


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("(a=1, b='x, y=2', c=None)", {"a": "1", "b": "'x, y=2'", "c": "None"}),
        ("ServerArgs(a={'b': 1, 'c': [1, 2]}, d=K(e=1, f='g'))", {"a": "{'b': 1, 'c': [1, 2]}", "d": "K(e=1, f='g')"}),
        ("{'a': 'x', 'b': {'c': 1}, 'd': [1, 2]}", {"a": "'x'", "b": "{'c': 1}", "d": "[1, 2]"}),
        ("a='it\\'s', b=torch.float16", {"a": "'it\\'s'", "b": "torch.float16"}),
        ('a="it\'s" b=1 c=<E.A: (2, 1)>', {"a": '"it\'s"', "b": "1", "c": "<E.A: (2, 1)>"}),
        ("(a=1, a=2)", {"a": "1"}),
        ("(a=1, b=2", {"a": "1"}),
        ("(a=1, b='x", {"a": "1"}),
        ("(a=1) b=2", {"a": "1"}),
        ("", {}),
        ("()", {}),
    ],
)
def test_arguments_are_taken_apart_at_their_own_level(text: str, pairs: dict[str, str]) -> None:
    assert pairs_in(text) == pairs


def test_the_last_argument_of_a_cut_line_is_left_out() -> None:
    assert pairs_in("a=1, b=2", whole=False) == {"a": "1"}


@given(st.text(alphabet="ab=,:'\"\\ ()[]{}1", max_size=60))
def test_any_arguments_are_read(text: str) -> None:
    assert all(value in text for value in pairs_in(text).values())
