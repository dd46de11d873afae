"""What a pool for long requests buys: the reference table, laws, and cases counted by hand."""

import csv
from math import comb, floor
from typing import Any

import msgspec
import pytest

from service.capacity.errors import Refused
from service.capacity.planner import plan
from service.capacity.split.answer import PoolsAnswer
from service.capacity.split.pair import Pair
from service.capacity.split.parting import RouteBy
from service.capacity.split.splitting import split
from service.catalog.bundled import bundled_catalog
from service.catalog.resolve import resolve
from service.readers import strict_json
from service.readers.question import AskedQuestion
from tests.collected import FOLDER, collected
from tests.questions import REFERENCE, asked

SMALL = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 1024,
    "vocab_size": 1000,
    "max_position_embeddings": 2**21,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": True,
}
"""2 layers x 2 heads x (64 + 64) x 2 B: 1,024 B a token, 16,384 B a block of 16."""


def asked_of(workload: object, blocks: int, window: int, drafted: int = 0) -> AskedQuestion:
    """A pool of so many blocks of 16 tokens; with a draft of the same size, of half as many."""
    question: dict[str, object] = {
        "model": {"config": SMALL},
        "gpu": "h200-sxm-141gb",
        "levers": {"max_model_len": window, "kv_cache_memory_bytes": blocks * 16_384, "speculative_tokens": drafted},
        "workload": workload,
    }
    if drafted:
        question["draft_model"] = {"config": SMALL}
    return strict_json.decode(msgspec.json.encode(question), AskedQuestion)


def answered(question: AskedQuestion, at: int | None = None, route_by: RouteBy = "total") -> PoolsAnswer:
    return split(resolve(question, bundled_catalog()), at, route_by)


def rows_of(*rows: tuple[int, int]) -> dict[str, object]:
    return {"kind": "rows", "rows": rows}


def figures(answer: PoolsAnswer) -> dict[str, Any]:
    """Those of the reference table."""
    found = answer.split
    assert found is not None
    assert found.short is not None
    assert found.long is not None
    assert found.users_per_gpu is not None
    assert found.gain is not None
    return {
        "requests": found.long.share_of_requests.value,
        "in_flight": found.long.share_in_flight.value,
        "kv": found.long.share_of_kv.value,
        "mixed": answer.mixed.users.value,
        "short": found.short.users.value,
        "long": found.long.users.value,
        "pair": found.users_per_gpu.value,
        "gain": found.gain.value,
        "worst": (answer.mixed.worst_case.value, found.short.worst_case.value),
    }


# --- the reference table: 64 means a pool, split at the 90th percentile of the total; worst case of the longest request

FULL = {
    # trace: L, longest, of requests, in flight, of KV, mixed, short, long, pair, gain, worst case
    "azure_code_2023": (5207, 7841, 0.10, 0.10, 0.31, 48, 68, 19, 54.2, 0.13, (17, 26)),
    "azure_conv_2023": (2819, 14089, 0.10, 0.04, 0.12, 53, 62, 17, 56.7, 0.07, (5, 27)),
    "mooncake_conversation": (27723, 126527, 0.10, 0.12, 0.43, 42, 82, 12, 48.9, 0.16, (6, 30)),
}


def held_blocks(rows: list[tuple[int, int]]) -> float:
    """The mean of whole blocks of 16 over all decode steps: ceil(t / 16) sums up to 8 q (q + 1) + r (q + 1)."""

    def summed(tokens: int) -> int:
        q, r = divmod(tokens, 16)
        return 8 * q * (q + 1) + r * (q + 1)

    return sum(summed(p + o - 1) - summed(p - 1) for p, o in rows) / sum(o for _, o in rows)


@collected
@pytest.mark.parametrize("trace", FULL)
def test_all_rows_of_a_trace_give_the_reference_table_exactly(trace: str) -> None:
    at, longest, requests, in_flight, kv, mixed, short, long, pair, gain, worst = FULL[trace]
    with (FOLDER / "traces" / f"{trace}.sample.csv").open() as file:
        rows = [(int(row["prompt_tokens"]), int(row["output_tokens"])) for row in csv.DictReader(file)]
    found = figures(answered(asked_of({"kind": "rows", "rows": rows}, round(64 * held_blocks(rows)), longest), at))
    assert (found["mixed"], found["short"], found["long"], found["worst"]) == (mixed, short, long, worst)
    assert round(found["pair"], 1) == pair
    assert [round(found[share], 2) for share in ("requests", "in_flight", "kv", "gain")] == [
        requests,
        in_flight,
        kv,
        gain,
    ]


HELD = {"azure_code_2023": 2130, "azure_conv_2023": 1226, "mooncake_conversation": 13125}
BINNED = {name: (*FULL[name], HELD[name]) for name in FULL} | {
    "claude_code_agentic": (234199, 895166, 0.10, 0.11, 0.29, 49, 72, 18, 54.8, 0.12, (9, 34), 127820),
    "servegen_deepseek_r1": (6312, 56541, 0.10, 0.34, 0.73, 41, 133, 20, 45.3, 0.11, (3, 35), 3460),
    "servegen_m_large": (2513, 25373, 0.10, 0.25, 0.58, 43, 96, 19, 47.8, 0.11, (3, 35), 1406),
}


@pytest.mark.parametrize("trace", BINNED)
def test_a_histogram_gives_the_reference_table_within_the_bias_of_its_bins(trace: str) -> None:
    """Bins are three to an octave, and the split lies inside of one, whose requests count as spread evenly.

    That moves the share of long requests by up to 1.2 points, counts by up to 5 % (1 where they are small), and the
    gain, which is the ratio of two of those, by up to 3 points. Blocks are 64 times the mean of the rows: their tokens
    held, and 7.5 more for the block that is being filled.
    """
    at, longest, requests, in_flight, kv, mixed, short, long, pair, gain, worst, held = BINNED[trace]
    found = figures(answered(asked_of(trace, round(64 * (held + 7.5) / 16), longest), at))
    assert found["requests"] == pytest.approx(requests, abs=0.012)
    assert found["in_flight"] == pytest.approx(in_flight, abs=0.012)
    assert found["kv"] == pytest.approx(kv, abs=0.035)
    for name, expected in (("mixed", mixed), ("short", short), ("long", long), ("pair", pair)):
        assert found[name] == pytest.approx(expected, abs=max(1, 0.05 * expected)), name
    assert found["gain"] == pytest.approx(gain, abs=0.03)
    assert found["worst"] == pytest.approx(worst, abs=1)


# --- counted by hand

FIXED = rows_of(*[(16, 1)] * 9, (160, 1))
"""Nine of ten requests hold one block, the tenth holds ten; all for one step."""


def test_a_split_of_two_lengths_is_what_is_counted_by_hand() -> None:
    found = answered(asked_of(FIXED, 100, 200), 17)

    def overflow(users: int) -> float:
        """More than 100 blocks: of so many users, K hold nine more than the one of the others."""
        most = (100 - users) // 9
        return 1 - sum(comb(users, k) * 0.1**k * 0.9 ** (users - k) for k in range(most + 1))

    mixed = max(users for users in range(1, 101) if overflow(users) <= 0.01)
    # 100 // 1 short ones, 100 // 10 long ones: neither varies. 1 / (0.9 / 100 + 0.1 / 10) = 52.6316.
    expected = {"requests": 0.1, "in_flight": 0.1, "short": 100, "long": 10, "pair": 52.6316, "mixed": mixed}
    assert figures(found).items() >= expected.items()
    # Nine hold 1 block and one holds 10: 10 of 19.
    assert figures(found)["kv"] == 0.526316
    # Windows of 200 and 17 tokens are 13 and 2 blocks.
    assert figures(found)["worst"] == (7, 50)
    assert figures(found)["gain"] == pytest.approx(52.631579 / mixed - 1, abs=1e-6)
    assert found.split is not None
    assert found.split.short_gpu_share is not None
    # Short ones need 0.009 pools of every 0.019.
    assert found.split.short_gpu_share.value == 0.473684
    assert found.split.long_share_borne is not None
    assert found.split.long_share_borne.value == pytest.approx(0.1 * 52.631579 / mixed, abs=1e-6)


def test_pools_of_a_fleet_are_divided_as_lets_most_run() -> None:
    pair = Pair(long_share=0.1, mixed=40, short=100, long=10)
    # One of each: the long one is full at 10 / 0.1 = 100, the short one at 111.
    assert pair.fleet(2) == (1, 100)
    # Of 10: 5 short hold 555 and 5 long 500; 4 short hold 444 and 6 long 600.
    assert pair.fleet(10) == (5, 500)
    # Two pools hold 100 split and 80 mixed.
    assert pair.least_fleet() == 2
    # A hundredth is long and needs a tenth of the pools: small fleets can't be divided like that.
    rare = Pair(long_share=0.01, mixed=85, short=100, long=9)
    assert rare.short_pools == pytest.approx(0.0099 / (0.0099 + 0.01 / 9))
    smallest = rare.least_fleet()
    assert smallest is not None
    assert rare.fleet(smallest)[1] > smallest * 85
    best = [max(min(s * 100 / 0.99, (n - s) * 9 / 0.01) for s in range(1, n)) for n in range(2, smallest + 1)]
    assert all(floor(held) <= n * 85 for n, held in enumerate(best[:-1], start=2))
    assert Pair(long_share=0.1, mixed=60, short=100, long=10).least_fleet() is None


# --- laws


@pytest.mark.parametrize("route_by", ["total", "prompt"])
@pytest.mark.parametrize("at", [15_050, 16_384, 131_072, 2**31 - 1])
def test_a_split_at_or_above_the_longest_request_buys_exactly_nothing(at: int, route_by: RouteBy) -> None:
    question = asked({"max_model_len": 131_072}, workload=rows_of((14_050, 1000), (500, 20), (900, 700)))
    found = answered(question, at, route_by)
    assert found.nothing is not None
    assert (found.buys_nothing, found.nothing.code) == (True, "no_request_is_longer")
    assert found.split is not None
    assert (found.split.long, found.split.gain, found.split.fleets, found.split.least_fleet) == (None, None, (), None)
    assert found.split.short is not None
    assert found.split.short.users == found.mixed.users
    assert found.split.short.share_of_requests.value == 1


@pytest.mark.parametrize("at", [1, 519])
def test_a_split_below_every_request_buys_nothing(at: int) -> None:
    found = answered(asked(workload=rows_of((14_050, 1000), (500, 20), (900, 700))), at)
    assert found.nothing is not None
    assert found.nothing.code == "no_request_is_shorter"
    assert found.split is not None
    assert found.split.short is None
    assert found.split.long is not None
    assert found.split.long.users == found.mixed.users


@pytest.mark.parametrize("route_by", ["total", "prompt"])
@pytest.mark.parametrize("workload", bundled_catalog().workloads.keys)
def test_candidates_rise_their_shares_fall_and_the_best_of_them_is_shown(workload: str, route_by: RouteBy) -> None:
    found = answered(asked({"max_model_len": 32_768}, workload=workload), None, route_by)
    lines = found.candidates
    assert list(lines) == sorted(lines, key=lambda line: line.split_at)
    for name in ("long_share_of_requests", "long_share_in_flight", "long_share_of_kv"):
        shares = [getattr(line, name) for line in lines]
        assert shares == sorted(shares, reverse=True)
        assert all(0 < share < 1 for share in shares)
    assert all(line.short_users >= 0 and line.long_users >= 0 for line in lines)
    best = max(lines, key=lambda line: line.users_per_gpu)
    assert found.best == best.split_at
    assert found.split is not None
    assert found.split.split_at == best.split_at
    assert figures(found)["gain"] == best.gain
    assert figures(found)["pair"] == best.users_per_gpu
    assert (found.nothing.code if found.nothing else None) == best.nothing
    for name in ("share_of_requests", "share_in_flight", "share_of_kv"):
        parts = [getattr(part, name).value for part in (found.split.short, found.split.long)]
        assert sum(parts) == pytest.approx(1, abs=1e-6)


def test_a_place_that_was_asked_for_stands_among_the_candidates() -> None:
    found = answered(asked(workload="azure_conv_2023"), 3000)
    assert 3000 in {line.split_at for line in found.candidates}
    assert found.split is not None
    assert found.split.split_at == 3000
    assert found.best != 3000


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"engine": "vllm@0.19", "levers": {"max_model_len": 8192, "tensor_parallel": 2, "data_parallel": 2}},
        {"engine": "vllm@0.19", "levers": {"max_model_len": 8192, "pipeline_parallel": 2}},
        {"engine": "vllm@0.33", "model": "Qwen/Qwen3.5-35B-A3B", "gpu": "h200-sxm-141gb"},
        {"engine": "vllm@0.8", "model": "Qwen/Qwen2.5-0.5B", "risk": 0.001},
    ],
)
def test_mixed_pools_hold_what_an_estimate_says(changes: dict[str, Any]) -> None:
    question = resolve(asked(**(REFERENCE | {"workload": "servegen_m_large"} | changes)), bundled_catalog())
    users, found = plan(question).users, split(question)
    assert found.mixed.users.value * question.levers.data_parallel == users.at(question.risk)
    assert found.mixed.worst_case.value == users.worst_case // question.levers.data_parallel
    cap = question.levers.max_num_seqs
    assert found.mixed.admitted.value == min(found.mixed.users.value, cap or found.mixed.users.value)
    gpus = question.levers.tensor_parallel * question.levers.pipeline_parallel
    assert found.gpus_per_pool == gpus
    assert found.mixed.users_per_gpu.value == pytest.approx(found.mixed.admitted.value / gpus, rel=1e-6)


def test_bins_of_one_length_each_are_the_rows_that_they_hold() -> None:
    rows = [(10, 1)] * 3 + [(10, 100)] * 2 + [(700, 100)]
    joint = {
        "kind": "joint",
        "prompt_edges": [9, 10, 699, 700],
        "output_edges": [0, 1, 99, 100],
        "counts": [[0, 0, 3], [0, 2, 2], [2, 2, 1]],
    }
    for route_by in ("total", "prompt"):
        by_rows, by_cells = (
            answered(asked_of(lengths, 400, 1000), 150, route_by) for lengths in (rows_of(*rows), joint)
        )
        assert figures(by_rows) == figures(by_cells)


def test_the_short_pool_is_planned_anew_with_its_own_window() -> None:
    """VLLM 0.6 profiles windows of up to 32,768 tokens in one step: a shorter window then leaves less of the memory."""
    model, lengths = {"model": "ByteDance-Seed/Seed-OSS-36B-Instruct", "gpu": "b300-sxm"}, "claude_code_agentic"
    windows = {"max_model_len": 524_288}
    found = answered(asked(windows, **model, engine="vllm@0.6", workload=lengths), 32_768)
    assert found.split is not None
    assert found.split.short is not None
    for pool, window in ((found.split.short, 32_768), (found.mixed, 524_288)):
        alone = plan(resolve(asked({"max_model_len": window}, **model, engine="vllm@0.6"), bundled_catalog()))
        assert pool.kv_budget_bytes.best == alone.ladder[4].value
        assert pool.worst_case.value == alone.users.worst_case
    assert found.split.short.kv_budget_bytes.best < found.mixed.kv_budget_bytes.best


def test_rows_in_their_order_say_how_far_the_mean_wanders() -> None:
    rows = [(100 + 40 * (number // 200 % 5), 20) for number in range(4000)]
    found = answered(asked_of({"kind": "rows", "rows": rows, "ordered": True}, 400, 1000))
    assert (found.tau.certainty, "tau" in {one.name for one in found.assumed}) == ("measured", False)
    assert found.tau.value > 0.08
    shuffled = answered(asked_of({"kind": "rows", "rows": rows}, 400, 1000))
    assert (shuffled.tau.value, shuffled.tau.certainty) == (0.08, "assumed")
    assert "tau" in {one.name for one in shuffled.assumed}


# --- when it buys nothing


def code_of(answer: PoolsAnswer) -> str | None:
    assert answer.buys_nothing is (answer.nothing is not None)
    return None if answer.nothing is None else answer.nothing.code


def test_a_gain_that_drift_eats_counts_as_none() -> None:
    question = asked({"max_model_len": 16_384}, workload="mooncake_conversation")
    gain = figures(answered(question))["gain"]
    for tau, code in ((gain - 0.001, None), (gain + 0.001, "gain_is_within_drift")):
        tightened = msgspec.structs.replace(question, tau=round(tau, 6))
        assert code_of(answered(tightened)) == code


def test_a_cap_on_sequences_that_every_pool_reaches_leaves_no_gain() -> None:
    found = answered(asked({"max_num_seqs": 64}, workload="azure_conv_2023"), 2048)
    assert code_of(found) == "max_num_seqs_is_reached"
    assert (figures(found)["pair"], found.mixed.admitted.value) == (64, 64)


def test_where_the_long_window_has_no_room_the_answer_says_what_the_short_pool_would_hold() -> None:
    # 53.73 GiB at 128 KiB a token are 440,137 tokens; four times that many heads leave no room for 131,072.
    found = answered(asked({"max_model_len": 131_072, "kv_heads": 32}, workload="azure_conv_2023"), 8192)
    assert code_of(found) == "long_pool_does_not_start"
    assert found.nothing is not None
    assert "The short pool would hold" in found.nothing.text
    assert (found.mixed.admitted.value, found.mixed.worst_case.value) == (0, 0)
    assert found.split is not None
    assert found.split.short is not None
    assert found.split.short.admitted.value > 0
    assert found.split.gain is None


def test_a_short_pool_whose_start_takes_more_may_be_the_one_that_does_not_start() -> None:
    """Above 32,768 tokens vLLM 0.6 profiles chunks, at it a whole window: by 6.34 GB more than a window takes."""
    model = {"model": "ByteDance-Seed/Seed-OSS-36B-Instruct", "gpu": "b300-sxm", "engine": "vllm@0.6"}
    codes = {
        code_of(
            answered(
                asked(
                    {"max_model_len": 33_000, "gpu_memory_utilization": share / 1000},
                    **model,
                    workload="claude_code_agentic",
                ),
                32_768,
            )
        )
        for share in range(250, 350, 5)
    }
    assert "short_pool_does_not_start" in codes
    assert "long_pool_does_not_start" in codes


def test_a_draft_may_leave_no_room_for_one_long_request() -> None:
    # A window of 160 tokens is 10 blocks of target and draft, which is all there is; 159 tokens and 4 drafted are 11.
    found = answered(asked_of(rows_of((16, 1), (159, 1)), 20, 160, drafted=4))
    assert found.mixed.worst_case.value == 1
    assert code_of(found) == "long_pool_holds_none"


def test_prompts_beyond_the_window_are_in_neither_pool_and_the_answer_says_so() -> None:
    lengths = ((500, 20), (900, 700), (3000, 100), (9000, 10))
    found = answered(asked(workload=rows_of(*lengths)), 1000)
    (said,) = (caveat.text for caveat in found.caveats if caveat.code == "some_requests_are_rejected")
    assert "25%" in said
    # Of the three others one is short.
    assert figures(found)["requests"] == pytest.approx(2 / 3, abs=1e-6)
    codes = {caveat.code for caveat in answered(asked(workload=rows_of(*lengths[:3])), 1000).caveats}
    assert "some_requests_are_rejected" not in codes


def test_the_answer_says_what_routing_can_not_know_and_which_figures_stand_on_little() -> None:
    lengths = rows_of((500, 20), (900, 700), (3000, 100))
    by_total, by_prompt = (answered(asked(workload=lengths), 1000, by) for by in ("total", "prompt"))
    codes = [{caveat.code for caveat in found.caveats} for found in (by_total, by_prompt)]
    assert codes[0] - codes[1] == {"outputs_are_not_known_when_routing"}
    assert codes[1] - codes[0] == {"short_window_leaves_room_for_outputs"}
    assert {"shares_of_traffic_wander", "two_pools_queue_apart", "few_long_rows", "few_rows"} <= codes[0]


def test_equal_requests_leave_nothing_to_split() -> None:
    found = answered(asked(workload=rows_of((100, 10), (100, 10))))
    assert (code_of(found), found.split, found.best, found.candidates) == ("no_request_is_longer", None, None, ())


# --- refusals


@pytest.mark.parametrize(
    "workload",
    [{"kind": "mean", "tokens": 500}, {"kind": "total", "bins": [{"upper": 500, "count": 1}]}],
)
def test_lengths_without_prompt_and_output_together_are_refused(workload: dict[str, object]) -> None:
    with pytest.raises(Refused, match="joint histogram or rows") as refused:
        answered(asked(workload=workload))
    assert [fault.pointer for fault in refused.value.faults] == ["/workload"]


def test_what_an_estimate_refuses_is_refused_here_too() -> None:
    with pytest.raises(Refused, match="pass the limit"):
        answered(asked({"max_model_len": 200_000}, workload="azure_conv_2023"))
    with pytest.raises(Refused, match="no prompt leaves room"):
        answered(asked({"max_model_len": 100}, workload=rows_of((100, 5))))
