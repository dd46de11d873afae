"""Users of a deployment where the KV budgets come to one end of their estimates, and the interval between the ends."""

from collections.abc import Callable

import msgspec

from service.capacity.answer import Interval
from service.capacity.deployment import Deployment
from service.capacity.errors import Fault, UnsupportedCombination
from service.capacity.lengths import Held
from service.capacity.occupancy.crowd import Crowd
from service.capacity.pool_lengths import Observed
from service.capacity.question import Basis, Question
from service.capacity.units import Estimate
from service.capacity.workload import Mean, Workload

End = Callable[[Estimate], int]


def at_worst(estimate: Estimate) -> int:
    """Where everything takes more than thought."""
    return estimate.low


def most_likely(estimate: Estimate) -> int:
    """Where all comes as thought."""
    return estimate.best


def at_best(estimate: Estimate) -> int:
    """Where everything takes less than thought."""
    return estimate.high


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Running requests of the whole deployment."""

    worst_case: int
    paged: int | None
    at_risk: int | None
    """At the question's risk; null without a workload, or with its mean only."""
    admitted: int
    observed: Observed | None
    """The mean fit of the stage that holds fewest; null without a workload."""
    fits: bool


class _Memory(msgspec.Struct, frozen=True):
    """What memory holds at one end, on its own."""

    starts: bool
    """Whether every stage without a cache has room for its weights and reserve: else nobody is served."""
    is_short: bool
    worst_case: int
    observed: Observed | None


def counts_of(
    question: Question, deployment: Deployment, held: tuple[Held, ...] | None, crowds: tuple[Crowd, ...] | None
) -> tuple[Counts, Counts, Counts]:
    """Count users at worst, most likely and at best.

    `held` says what a request of the workload holds on each rank, `crowds` how many run.
    """
    likely = _memory(question, deployment, held, most_likely)
    if all(budget.kv.low == budget.kv.high for budget in deployment.budgets):
        memories = {at_worst: likely, most_likely: likely, at_best: likely}
    else:
        memories = {end: _memory(question, deployment, held, end) for end in (at_worst, at_best)} | {
            most_likely: likely
        }
    worst, middle, best = (_counts(question, memories[end], crowds, end) for end in (at_worst, most_likely, at_best))
    return worst, middle, best


def _memory(question: Question, deployment: Deployment, held: tuple[Held, ...] | None, end: End) -> _Memory:
    starts = all(end(budget.kv) >= 0 for budget in deployment.bare)
    pools = [rank.pool_of(int(starts) * end(rank.budget.kv)) for rank in deployment.ranks]
    observed = None
    if held is not None:
        fits = (Observed(pool.left_to_requests, own) for pool, own in zip(pools, held, strict=True))
        observed = min(fits, key=lambda fit: fit.users)
    return _Memory(
        starts=starts,
        is_short=deployment.is_short(end),
        worst_case=min(pool.usable // pool.cost(question.levers.max_model_len) for pool in pools),
        observed=observed,
    )


def _counts(question: Question, memory: _Memory, crowds: tuple[Crowd, ...] | None, end: End) -> Counts:
    levers, targets = question.levers, question.targets
    copies = levers.data_parallel
    worst_case = copies * memory.worst_case
    paged = None if memory.observed is None else copies * memory.observed.users
    at_risk = None if crowds is None else copies * int(memory.starts) * min(end(crowd.users) for crowd in crowds)
    by_memory = held_by_memory(basis_of(question), worst_case, paged, at_risk)
    cap = levers.max_num_seqs
    admitted = by_memory if cap is None else min(by_memory, cap * copies)
    return Counts(
        worst_case=worst_case,
        paged=paged,
        at_risk=at_risk,
        admitted=admitted,
        observed=memory.observed,
        fits=worst_case > 0 and not memory.is_short and (targets is None or admitted >= targets.users),
    )


def basis_of(question: Question) -> Basis:
    """What is counted: as the target says, else what the workload allows."""
    if question.targets is not None:
        return question.targets.basis
    return usual_basis(question.workload)


def usual_basis(workload: Workload | None) -> Basis:
    """What is counted where nobody says: of a mean no risk is known."""
    if workload is None:
        return "worst_case"
    return "paged" if isinstance(workload, Mean) else "at_risk"


def held_by_memory(basis: Basis, worst_case: int, paged: int | None, at_risk: int | None) -> int:
    """The count on a basis. Raises `UnsupportedCombination` for one that needs a workload, or more than its mean."""
    match basis:
        case "worst_case":
            return worst_case
        case "paged":
            if paged is None:
                detail = "basis paged needs a workload; without one the count is worst_case"
                raise UnsupportedCombination(Fault("/targets/basis", detail))
            return paged
        case "at_risk":
            if at_risk is None:
                detail = (
                    "a mean says nothing of the spread, so no risk is known: say basis paged, or give a joint histogram"
                )
                if paged is None:
                    detail = "basis at_risk needs a workload; without one the count is worst_case"
                raise UnsupportedCombination(Fault("/targets/basis", detail))
            return at_risk


def interval_of(deployment: Deployment, counts: tuple[Counts, Counts, Counts]) -> Interval | None:
    """Say between what the answer lies; null where nothing about the memory is in doubt.

    `counts` are those at worst, most likely and at best.
    """
    if all(rank.budget.kv.low == rank.budget.kv.high for rank in deployment.ranks):
        return None
    window = deployment.window

    def tokens(end: End) -> int:
        pools = (rank.pool_of(end(rank.budget.kv)) for rank in deployment.ranks)
        return min(int(pool.concurrency(window) * window) for pool in pools)

    return Interval(
        budget_bytes=deployment.tightest.budget.kv,
        tokens=Estimate(tokens(at_worst), tokens(most_likely), tokens(at_best)),
        users_worst_case=Estimate(*(one.worst_case for one in counts)),
        users_at_risk=_between([one.at_risk for one in counts]),
    )


def _between(users: list[int | None]) -> Estimate | None:
    known = [one for one in users if one is not None]
    return Estimate(*known) if known else None
