"""Steps 6 to 8 of the ladder: from the KV budget to blocks, to one full window, to users."""

from fractions import Fraction

from service.capacity.cache import CacheKind
from service.capacity.dtypes import BITS
from service.capacity.lengths import Held
from service.capacity.pool import Pool
from service.capacity.question import Question
from service.capacity.rungs import (
    Operand,
    Rung,
    byte_rung,
    certainty_of,
    default_operand,
    lever_operand,
    step_operand,
    weakest,
)
from service.capacity.units import shown_kib, six_digits

_LONGEST_FRACTION = 10**15


def token_rung(question: Question, caches: tuple[CacheKind, ...], dtype: str, pool: Pool, budget: Rung) -> Rung:
    """Step 6: bytes of one token on one rank, and how many blocks the budget holds."""
    levers = question.levers
    figure = question.model.spec.caches
    what_if = levers.kv_heads is not None
    source = "the kv_heads lever: a what-if, another checkpoint" if what_if else figure.source
    certainty = "assumed" if what_if else certainty_of(figure.confidence)
    width = BITS[dtype] // 8
    terms = " + ".join(
        f"{cache.layers} layers x {cache.kv_heads_per_rank(levers.tensor_parallel)} KV heads"
        f" x ({cache.key_dim} + {cache.value_dim}) x {width} B"
        for cache in caches
    )
    shapes = tuple(
        Operand(name, value, unit, source, certainty)
        for cache in caches
        for name, value, unit in (
            ("layers", cache.layers, "layers"),
            ("kv_heads", cache.kv_heads, "heads"),
            ("key_dim", cache.key_dim, "elements"),
            ("value_dim", cache.value_dim, "elements"),
        )
    )
    return Rung(
        step=6,
        name="bytes_per_token",
        value=pool.bytes_per_token,
        unit="B/token",
        bytes=pool.bytes_per_token,
        shown=shown_kib(pool.bytes_per_token),
        formula=(
            f"{terms} = {pool.bytes_per_token:,} B; {max(0, budget.value):,} B // ({pool.bytes_per_token:,} B"
            f" x {pool.block_size} tokens) = {pool.blocks:,} blocks"
        ),
        operands=(
            *shapes,
            Operand("bytes_per_element", width, "B", f"the width of {dtype}", "exact"),
            lever_operand("tensor_parallel", levers.tensor_parallel, "ranks"),
            default_operand("block_size", pool.block_size, "tokens", question.engine.spec.block_size),
            step_operand(budget),
        ),
        source=source,
        certainty=certainty,
    )


def window_rung(question: Question, token: Rung, pool: Pool) -> Rung:
    """Step 7: what one user takes who fills the window, in whole blocks."""
    window = question.levers.max_model_len
    limit = question.model.spec.max_position_embeddings
    blocks = pool.cost(window)
    return byte_rung(
        7,
        "bytes_per_window",
        blocks * pool.block_bytes,
        formula=(
            f"{window:,} tokens = {blocks:,} blocks of {pool.block_size} tokens x {pool.bytes_per_token:,} B per token"
        ),
        operands=(
            default_operand("max_model_len", window, "tokens", limit),
            default_operand("block_size", pool.block_size, "tokens", question.engine.spec.block_size),
            step_operand(token),
        ),
        source="step 6 and the max_model_len lever",
    )


def _spelled_out(mean: Fraction) -> str:
    """A mean as a reader can divide by it: exactly where that is short, else as what it is about."""
    if mean.denominator == 1:
        return f"{mean.numerator:,}"
    if mean.numerator < _LONGEST_FRACTION:
        return f"({mean.numerator:,} / {mean.denominator:,})"
    return f"about {six_digits(mean):,g}"


def users_rung(
    question: Question,
    pool: Pool,
    *,
    budget: Rung,
    token: Rung,
    window: Rung,
    counts: tuple[int, int | None],
    held: Held | None,
) -> Rung:
    """Step 8: the users of the whole deployment, guaranteed and observed: `counts` is (worst case, paged)."""
    pools = question.levers.data_parallel
    window_blocks = pool.cost(question.levers.max_model_len)
    worst_case, paged = counts
    over = f" x {pools} pools" if pools > 1 else ""
    formula = f"{pool.blocks:,} blocks // {window_blocks:,} of a full window{over} = {worst_case:,} worst case"
    shown = f"{worst_case:,} worst case"
    operands = [
        Operand("blocks", pool.blocks, "blocks", "steps 5 and 6", weakest(budget, token)),
        Operand("blocks_per_window", window_blocks, "blocks", "step 7", window.certainty),
        lever_operand("data_parallel", pools, "pools"),
    ]
    if paged is not None and held is not None:
        mean = six_digits(held.blocks)
        formula += f"; {pool.blocks:,} blocks // {_spelled_out(held.blocks)} held on average{over} = {paged:,} paged"
        shown += f", {paged:,} paged"
        operands.append(Operand("mean_held_blocks", mean, "blocks", "the workload", "exact"))
    return Rung(
        step=8,
        name="users",
        value=worst_case,
        unit="users",
        bytes=None,
        shown=shown,
        formula=formula,
        operands=tuple(operands),
        source="steps 5 to 7" if paged is None else "steps 5 to 7, and the workload",
        certainty=weakest(*operands),
    )
