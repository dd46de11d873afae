"""The entrance: a question and where to split it in, an answer out. No clock, randomness, I/O or logging."""

from service.capacity.answer import Assumed
from service.capacity.caveats import assumed_of, assumed_tau
from service.capacity.errors import Fault, Refused
from service.capacity.largest_window import shortest_window
from service.capacity.lengths import check_window, nothing_fits
from service.capacity.occupancy.drift import USUAL, measured_tau
from service.capacity.planner import check, inputs_of
from service.capacity.question import Question
from service.capacity.split.answer import Nothing, PoolsAnswer
from service.capacity.split.counting import Costs, Counted, costs_of, counted
from service.capacity.split.explained import candidate_of, gpus_of, mixed_pool, split_of, tau_of
from service.capacity.split.halves import Halves, Traffic, halves_of
from service.capacity.split.parting import Lengths, RouteBy, steps_of
from service.capacity.split.places import candidates_of
from service.capacity.split.verdict import TOLD_BY, nothing_of
from service.capacity.split.words import caveats_of
from service.capacity.workload import Joint, Rows, table_of


def split(question: Question, split_at: int | None = None, route_by: RouteBy = "total") -> PoolsAnswer:
    """Say what a pool of its own for long requests buys; without a place for the split, at the best one.

    Raises `Refused` (or one of its kinds) for lengths that don't tell prompt and output together, and for a question
    that can't be answered as asked.
    """
    check(question)
    window = question.levers.max_model_len
    check_window(window)
    lengths = _lengths(question)
    if window < shortest_window(lengths):
        raise nothing_fits(window)
    whole = steps_of(lengths, window)
    costs: Costs = {}
    usual = USUAL if question.tau is None else question.tau
    mixed = counted(question, whole, costs, usual)
    measured = _measured(question, lengths, mixed, costs)
    tau = usual if measured is None else measured
    if measured is not None:
        mixed = counted(question, whole, costs, tau)
    traffic = Traffic(
        question=question, lengths=lengths, route_by=route_by, whole=whole, mixed=mixed, tau=tau, costs=costs
    )
    places = candidates_of(whole, route_by)
    found = {at: halves_of(traffic, at) for at in sorted({*places, *([] if split_at is None else [split_at])})}
    pairs = {at: halves.pair for at, halves in found.items() if halves.pair is not None}
    best = max(pairs, key=lambda at: pairs[at].users, default=None)
    at = best if split_at is None else split_at
    shown = None if at is None else found[at]
    nothing = _one_length(traffic) if shown is None else nothing_of(traffic, shown)
    return PoolsAnswer(
        summary=_summary(traffic, shown, nothing),
        buys_nothing=nothing is not None,
        nothing=nothing,
        gpus_per_pool=gpus_of(question),
        risk=question.risk,
        tau=tau_of(question, tau, is_measured=measured is not None),
        mixed=mixed_pool(traffic),
        split=None if shown is None else split_of(traffic, shown),
        best=best,
        candidates=tuple(candidate_of(traffic, found[at]) for at in pairs),
        caveats=caveats_of(traffic, shown),
        assumed=_assumed(traffic, is_tau=question.tau is None and measured is None),
        inputs=inputs_of(question),
    )


def _lengths(question: Question) -> Lengths:
    workload = question.workload
    if isinstance(workload, Joint | Rows):
        return workload
    given = "no lengths" if workload is None else f"a workload of kind {workload.__struct_config__.tag}"
    detail = (
        "a split needs prompt and output of the same requests, as how long the long ones run decides: give a joint"
        f" histogram or rows, not {given}"
    )
    raise Refused(Fault("/workload", detail))


def _measured(question: Question, lengths: Lengths, mixed: Counted, costs: Costs) -> float | None:
    """How far the mean wanders, where rows in their order say it."""
    if question.tau is not None or not isinstance(lengths, Rows) or not lengths.ordered:
        return None
    rows = table_of(lengths.rows)
    size = min(int(rows.sum(axis=1).max()), question.levers.max_model_len) + 1
    return measured_tau(rows, costs_of(mixed.rank, size, costs), mixed.running, mixed.users)


def _one_length(traffic: Traffic) -> Nothing:
    text = f"All requests have the same number of {TOLD_BY[traffic.route_by]}: there is nothing to tell them apart by."
    return Nothing("no_request_is_longer", text)


def _assumed(traffic: Traffic, *, is_tau: bool) -> tuple[Assumed, ...]:
    question = traffic.question
    found = list(assumed_of(question, traffic.mixed.deployment, None))
    if is_tau:
        found.append(assumed_tau(traffic.tau))
    if question.observed_reserve is not None:
        reason = "start-ups were observed with the long window; the short pool is taken to keep back the same"
        found.append(Assumed("observed_reserve", "the same in both pools", reason))
    return tuple(found)


def _summary(traffic: Traffic, halves: Halves | None, nothing: Nothing | None) -> str:
    question, mixed = traffic.question, traffic.mixed
    where = f"{question.model.key} on {question.gpu.key}"
    if halves is None or halves.pair is None or nothing is not None:
        assert nothing is not None  # without a pair there is always a reason
        place = "" if halves is None else f" at {halves.split_at:,} tokens"
        return f"{where}: a split{place} buys nothing. {nothing.text}"
    pair, gpus = halves.pair, gpus_of(question)
    assert halves.short is not None
    assert halves.long is not None
    gain = "" if pair.gain is None else f" ({pair.gain:.1%} more)"
    return (
        f"{where}: split at {halves.split_at:,} tokens, a GPU holds {pair.users / gpus:,.1f} users at a risk of"
        f" {question.risk:g}, {mixed.admitted(question.levers.max_num_seqs) / gpus:,.1f} mixed{gain};"
        f" {1 - pair.short_pools:.1%} of the GPUs for the {halves.long.of_requests:.2%} of requests that are longer."
        f" With full windows a pool would hold {mixed.worst_case:,} mixed, {halves.short.counted.worst_case:,} short."
    )
