"""The largest window that fits, exact to the token, or why there is none."""

from collections.abc import Callable, Iterable
from functools import partial

from service.capacity.deployment import Deployment
from service.capacity.halving import last_that_holds
from service.capacity.lengths import LONGEST_WINDOW, Running
from service.capacity.occupancy.crowd import holds
from service.capacity.pool import Pool, Prices
from service.capacity.pool_lengths import held_in, running_of
from service.capacity.question import Basis, Question
from service.capacity.workload import Joint, Marginals, Mean, Rows, Total, Workload

RunningIn = Callable[[int], Running]
"""How requests run in a window of so many tokens."""


def largest_window(question: Question, deployment: Deployment, users: int, basis: Basis) -> int | str:
    """Find the largest window in which every pool holds so many users: all of them full, as the mean, or at the risk.

    In all cases one full window has to fit, or the engine doesn't start. Another window rejects and cuts other
    requests, so a workload is weighed anew at each window that is looked at.
    """
    if deployment.short:
        return _short(question, deployment)
    workload, limit, shortest = question.workload, question.model.spec.max_position_embeddings.value, 1
    if workload is not None:
        shortest = shortest_window(workload)
        limit = limit if isinstance(workload, Mean) else min(limit, LONGEST_WINDOW)
    pools = _deciding(rank.pool for rank in deployment.ranks)
    full = users if basis == "worst_case" else 1
    memory = min(largest_length(pool, full, limit) for pool in pools)
    if not memory:
        return _nothing_fits(deployment, full)
    if memory < shortest:
        return f"memory holds windows of up to {memory:,} tokens, and the workload needs one of {shortest:,} or more"
    if basis == "worst_case" or workload is None:
        return memory
    of_workload = largest_paged if basis == "paged" else partial(largest_at_risk, risk=question.risk)
    window = of_workload(pools, workload, users, (shortest, memory), partial(running_of, question))
    return window or f"{users:,} hold more than there is even in a window of {shortest:,}, the least of this workload"


def largest_length(pool: Pool, users: int, limit: int) -> int:
    """The longest that so many users can all get, up to a limit; 0 where one token each is too much.

    Cost never falls with length, so halving finds it.
    """
    return last_that_holds(lambda tokens: users * pool.cost(tokens) <= pool.usable, 0, limit + 1)


def largest_paged(
    pools: tuple[Pool, ...], workload: Workload, users: int, between: tuple[int, int], running: RunningIn
) -> int:
    """The longest window of a range in which so many users fit at the workload's mean; 0 where none is found.

    A window one token longer lets some requests run one step more, at which they hold no less than at any step
    before: so the mean never falls, and there is one place where it becomes too much. Only an open bin of a joint
    histogram, which ends at the window, spreads its requests anew: then this is a place where it becomes too much,
    the very end of the range first.

    Every look weighs the whole workload, so the next one is taken where a straight line between the last two margins
    meets zero (of an end that stays, the margin is halved, or it would stay for ever), and at times in the middle.
    """

    def margin(window: int) -> tuple[bool, float]:
        spare = min(pool.left_to_requests - users * held_in(pool, workload, running(window)).blocks for pool in pools)
        return spare >= 0, float(spare)

    shortest, longest = between
    is_enough, short_of = margin(longest)
    if is_enough:
        return longest
    longest = max(shortest, min(longest, longest_length(workload, longest)))  # longer windows cut nothing more
    is_enough, left = margin(shortest)
    if not is_enough:
        return 0
    fits, too_long, looks, before = shortest, longest, 0, None
    while too_long - fits > 1:
        looks += 1
        ahead = 0.5 if looks % 3 == 0 else left / (left - short_of)
        window = min(max(fits + round((too_long - fits) * ahead), fits + 1), too_long - 1)
        is_enough, spare = margin(window)
        if is_enough:
            fits, left, short_of = window, spare, short_of / 2 if before else short_of
        else:
            too_long, short_of, left = window, spare, left / 2 if before is False else left
        before = is_enough
    return fits


def largest_at_risk(
    pools: tuple[Pool, ...],
    workload: Workload,
    users: int,
    between: tuple[int, int],
    running: RunningIn,
    *,
    risk: float,
) -> int:
    """The longest window of a range in which so many users keep below a risk; 0 where none is found.

    A longer window moves what is held up at every quantile, for the reason given at `largest_paged`: halving finds it.
    """

    def is_enough(window: int) -> bool:
        return all(
            holds(workload, pool, running(window), risk=risk, users=users, blocks=pool.left_to_requests)
            for pool in pools
        )

    shortest, longest = between
    if is_enough(longest):
        return longest
    longest = max(shortest, min(longest, longest_length(workload, longest)))  # longer windows cut nothing more
    if not is_enough(shortest):
        return 0
    return last_that_holds(is_enough, shortest, longest)


def shortest_window(workload: Workload) -> int:
    """The shortest window in which a workload isn't refused: one in which some request runs a step."""
    match workload:
        case Mean():
            return workload.tokens
        case Total():
            return 1
        case Joint():
            edges = (workload.prompt_edges[i] for i, _, _ in workload.counts)
            return min(lower for lower in edges if lower is not None) + 2
        case Rows():
            return min(prompt for prompt, _ in workload.rows) + 1
        case Marginals():
            held = workload.mean_held_tokens
            return max(workload.prompt.bins[0].lower + 2, 0 if held is None else int(held) + 1)


def longest_length(workload: Workload, window: int) -> int:
    """The length of the longest request, in a window that an open bin ends at; or more, of a joint histogram."""
    match workload:
        case Mean():
            return workload.tokens
        case Total():
            return max(window if part.upper is None else part.upper for part in workload.bins)
        case Joint():
            ends = (workload.prompt_edges[-1], workload.output_edges[-1])
            return sum(window if end is None else end for end in ends)
        case Rows():
            return max(prompt + output for prompt, output in workload.rows)
        case Marginals():
            last = (side.bins[-1].upper for side in (workload.prompt, workload.output))
            return sum(window if end is None else end for end in last)


def _deciding(pools: Iterable[Pool]) -> tuple[Pool, ...]:
    """Of stages in which a request costs the same, the one with the fewest blocks: the others hold what it holds."""
    fewest: dict[Prices, Pool] = {}
    for pool in pools:
        known = fewest.setdefault(pool.prices, pool)
        if pool.usable < known.usable:
            fewest[pool.prices] = pool
    return tuple(fewest.values())


def _short(question: Question, deployment: Deployment) -> str:
    given = question.levers.kv_cache_memory_bytes
    left = min(budget.left for budget in (deployment.bare if given is None else deployment.budgets))
    if given is None:
        return f"weights and reserve leave {left:,} B on a stage without a cache, whatever the window"
    return f"kv_cache_memory_bytes asks for {given:,} B and weights and reserve leave {left:,} B, whatever the window"


def _nothing_fits(deployment: Deployment, users: int) -> str:
    left = min(budget.left for budget in deployment.budgets)
    if left <= 0:
        return f"weights and reserve leave {left:,} B for the cache, whatever the window"
    pool = min((rank.pool for rank in deployment.ranks), key=lambda pool: pool.usable - users * pool.cost(1))
    return f"one token for each user takes more blocks ({users * pool.cost(1):,}) than there are ({pool.usable:,})"
