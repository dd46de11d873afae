"""The inverse: which window, or which share of the memory, makes a question fit that doesn't."""

from service.capacity.answer import Inverse
from service.capacity.deployment import Deployment
from service.capacity.errors import Refused
from service.capacity.lengths import Held
from service.capacity.pool import Pool, Prices
from service.capacity.pool_lengths import held_in
from service.capacity.question import Question
from service.capacity.units import ceil_div, exact

_DIGITS = 10**9


def inverse_of(question: Question, deployment: Deployment, held: tuple[Held, ...] | None) -> Inverse:
    """Solve for one lever at a time, all others as asked.

    `held` says what a user holds on each rank where a target counts with the workload's mean; null: a full window.
    """
    levers, targets = question.levers, question.targets
    per_pool = ceil_div(1 if targets is None else targets.users, levers.data_parallel)
    if levers.max_num_seqs is not None and per_pool > levers.max_num_seqs:
        return Inverse(max_model_len=None, gpu_memory_utilization=None)  # the scheduler is in the way, not memory
    return Inverse(
        # Another window lets other requests in, so the mean that a paged target counts with isn't known there.
        max_model_len=None if held is not None else _largest_window(question, deployment, per_pool),
        gpu_memory_utilization=_smallest_share(question, deployment, per_pool, held),
    )


def _largest_window(question: Question, deployment: Deployment, users: int) -> int | None:
    if deployment.short:
        return None
    limit = question.model.spec.max_position_embeddings.value
    # Stages in which a request costs the same differ in their number of blocks only: the fewest decide.
    fewest: dict[Prices, Pool] = {}
    for rank in deployment.ranks:
        prices = rank.pool.prices
        if prices not in fewest or rank.pool.usable < fewest[prices].usable:
            fewest[prices] = rank.pool
    window = min(largest_length(pool, users, limit) for pool in fewest.values())
    return window if window and _is_asked(question, deployment, window) else None


def _is_asked(question: Question, deployment: Deployment, window: int) -> bool:
    """Whether a request of the workload fits the window at all: a question of which none does is refused."""
    if question.workload is None:
        return True
    try:
        held_in(deployment.tightest.pool, question.workload, window)
    except Refused:
        return False
    return True


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
    question: Question, deployment: Deployment, users: int, held: tuple[Held, ...] | None
) -> float | None:
    if question.levers.kv_cache_memory_bytes is not None:
        return None  # the share isn't used then
    window = question.levers.max_model_len
    needed = [(budget.weights + budget.reserve, budget.reported) for budget in deployment.bare]
    for number, rank in enumerate(deployment.ranks):
        pool, budget = rank.pool, rank.budget
        blocks = users * pool.cost(window)
        if held is not None:
            taken = users * held[number].blocks
            # One full window has to fit in any case, or the engine doesn't start.
            blocks = max(ceil_div(taken.numerator, taken.denominator), pool.cost(window))
        cache = (blocks + pool.null_blocks) * pool.block_bytes
        needed.append((cache + budget.weights + budget.reserve, budget.reported))
    share = max(ceil_div(amount * _DIGITS, reported) for amount, reported in needed)
    if share > _DIGITS:
        return None
    smallest = share / _DIGITS
    # The nearest float may lie a hair below the decimal that was meant.
    assert exact(smallest) * _DIGITS == share
    return smallest
