"""Users at a risk as an answer says them: each number with its formula, operands, source and certainty."""

from functools import lru_cache, partial

import msgspec

from service.capacity.answer import AtRisk, Occupancy, Overflow, UsersRange
from service.capacity.deployment import Deployment, Rank
from service.capacity.figures import Certainty
from service.capacity.lengths import Running
from service.capacity.occupancy.crowd import Crowd, Setting, crowd_of
from service.capacity.occupancy.drift import USUAL
from service.capacity.pool_lengths import running_of
from service.capacity.question import Levers, Question
from service.capacity.rungs import Number, Operand, lever_operand, number
from service.capacity.units import Estimate, rounded

_MANY_USERS = 64
"""Users from which on preemptions get rarer with their number; below, each counts as in so many."""
METHOD = "the workload, as a sum of independent requests at random steps"


_number = partial(number, source=METHOD, certainty="exact")


def crowds_in_each(question: Question, deployment: Deployment) -> tuple[Crowd, ...] | None:
    """Count the users of a question's workload on each rank; null without one, or with its mean only."""
    if question.workload is None:
        return None
    running = running_of(question, deployment.window)
    found = [_crowd(question, rank, running) for rank in deployment.ranks]
    crowds = tuple(crowd for crowd in found if crowd is not None)
    return crowds or None


def _crowd(question: Question, rank: Rank, running: Running) -> Crowd | None:
    assert question.workload is not None
    kv = rank.budget.kv
    left = {end: rank.pool_of(end).left_to_requests for end in {kv.low, kv.best, kv.high}}
    setting = Setting(
        pool=rank.pool.priced,
        running=running,
        blocks=Estimate(left[kv.low], left[kv.best], left[kv.high]),
        risk=question.risk,
        tau=question.tau,
    )
    return crowd_of(question.workload, setting)


def fullest(crowds: tuple[Crowd, ...]) -> Crowd:
    """The stage that holds fewest users at the question's risk."""
    return min(crowds, key=lambda crowd: crowd.users.best)


def at_risk_of(crowds: tuple[Crowd, ...], copies: int) -> tuple[AtRisk, ...]:
    """Users of the whole deployment at each risk: as many in every copy as its fullest stage holds."""
    by_risk = zip(*(crowd.at for crowd in crowds), strict=True)
    return tuple(AtRisk(risk=same[0][0], users=copies * min(users for _, users in same)) for same in by_risk)


def recommended_of(occupancy: Occupancy) -> int | None:
    """Where to cap admission in one pool; null where nobody runs, as no engine takes a cap of none."""
    return int(occupancy.recommended.value) or None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What an explanation takes of a question beside its crowds."""

    levers: Levers
    risk: float
    tau: float | None
    running: Running
    shared_blocks: int
    worst_case: int
    """Users of one pool that fill the window: they run whatever lengths do."""
    mean_fit: int
    """Users of one pool at the mean, by exact arithmetic."""


def asked_of(
    question: Question, deployment: Deployment, crowds: tuple[Crowd, ...], *, worst_case: int, mean_fit: int
) -> Asked:
    """Gather what explains a question's users at a risk."""
    pool = deployment.ranks[crowds.index(fullest(crowds))].pool
    return Asked(
        levers=question.levers,
        risk=question.risk,
        tau=question.tau,
        running=running_of(question, deployment.window),
        shared_blocks=pool.shared_blocks,
        worst_case=worst_case,
        mean_fit=mean_fit,
    )


@lru_cache(maxsize=256)
def occupancy_of(question: Asked, crowds: tuple[Crowd, ...]) -> Occupancy:
    """Say what happens at the question's risk, in one pool on its fullest stage. Kept, as its crowds are."""
    crowd = fullest(crowds)
    levers, risk = question.levers, question.risk
    known: Certainty = "measured" if crowd.bracket is None else "assumed"
    say = partial(number, source=METHOD, certainty=known)
    blocks = Operand("blocks", crowd.blocks, "blocks", "steps 5 and 6, without null and shared blocks", "exact")
    users = Operand("users", crowd.users.best, "users", METHOD, known)
    mean = rounded(crowd.mean)
    held = Operand("mean_held_blocks", mean, "blocks", METHOD, known)
    asked = Operand("risk", risk, "share of steps", "the question", "exact")
    return Occupancy(
        method="blocks" if crowd.is_by_blocks else "cells",
        prefill_steps=_prefill(question, crowd),
        drafted_tokens=say(
            levers.speculative_tokens,
            "tokens",
            f"{levers.speculative_tokens:,} of the draft, and a decode step yields {levers.accepted_tokens:g} tokens",
            lever_operand("speculative_tokens", levers.speculative_tokens, "tokens"),
            lever_operand("accepted_tokens", levers.accepted_tokens, "tokens per step"),
        ),
        shared_blocks=say(
            question.shared_blocks,
            "blocks",
            f"whole blocks of a prefix of {levers.shared_prefix_tokens:,} tokens",
            lever_operand("shared_prefix_tokens", levers.shared_prefix_tokens, "tokens"),
        ),
        mean_held_blocks=say(mean, "blocks", "blocks held, averaged over all steps of all requests"),
        mean_held_tokens_at_most=None
        if crowd.most_tokens is None
        else say(
            rounded(crowd.most_tokens),
            "tokens",
            "the r with sum n max over O of [P O + O (O - 1) / 2 - r O] = 0, P and O at the edges of their bins",
        ),
        held_deviation=say(rounded(crowd.deviation), "blocks", "the standard deviation of blocks held over steps"),
        users=say(
            crowd.users.best,
            "users",
            f"the largest N with P(X1 + .. + XN > {crowd.blocks:,} blocks) <= {risk:g}",
            blocks,
            asked,
        ),
        overflow=say(
            _chance(crowd.tail),
            "share of steps",
            f"P(X1 + .. + X{crowd.users.best} > {crowd.blocks:,} blocks)",
            users,
            blocks,
        ),
        overflow_with_one_more=say(
            _chance(crowd.next_tail),
            "share of steps",
            f"P(X1 + .. + X{crowd.users.best + 1} > {crowd.blocks:,} blocks)",
            users,
            blocks,
        ),
        never_fits=say(
            _chance(crowd.beyond), "share of steps", f"P(X > {crowd.blocks:,} blocks) of one request alone", blocks
        ),
        guaranteed=say(
            crowd.guaranteed,
            "users",
            "the largest (t (B + 1) + log(risk)) / log E[exp(t X)] over t > 0, rounded down (Chernoff)",
            blocks,
            asked,
        ),
        with_drift=_with_drift(question, crowd, blocks, held),
        mean_fit=say(
            question.mean_fit,
            "users",
            f"{crowd.blocks:,} blocks // {mean:,g} held on average: the throughput ceiling, not a capacity",
            blocks,
            held,
        ),
        open_loop=say(
            rounded(crowd.open_loop),
            "users",
            f"the largest mean of a Poisson number N with P(X1 + .. + XN > {crowd.blocks:,} blocks) <= {risk:g}: the"
            " arrivals per step are this over the output tokens of a request",
            blocks,
            asked,
        ),
        preemptions_per_request=_preemptions(crowd, users),
        recommended=_recommended(question, crowds),
        curve=tuple(Overflow(users=users, overflow=_chance(tail)) for users, tail in crowd.curve),
        bracket=None if crowd.bracket is None else UsersRange(*crowd.bracket),
    )


def _prefill(question: Asked, crowd: Crowd) -> Number:
    chunk = question.running.chunk
    steps = rounded(crowd.prefill_steps)
    if crowd.prompt_tokens is None:
        return _number(0, "steps", "prompts aren't known apart: none are counted", certainty="assumed")
    if chunk is None:
        return _number(0, "steps", "every prompt is prefilled in the step that yields its first token")
    operand = Operand("max_num_batched_tokens", chunk, "tokens", "the lever, or the engine's default", "exact")
    return _number(steps, "steps", f"the mean of ceil(prompt / {chunk:,} tokens of a step) - 1", operand)


def _with_drift(question: Asked, crowd: Crowd, blocks: Operand, held: Operand) -> Number:
    drift, tau = crowd.drift, rounded(crowd.drift.tau)
    certainty: Certainty = "measured"
    source = "the rows in their order: the variance of window means beyond chance"
    if question.tau is not None:
        source, certainty = "the question", "exact"
    elif not drift.is_measured:
        source, certainty = f"recorded traffic, which wandered by 0.07 to 0.10: {USUAL:g} is assumed", "assumed"
    return _number(
        drift.users,
        "users",
        "the largest N with N mean + z sqrt(N var + (N tau mean)^2) <= blocks",
        blocks,
        held,
        Operand("held_deviation", rounded(crowd.deviation), "blocks", METHOD, held.certainty),
        Operand("tau", tau, "share of the mean", source, certainty),
        certainty=certainty,
    )


def _preemptions(crowd: Crowd, users: Operand) -> Number | None:
    """Expected preemptions: overflows times how often one preempts instead of queueing a newcomer.

    Growth of decode between two departures against the room that admission left: about min(1, output / prompt), and
    in a crowd of more than 64 the less the larger it is. Within a factor of 2 to 4 of nine simulated workloads.
    """
    if crowd.prompt_tokens is None or crowd.output_tokens is None:
        return None
    share = min(1.0, crowd.output_tokens / crowd.prompt_tokens) * min(1.0, _MANY_USERS / max(crowd.users.best, 1))
    return _number(
        float(f"{crowd.tail * share:.1g}"),
        "preemptions per request",
        f"about overflow x min(1, output / prompt) x min(1, {_MANY_USERS} / users): an order of magnitude",
        users,
        Operand("overflow", _chance(crowd.tail), "share of steps", METHOD, "exact"),
        Operand("prompt_tokens", rounded(crowd.prompt_tokens), "tokens", "the workload", "exact"),
        Operand("output_tokens", rounded(crowd.output_tokens), "tokens", "the workload", "exact"),
        certainty="assumed",
    )


def _recommended(question: Asked, crowds: tuple[Crowd, ...]) -> Number:
    cap = question.levers.max_num_seqs
    counts = {
        f"at a risk of {question.risk:g}": min(crowd.users.best for crowd in crowds),
        "with drift": min(crowd.drift.users for crowd in crowds),
    }
    if min(counts.values()) < question.worst_case:
        # What fits when all fill the window fits whatever their lengths do.
        counts = {"in the worst case": question.worst_case}
    if cap is not None:
        counts["max_num_seqs"] = cap
    least = min(counts, key=lambda name: counts[name])
    listed = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return _number(
        counts[least],
        "users",
        f"the least of {listed}: {least}" if len(set(counts.values())) > 1 else f"all the same: {listed}",
        *(Operand(name.replace(" ", "_"), count, "users", "this answer", "exact") for name, count in counts.items()),
    )


def _chance(tail: float) -> float:
    """Six digits of a chance, and none past the tenth place: there a sum of many is rounding."""
    return rounded(round(tail, 10))
