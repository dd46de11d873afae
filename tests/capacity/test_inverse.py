"""The inverse: exact to the token and to the block, and never null without a reason."""

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from service.capacity.answer import Answer
from service.capacity.cache import FullAttention, Storage, Terms
from service.capacity.deployment import deploy
from service.capacity.errors import Refused
from service.capacity.largest_window import largest_paged, largest_window, shortest_window
from service.capacity.layout import separate
from service.capacity.lengths import Running
from service.capacity.planner import plan
from service.capacity.pool import pool_of
from service.capacity.pool_lengths import held_in
from service.capacity.workload import Bin, Joint, Mean, Rows, Total, Workload
from service.catalog.bundled import bundled_versions
from service.catalog.entries import Catalog
from service.catalog.resolve import resolve
from service.readers import strict_json
from service.readers.question import AskedQuestion
from tests.fixed_catalog import fixed_catalog

GIB = 2**30
CATALOG = fixed_catalog()


def planned(question: dict[str, Any], **levers: object) -> Answer:
    asked = question | {"levers": question.get("levers", {}) | levers}
    return plan(resolve(strict_json.decode(msgspec.json.encode(asked), AskedQuestion), CATALOG))


def fits(question: dict[str, Any], **levers: object) -> bool:
    """Whether it fits; a window that no request of the workload fits doesn't."""
    try:
        return planned(question, **levers).fits
    except Refused:
        return False


def inverse(question: dict[str, Any]) -> tuple[int | None, float | None, dict[str, str]]:
    answer = planned(question)
    assert not answer.fits
    assert answer.inverse is not None
    found = answer.inverse
    return found.max_model_len, found.gpu_memory_utilization, {one.name: one.reason for one in found.reasons}


def latent(blocks: int, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - parts of a question, of any type
    """40 layers x 576 elements x 2 B: 46,080 B a token; so many blocks of one token, one of them null."""
    levers = {"block_size": 1, "kv_cache_memory_bytes": blocks * 46_080, "max_model_len": 8192}
    return {"model": "test/latent", "gpu": "card", "engine": "ruled@1", "levers": levers} | changes


def test_the_smallest_share_leaves_room_for_the_null_block() -> None:
    question = {
        "model": "test/latent",
        "gpu": "small",
        "engine": "ruled@1",
        "levers": {"max_model_len": 131_072, "reserve_bytes": 2 * GIB, "gpu_memory_utilization": 0.3},
    }
    # 8,192 blocks of 16 x 46,080 B and the null block; 2 x 10^9 B of weights and 2 GiB of reserve, of 24 x 10^9 B.
    needed = 8193 * 737_280 + 2 * 10**9 + 2 * GIB
    _, share, reasons = inverse(question)
    assert share is not None
    assert round(share * 10**9) == -(-needed * 10**9 // (24 * 10**9))
    assert "gpu_memory_utilization" not in reasons


def test_a_paged_target_has_a_largest_window_at_which_the_mean_still_fits() -> None:
    # Two requests: one of 10 tokens in and 1 out, one of 10 in and 90 out, which a window of w cuts at w: it holds
    # 10, 11, .. w - 1 over w - 10 steps. With (10, 1): mean = (10 + 10 + .. + (w - 1)) / (w - 9).
    rows = {"kind": "rows", "rows": [[10, 1], [10, 90]]}
    question = latent(301, workload=rows, targets={"users": 10, "basis": "paged"})
    # 10 users of 300 tokens' worth: a mean of up to 30. w = 50: (10 + 1,180) / 41 = 29.02; w = 52: 1,291 / 43 = 30.02;
    # w = 51: (10 + 1,230) / 42 = 29.52.
    assert inverse(question)[0] == 51
    assert (fits(question, max_model_len=51), fits(question, max_model_len=52)) == (True, False)


def test_where_an_open_bin_lets_the_mean_fall_again_the_window_named_is_tight_all_the_same() -> None:
    # 5,000 requests of 2,000 in and 1 out, and one of 1 in and 2 up to the window out: the wider the window, the more
    # steps the one runs, at first at less than 2,000 tokens.
    workload = {
        "kind": "joint",
        "prompt_edges": [0, 1, 1999, 2000],
        "output_edges": [0, 1, None],
        "counts": [[2, 0, 5000], [0, 1, 1]],
    }

    def mean(window: int) -> Fraction:
        runs = window - 1  # 2, 3, .. runs steps, and once more as many as that: at 1 + 2, 1 + 2 + 3, .. tokens in all
        steps = Fraction(runs * (runs + 1) // 2 - 1 + runs, runs)
        tokens = Fraction(runs * (runs + 1) * (runs + 2) // 6 - 1 + runs * (runs + 1) // 2, runs)
        others = 5000 if window > 2000 else 0
        return (tokens + others * 2000) / (steps + others)

    small_enough = [window for window in range(2, 8193) if mean(window) <= 1770]
    window, _, _ = inverse(latent(17_701, workload=workload, targets={"users": 10, "basis": "paged"}))
    assert 2001 not in small_enough
    assert window == small_enough[-1] == 3039


def test_past_all_requests_the_mean_no_longer_depends_on_the_window() -> None:
    # A request of 10 in and 1 out holds 10: ten of them take 100 of 4,000 blocks, and one full window all of them.
    rows = {"kind": "rows", "rows": [[10, 1]]}
    question = latent(4001, workload=rows, targets={"users": 10, "basis": "paged"})
    assert inverse(question)[0] == 4000


def test_a_mean_is_the_same_in_every_window_that_it_does_not_pass() -> None:
    mean = {"kind": "mean", "tokens": 300}
    assert inverse(latent(3001, workload=mean, targets={"users": 10, "basis": "paged"}))[0] == 3000
    window, _, reasons = inverse(latent(3000, workload=mean, targets={"users": 10, "basis": "paged"}))
    assert window is None
    assert reasons["max_model_len"] == "10 hold more than there is even in a window of 300, the least of this workload"


@pytest.mark.parametrize(
    ("workload", "least"),
    [
        ({"kind": "rows", "rows": [[2048, 2], [3000, 1]]}, 2049),
        ({"kind": "mean", "tokens": 2049}, 2049),
        ({"kind": "joint", "prompt_edges": [0, 2047, None], "output_edges": [0, 9], "counts": [[1, 0, 1]]}, 2049),
    ],
)
def test_a_window_that_no_request_fits_is_no_answer(workload: dict[str, Any], least: int) -> None:
    for blocks, window in ((least + 1, least), (least, None)):
        found, _, reasons = inverse(latent(blocks, workload=workload, targets={"users": 1, "basis": "worst_case"}))
        assert found == window
        if window is None:
            assert reasons["max_model_len"] == (
                f"memory holds windows of up to {least - 1:,} tokens, and the workload needs one of {least:,} or more"
            )


@pytest.mark.parametrize(
    ("workload", "window"),
    [
        (Mean(tokens=5), 20_000_000),
        # Lengths are weighed one by one in windows of up to 2^24 tokens; longer ones are refused.
        (Rows(rows=((5, 5),)), 2**24),
    ],
)
def test_a_window_that_can_not_be_weighed_is_not_named(workload: Workload, window: int) -> None:
    replace = msgspec.structs.replace
    question = resolve(strict_json.convert(latent(20_000_001), AskedQuestion), CATALOG)
    model, gpu = question.model.spec, question.gpu.spec
    assert gpu.reported_memory is not None
    limit = replace(model.max_position_embeddings, value=2**30)
    memory = replace(gpu.reported_memory, bytes=replace(gpu.reported_memory.bytes, value=2**50))
    roomy = replace(
        question,
        model=replace(question.model, spec=replace(model, max_position_embeddings=limit)),
        gpu=replace(question.gpu, spec=replace(gpu, reported_memory=memory)),
        workload=workload,
    )
    assert largest_window(roomy, deploy(roomy), 1, "worst_case") == window


def test_a_given_cache_that_is_not_there_says_how_much_is() -> None:
    levers = {"kv_cache_memory_bytes": 30 * GIB, "reserve_bytes": 2 * GIB, "max_model_len": 16}
    question = {"model": "test/latent", "gpu": "small", "engine": "ruled@1", "levers": levers}
    left = 24 * 10**9 - 2 * 10**9 - 2 * GIB
    window, share, reasons = inverse(question)
    assert (window, share) == (None, None)
    assert reasons["max_model_len"] == (
        f"kv_cache_memory_bytes asks for 32,212,254,720 B and weights and reserve leave {left:,} B, whatever the window"
    )
    # One block of 16 tokens and the null block would do.
    assert reasons["gpu_memory_utilization"].endswith(f"it would have to be {2 * 16 * 46_080:,} B")
    assert (fits(question, kv_cache_memory_bytes=left), fits(question, kv_cache_memory_bytes=left + 1)) == (True, False)
    least = 2 * 16 * 46_080
    assert (fits(question, kv_cache_memory_bytes=least), fits(question, kv_cache_memory_bytes=least - 1)) == (
        True, False,
    )  # fmt: skip


def test_a_given_cache_leaves_the_release_its_step_which_is_the_whole_window() -> None:
    levers = {"kv_cache_memory_bytes": 7_700_000_000, "max_model_len": 100_000}
    question = {
        "model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "rtx-3090", "engine": "vllm@0.7", "levers": levers,
        "targets": {"users": 3},
    }  # fmt: skip
    catalog = Catalog(1, bundled_versions())

    def at(window: int) -> Answer:
        asked = question | {"levers": levers | {"max_model_len": window}}
        return plan(resolve(strict_json.convert(asked, AskedQuestion), catalog))

    found = at(100_000).inverse
    assert found is not None
    window = found.max_model_len
    assert window is not None
    assert (at(window).fits, at(window + 1).fits) == (True, False)


def test_a_cache_that_would_have_to_be_larger_than_what_is_left_says_both() -> None:
    levers = {"kv_cache_memory_bytes": GIB, "reserve_bytes": 20 * GIB, "max_model_len": 131_072}
    question = {"model": "test/latent", "gpu": "small", "engine": "ruled@1", "levers": levers}
    left = 24 * 10**9 - 2 * 10**9 - 20 * GIB
    assert inverse(question)[2]["gpu_memory_utilization"] == (
        "kv_cache_memory_bytes sets the cache, so no share is used; it would have to be"
        f" {8193 * 16 * 46_080:,} B, and weights and reserve leave {left:,} B"
    )


def test_where_the_scheduler_is_in_the_way_memory_is_not_and_both_levers_say_so() -> None:
    question = latent(9000, targets={"users": 5}) | {"levers": {"max_num_seqs": 1, "data_parallel": 2}}
    question["engine"] = "generic"
    said = "a pool has to hold 3 and max_num_seqs admits 1 of them"
    assert inverse(question) == (None, None, {"max_model_len": said, "gpu_memory_utilization": said})
    assert (fits(question, max_num_seqs=3, max_model_len=16), fits(question, max_num_seqs=2, max_model_len=16)) == (
        True, False,
    )  # fmt: skip


def test_a_card_too_small_for_the_weights_says_what_is_missing() -> None:
    # test/half: 30 x 10^9 B of weights; generic: 3 GiB of reserve, 9/10 of 24 x 10^9 B.
    levers = {"max_model_len": 64}
    window, share, reasons = inverse({"model": "test/half", "gpu": "small", "levers": levers})
    assert (window, share) == (None, None)
    left = 216 * 10**8 - 30 * 10**9 - 3 * GIB
    assert reasons["max_model_len"] == f"weights and reserve leave {left:,} B for the cache, whatever the window"
    # 10 layers x 2 heads x 512 x 2 B a token.
    needed = 30 * 10**9 + 3 * GIB + 64 * 20_480
    assert reasons["gpu_memory_utilization"] == (
        f"it would take {needed:,} B of the 24,000,000,000 B that the share is of"
    )


def test_a_stage_without_a_cache_says_what_its_weights_leave() -> None:
    levers = {"pipeline_parallel": 2, "pipeline_layers": [10, 30], "max_model_len": 64}
    question = {"model": "test/half", "gpu": "small", "levers": levers}
    window, share, reasons = inverse(question)
    assert (window, share) == (None, None)
    # The second stage has 30 of 40 layers, and no cache.
    left = 216 * 10**8 - 30 * 10**9 * 3 // 4 - 3 * GIB
    assert reasons["max_model_len"] == (
        f"weights and reserve leave {left:,} B on a stage without a cache, whatever the window"
    )


def test_users_who_do_not_even_get_a_token_each_say_what_that_takes() -> None:
    question = latent(100, targets={"users": 101})
    said = "one token for each user takes more blocks (101) than there are (99)"
    assert inverse(question)[2]["max_model_len"] == said
    # Where the target counts the mean, one full window has to fit.
    mean = {"kind": "mean", "tokens": 1}
    paged = latent(1, workload=mean, targets={"users": 101, "basis": "paged"})
    assert inverse(paged)[2]["max_model_len"] == "one token for each user takes more blocks (1) than there are (0)"


LENGTHS = st.integers(1, 3000)
EDGES = st.lists(st.integers(0, 3000), min_size=2, max_size=4, unique=True).map(sorted)


@st.composite
def workloads(draw: st.DrawFn) -> dict[str, Any]:
    match draw(st.sampled_from(["mean", "total", "rows", "joint", "open"])):
        case "mean":
            return {"kind": "mean", "tokens": draw(LENGTHS)}
        case "total":
            uppers = draw(st.lists(st.one_of(st.none(), LENGTHS), min_size=1, max_size=4))
            return {"kind": "total", "bins": [{"upper": upper, "count": draw(LENGTHS)} for upper in uppers]}
        case "rows":
            return {"kind": "rows", "rows": draw(st.lists(st.tuples(LENGTHS, LENGTHS), min_size=1, max_size=5))}
        case kind:
            prompts: list[int | None] = [*draw(EDGES)]
            outputs: list[int | None] = [*draw(EDGES)]
            if kind == "open":
                draw(st.sampled_from([prompts, outputs]))[-1] = None
            cell = st.tuples(st.integers(0, len(prompts) - 2), st.integers(0, len(outputs) - 2), st.integers(1, 10**6))
            counts = draw(st.lists(cell, min_size=1, max_size=4))
            return {"kind": "joint", "prompt_edges": prompts, "output_edges": outputs, "counts": counts}


SHORT = st.integers(1, 25)
EVERY_TOKEN = FullAttention(layers=1, kv_heads=1, key_dim=1, value_dim=1)


def edges() -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(0, 25), min_size=2, max_size=3, unique=True).map(lambda found: tuple(sorted(found)))


CLOSED: st.SearchStrategy[Workload] = st.one_of(
    st.builds(Rows, rows=st.lists(st.tuples(SHORT, SHORT), min_size=1, max_size=4).map(tuple)),
    st.builds(Joint, prompt_edges=edges(), output_edges=edges(), counts=st.just(((0, 0, 1),))),
    st.builds(
        lambda first, further, counts: Total(
            bins=(Bin(0, first, counts[0]), Bin(first, first + further, counts[1])),
        ),
        SHORT,
        SHORT,
        st.tuples(SHORT, SHORT),
    ),
)


@given(workload=CLOSED, block_size=st.integers(1, 3), users=st.integers(1, 9), share=st.fractions(0, 1))
def test_the_largest_window_of_a_mean_is_what_trying_all_of_them_finds(
    workload: Workload, block_size: int, users: int, share: Fraction
) -> None:
    layout = separate(EVERY_TOKEN.footprints(Storage(dtype="fp8", model_dtype="bf16")), block_size)
    held = pool_of(layout, rules=None, budget_bytes=0, terms=Terms(), stage=range(1))
    shortest, longest = shortest_window(workload), 60
    means = {window: held_in(held, workload, Running(window=window)).blocks for window in range(shortest, longest + 1)}
    low, high = means[shortest], means[longest]
    held = msgspec.structs.replace(held, blocks=int(users * (low + (high - low) * share)))
    found = largest_paged((held,), workload, users, (shortest, longest), lambda window: Running(window=window))
    assert found == max((window for window, mean in means.items() if users * mean <= held.usable), default=0)


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    """Questions of any kind of cache, target and layout that are about as large as what is there."""
    engine = draw(st.sampled_from(["generic", "ruled@1"]))
    levers: dict[str, Any] = {
        "max_model_len": draw(st.integers(1, 131_072)),
        "reserve_bytes": draw(st.integers(0, 22)) * GIB,
        "gpu_memory_utilization": draw(st.sampled_from([0.9, 0.5, 0.3])),
        "data_parallel": draw(st.sampled_from([1, 3])),
        "tensor_parallel": draw(st.sampled_from([1, 2])),
    }
    question = {
        "model": draw(st.sampled_from(["test/windows", "test/states", "test/latent", "test/scheme", "test/tuples"])),
        "gpu": "small",
        "engine": engine,
        "levers": levers,
    }
    if question["model"] in {"test/windows", "test/states", "test/scheme"} and draw(st.booleans()):
        levers |= {"pipeline_parallel": 2, "pipeline_layers": draw(st.sampled_from([[20, 20], [3, 37], [37, 3]]))}
    if draw(st.booleans()):
        question["workload"] = draw(workloads())
    if "workload" in question or draw(st.booleans()):
        basis = draw(st.sampled_from(["paged", "worst_case"])) if "workload" in question else "worst_case"
        question["targets"] = {"users": draw(st.integers(1, 3000)), "basis": basis}
    return question


@settings(max_examples=200, deadline=None)
@given(question=questions(), elsewhere=st.integers(1, 131_072))
def test_the_inverse_of_any_question_is_tight_and_what_is_null_has_its_reason(
    question: dict[str, Any], elsewhere: int
) -> None:
    try:
        answer = planned(question)
    except Refused:
        assume(False)  # noqa: FBT003 - the question means nothing
        return
    assert (answer.inverse is None) is answer.fits
    assume(not answer.fits)
    window, share, reasons = inverse(question)
    nulls = {"max_model_len": window is None, "gpu_memory_utilization": share is None}
    assert {name for name, null in nulls.items() if null} == set(reasons)
    if window is not None:
        assert fits(question, max_model_len=window)
        assert window == 131_072 or not fits(question, max_model_len=window + 1)
    if "joint" not in str(question) or "None" not in str(question):  # an open bin ends at the window
        assert fits(question, max_model_len=elsewhere) <= (window is not None and elsewhere <= window)
    if share is not None:
        assert fits(question, gpu_memory_utilization=share)
        assert not fits(question, gpu_memory_utilization=round(share * 10**9 - 1) / 10**9)
    else:
        assert not fits(question, gpu_memory_utilization=1)
