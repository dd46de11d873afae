"""The one entrance: a question in, an answer out. No clock, randomness, I/O or logging."""

from service.capacity import caveats, ladder
from service.capacity.answer import (
    Answer,
    Binding,
    Input,
    InputReserve,
    Inputs,
    Occupancy,
    Users,
    UsersRange,
    Verdict,
    WorkloadSummary,
)
from service.capacity.budget import Budget
from service.capacity.cache_summary import kv_cache_of
from service.capacity.counts import (
    Counts,
    basis_of,
    counts_of,
    held_by_memory,
    interval_of,
)
from service.capacity.deployment import Deployment, deploy
from service.capacity.errors import Fault, UnsupportedCombination
from service.capacity.inverse import inverse_of
from service.capacity.lengths import Held
from service.capacity.occupancy.crowd import Crowd
from service.capacity.occupancy_answer import (
    asked_of,
    at_risk_of,
    crowds_in_each,
    occupancy_of,
    recommended_of,
)
from service.capacity.people import people_of
from service.capacity.pool_lengths import Observed, held_in_each, running_of
from service.capacity.question import Basis, Pinned, Question, Spec
from service.capacity.rungs import Rung
from service.capacity.units import shown_gib, shown_kib
from service.capacity.workload import Workload

PLANNER = 3
"""Changes whenever the answer to any question changes; stored plans name it."""


def plan(question: Question) -> Answer:
    """Answer a question: same question, same catalog versions, same planner, same bytes.

    Raises `Refused` (or one of its kinds) for a question that can't be answered as asked.
    """
    levers = question.levers
    check(question)
    deployment = deploy(question)
    rank = deployment.tightest
    budget, pool = rank.budget, rank.pool
    held = _held(question, deployment)
    crowds = crowds_in_each(question, deployment)
    worst, likely, best = counts_of(question, deployment, held, crowds)
    fits = likely.fits
    token = ladder.token_rung(question, deployment, rank)
    window = ladder.window_rung(question, token, pool)
    binding = _binding(budget, likely, basis_of(question))
    occupancy = None if crowds is None else _occupancy(question, deployment, crowds, likely)
    users = Users(
        worst_case=likely.worst_case,
        paged=likely.paged,
        at_risk=None if crowds is None else at_risk_of(crowds, levers.data_parallel),
        admitted=likely.admitted,
        recommended_max_num_seqs=None if occupancy is None else recommended_of(occupancy),
    )
    inverse = None if fits else inverse_of(question, deployment)
    interval = interval_of(deployment, (worst, likely, best))
    return Answer(
        fits=fits,
        verdict=_verdict(worst, likely, best),
        summary=_summary(question, users, deployment, window, fits=fits, capped=binding == "max_num_seqs"),
        gpus=levers.tensor_parallel * levers.pipeline_parallel * levers.data_parallel,
        pools=levers.data_parallel,
        users=users,
        interval=interval,
        kv_cache=kv_cache_of(question, deployment),
        ladder=(
            *budget.rungs,
            token,
            window,
            ladder.users_rung(
                question,
                pool,
                budget=budget.rungs[-1],
                token=token,
                window=window,
                counts=(worst, likely, best),
            ),
        ),
        workload=_workload_summary(question.workload, likely.observed, levers.data_parallel),
        occupancy=occupancy,
        sessions=people_of(question, crowds, likely.admitted),
        binding=binding,
        inverse=inverse,
        levers=None,
        second_ceiling=None,
        caveats=caveats.caveats_of(question, deployment, crowds),
        assumed=caveats.assumed_of(question, deployment, crowds),
        inputs=inputs_of(question),
    )


def check(question: Question) -> None:
    """Refuse a window, or heads, that a question's model can't have."""
    levers, model = question.levers, question.model
    limit = model.spec.max_position_embeddings.value
    if levers.max_model_len > limit:
        detail = f"{levers.max_model_len:,} tokens pass the limit of {model.key}, {limit:,}"
        raise UnsupportedCombination(Fault("/levers/max_model_len", detail))
    query_heads = model.spec.query_heads.value
    if levers.kv_heads is not None and query_heads % levers.kv_heads:
        detail = f"{levers.kv_heads} KV heads don't divide the {query_heads} query heads of {model.key}"
        raise UnsupportedCombination(Fault("/levers/kv_heads", detail))


def _held(question: Question, deployment: Deployment) -> tuple[Held, ...] | None:
    """What a request of the workload holds on each rank."""
    if question.workload is None:
        return None
    running = running_of(question, deployment.window)
    return held_in_each((rank.pool for rank in deployment.ranks), question.workload, running)


def _occupancy(question: Question, deployment: Deployment, crowds: tuple[Crowd, ...], counts: Counts) -> Occupancy:
    copies = question.levers.data_parallel
    worst_case, mean_fit = counts.worst_case // copies, (counts.paged or 0) // copies
    return occupancy_of(asked_of(question, deployment, crowds, worst_case=worst_case, mean_fit=mean_fit), crowds)


def _verdict(worst: Counts, likely: Counts, best: Counts) -> Verdict:
    """Whether the question holds wherever in the interval the truth lies, most likely, or only if all goes well."""
    if likely.fits:
        return "fits" if worst.fits else "likely"
    return "unlikely" if best.fits else "does_not_fit"


def _binding(budget: Budget, counts: Counts, basis: Basis) -> Binding:
    if budget.weights >= budget.usable:
        return "weights"
    if budget.weights + budget.reserve >= budget.usable:
        return "reserve"
    by_memory = held_by_memory(basis, counts.worst_case, counts.paged, counts.at_risk)
    return "max_num_seqs" if counts.admitted < by_memory else "kv_cache"


def _workload_summary(workload: Workload | None, observed: Observed | None, pools: int) -> WorkloadSummary | None:
    if workload is None or observed is None:
        return None
    lengths, bracket = observed.held, None
    tokens, blocks, rejected, truncated = lengths.shown
    if lengths.length_weighted_blocks is not None:
        ends = sorted(pools * int(observed.blocks // mean) for mean in (lengths.length_weighted_blocks, lengths.blocks))
        bracket = UsersRange(*ends)
    return WorkloadSummary(
        kind=str(workload.__struct_config__.tag),
        requests=lengths.requests,
        mean_held_tokens=tokens,
        mean_held_blocks=blocks,
        rejected_share=rejected,
        truncated_share=truncated,
        confidence=lengths.confidence,
        users_paged=bracket,
    )


def _summary(
    question: Question, users: Users, deployment: Deployment, window: Rung, *, fits: bool, capped: bool
) -> str:
    levers, rank = question.levers, deployment.tightest
    budget = next((bare for bare in deployment.bare if bare.kv.best < 0), rank.budget)
    gpus = levers.tensor_parallel * levers.pipeline_parallel * levers.data_parallel
    where = f"{question.model.key} on {gpus} x {question.gpu.key}"
    cache = f"{shown_gib(budget.kv.best)} of KV cache per GPU at {_price(deployment, window)}"
    if budget.kv.best <= 0:
        return (
            f"{where} does not fit: weights of {shown_gib(budget.weights)} and a reserve of"
            f" {shown_gib(budget.reserve)} per GPU leave {shown_gib(budget.kv.best)} of {shown_gib(budget.usable)} for"
            " the KV cache."
        )
    if users.worst_case == 0:
        needs = shown_gib(window.value)
        return (
            f"{where} does not fit: one full window of {levers.max_model_len:,} tokens takes {needs}, more than the"
            f" {cache}."
        )
    if deployment.short:
        asked = shown_gib(levers.kv_cache_memory_bytes or 0)
        return f"{where} does not fit a cache of {asked}: weights and reserve leave {shown_gib(budget.kv.best)}."
    paged = "" if users.paged is None else f", {users.paged:,} paged at the workload's mean"
    at_risk = users.at(question.risk)
    if at_risk is not None:
        paged = f", {at_risk:,} at a risk of {question.risk:g}{paged}"
    admitted = f", {users.admitted:,} admitted by max_num_seqs" if capped else ""
    counted = f"{users.worst_case:,} user{'s' if users.worst_case != 1 else ''}"
    reached = f"{counted} worst case at {levers.max_model_len:,} tokens{paged}{admitted}: {cache}"
    if fits:
        return f"{where} fits {reached}."
    assert question.targets is not None  # only a target can fail otherwise
    return f"{where} does not hold the {question.targets.users:,} users asked for, but {reached}."


def _price(deployment: Deployment, window: Rung) -> str:
    """What a user takes: per token where that is all, else per full window."""
    plain = all(footprint.grows and footprint.tokens_per_record == 1 for footprint in deployment.footprints)
    if plain and deployment.tightest.pool.terms.context_shards == 1:
        return f"{shown_kib(ladder.bytes_per_token(deployment, deployment.tightest))} per token"
    return f"{shown_gib(window.value)} per full window"


def inputs_of(question: Question) -> Inputs:
    """Name the versions that a question stands on."""
    observed = question.observed_reserve
    return Inputs(
        model=_input(question.model),
        gpu=_input(question.gpu),
        engine=_input(question.engine),
        draft_model=None if question.draft_model is None else _input(question.draft_model),
        workload=None if question.named_workload is None else _input(question.named_workload),
        observed_reserve=None if observed is None else InputReserve(observed.observation, observed.start_ups),
        planner=PLANNER,
    )


def _input(pinned: Pinned[Spec]) -> Input:
    return Input(key=pinned.key, version=pinned.version, digest=pinned.digest)
