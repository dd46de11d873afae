"""The inverse: which window, or which share of the memory, makes a question fit that doesn't."""

from service.capacity.answer import Inverse, NoValue
from service.capacity.deployment import Deployment
from service.capacity.largest_of_all import largest_of_all
from service.capacity.memory import memory_of
from service.capacity.occupancy.crowd import least_blocks
from service.capacity.pool import Pool
from service.capacity.pool_lengths import held_in, running_of
from service.capacity.question import Basis, Question
from service.capacity.reserve_rung import shares_all
from service.capacity.units import ceil_div, exact

_DIGITS = 10**9


def inverse_of(question: Question, deployment: Deployment) -> Inverse:
    """Solve for one lever at a time, all others as asked: for the users of the target, or a single one that fits."""
    levers, targets = question.levers, question.targets
    basis = "worst_case" if targets is None else targets.basis
    users = ceil_div(1 if targets is None else targets.users, levers.data_parallel)
    window: int | str
    share: float | str
    if levers.max_num_seqs is not None and users > levers.max_num_seqs:
        # The scheduler is in the way, not memory.
        window = share = f"a pool has to hold {users:,} and max_num_seqs admits {levers.max_num_seqs:,} of them"
    else:
        window = largest_of_all(question, deployment, users, basis)
        share = _smallest_share(question, deployment, users, basis)
    found = {"max_model_len": window, "gpu_memory_utilization": share}
    return Inverse(
        max_model_len=None if isinstance(window, str) else window,
        gpu_memory_utilization=None if isinstance(share, str) else share,
        reasons=tuple(NoValue(name, reason) for name, reason in found.items() if isinstance(reason, str)),
    )


def _smallest_share(question: Question, deployment: Deployment, users: int, basis: Basis) -> float | str:
    caches = [_cache_bytes(question, rank.pool, users, basis) for rank in deployment.ranks]
    if question.levers.kv_cache_memory_bytes is not None:
        left, most = min(budget.left for budget in deployment.budgets), max(caches)
        unused = f"kv_cache_memory_bytes sets the cache, so no share is used; it would have to be {most:,} B"
        return unused if most <= left else f"{unused}, and weights and reserve leave {left:,} B"
    shared = [(rank.budget.shared, cache) for rank, cache in zip(deployment.ranks, caches, strict=True)]
    shared += [(budget.shared, 0) for budget in deployment.bare]
    if any(one.base <= 0 for one, _ in shared):
        return "weights and reserve take all of the memory, whatever the share"
    share, amount, base = max(
        (ceil_div((cache + one.taken) * _DIGITS, one.base), cache + one.taken, one.base) for one, cache in shared
    )
    others = question.levers.other_process_bytes
    free = base - others
    if others and amount > free and shares_all(question):
        return f"it would take {amount:,} B of the card, and other processes leave {free:,} B"
    if share > _DIGITS:
        return f"it would take {amount:,} B of the {base:,} B that the share is of"
    smallest = share / _DIGITS
    # The nearest float may lie a hair below the decimal that was meant.
    assert exact(smallest) * _DIGITS == share
    return smallest


def _cache_bytes(question: Question, pool: Pool, users: int, basis: Basis) -> int:
    """Bytes of cache that a rank needs to hold so many users in the question's window, null block included."""
    window, workload = question.levers.max_model_len, question.workload
    full = pool.cost(window)
    if basis == "worst_case" or workload is None:
        blocks = users * full
    elif basis == "paged":
        taken = users * held_in(pool, workload, running_of(question, window)).blocks
        blocks = ceil_div(taken.numerator, taken.denominator) + pool.shared_blocks
    else:
        running = running_of(question, window)
        card = memory_of(question).bytes.high // pool.block_bytes
        own = least_blocks(workload, pool, running, risk=question.risk, users=users, most=card)
        blocks = own + pool.shared_blocks
    # One full window has to fit in any case, or the engine doesn't start.
    return (max(blocks, full) + pool.null_blocks) * pool.block_bytes
