"""The inverse: which window, or which share of the memory, makes a question fit that doesn't."""

from collections.abc import Callable
from fractions import Fraction

from service.capacity.answer import Inverse
from service.capacity.deployment import Deployment
from service.capacity.pool import Pool
from service.capacity.question import Question
from service.capacity.units import ceil_div, exact

_DIGITS = 10**9


def inverse_of(question: Question, deployment: Deployment, mean_blocks: Callable[[Pool], Fraction] | None) -> Inverse:
    """Solve for one lever at a time, all others as asked.

    `mean_blocks` gives what a request of the workload holds on average in a pool, where the target counts such users.
    """
    levers, targets = question.levers, question.targets
    users = 1 if targets is None else targets.users
    cap = levers.max_num_seqs
    per_pool = ceil_div(users, levers.data_parallel)
    if cap is not None and per_pool > cap:
        return Inverse(max_model_len=None, gpu_memory_utilization=None)
    if mean_blocks is None:
        window = _largest_window(question, deployment, per_pool)
        # One that already stands isn't the answer: something else is in the way.
        return Inverse(
            max_model_len=window, gpu_memory_utilization=_smallest_share(question, deployment, per_pool, None)
        )
    return Inverse(
        max_model_len=None, gpu_memory_utilization=_smallest_share(question, deployment, per_pool, mean_blocks)
    )


def _largest_window(question: Question, deployment: Deployment, users: int) -> int | None:
    if any(rank.budget.short for rank in deployment.ranks):
        return None
    limit = question.model.spec.max_position_embeddings.value
    return min(largest_length(rank.pool, users, limit) for rank in deployment.ranks) or None


def largest_length(pool: Pool, users: int, limit: int) -> int:
    """The longest that so many users can all get, up to a limit; 0 where one token each is too much.

    Cost never falls with length, so halving finds it.
    """
    fits, too_long = 0, limit + 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if users * pool.cost(middle) <= pool.usable:
            fits = middle
        else:
            too_long = middle
    return fits


def _smallest_share(
    question: Question, deployment: Deployment, users: int, mean_blocks: Callable[[Pool], Fraction] | None
) -> float | None:
    if question.levers.kv_cache_memory_bytes is not None:
        return None  # the share isn't used then
    window = question.levers.max_model_len
    shares = []
    for rank in deployment.ranks:
        pool, budget = rank.pool, rank.budget
        blocks = users * pool.cost(window)
        if mean_blocks is not None:
            held = users * mean_blocks(pool)
            # One full window has to fit in any case, or the engine doesn't start.
            blocks = max(ceil_div(held.numerator, held.denominator), pool.cost(window))
        needed = (blocks + pool.null_blocks) * pool.block_bytes + budget.weights + budget.reserve
        shares.append(ceil_div(needed * _DIGITS, budget.reported))
    share = max(shares)
    if share > _DIGITS:
        return None
    smallest = share / _DIGITS
    # The nearest float may lie a hair below the decimal that was meant.
    assert exact(smallest) * _DIGITS == share
    return smallest
