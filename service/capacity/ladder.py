"""Steps 6 to 8 of the ladder: from the KV budget to blocks, to one full window, to users."""

from collections.abc import Iterator
from fractions import Fraction

from service.capacity.cache import CacheKind, Footprint, FullAttention
from service.capacity.cache.footprint import Chunk, Context, Span, State, Window
from service.capacity.counts import Counts
from service.capacity.defaults import default_batched_tokens
from service.capacity.deployment import Deployment, Rank, default_block_size_of
from service.capacity.figures import Certainty
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
from service.capacity.units import ceil_div, shown_kib, six_digits

_LONGEST_FRACTION = 10**15

_UNITS = {"layers": "layers", "heads": "heads", "groups": "groups", "window": "tokens", "chunk": "tokens"}
"""Units of shapes by how their names end; what is left counts elements."""


def token_rung(question: Question, deployment: Deployment, rank: Rank) -> Rung:
    """Step 6: bytes of one token on one rank, and how many blocks the budget holds."""
    levers, pool, budget = question.levers, rank.pool, rank.budget.rungs[-1]
    figure = question.model.spec.caches
    what_if = levers.kv_heads is not None
    source = "the kv_heads lever: a what-if, another checkpoint" if what_if else figure.source
    certainty = "assumed" if what_if else certainty_of(figure.confidence)
    per_token = bytes_per_token(deployment, rank)
    grown = [
        f"{layers} layers x {footprint.formula}"
        for footprint in deployment.footprints
        if footprint.grows and (layers := layers_on(footprint, rank))
    ]
    terms = " + ".join(grown) if grown else "no layer keeps more for a further token"
    rounded = ", rounded up" if any(f.grows and f.tokens_per_record > 1 for f in deployment.footprints) else ""
    one_block = f"({per_token:,} B x {levers.block_size} tokens)" if _is_plain(pool) else f"{pool.block_bytes:,} B"
    where = f"stage {deployment.ranks.index(rank) + 1} of {levers.pipeline_parallel}, the tightest: "
    stage = where if levers.pipeline_parallel > 1 else ""
    return Rung(
        step=6,
        name="bytes_per_token",
        value=per_token,
        unit="B/token",
        bytes=per_token,
        low=per_token,
        high=per_token,
        shown=shown_kib(per_token),
        formula=(
            f"{stage}{terms} = {per_token:,} B{rounded}; {max(0, budget.value):,} B // {one_block}"
            f" = {pool.blocks:,} {unit_of(question)}{_raised(deployment, rank)}"
        ),
        operands=(
            *(operand for cache in deployment.caches for operand in _shape(cache, source, certainty)),
            Operand("bytes_per_block", pool.block_bytes, "B", "the groups of the cache", "exact"),
            lever_operand("tensor_parallel", levers.tensor_parallel, "ranks"),
            default_operand("block_size", levers.block_size, "tokens", default_block_size_of(question)),
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
    if _is_plain(pool):
        of_what = f"blocks of {question.levers.block_size} tokens x {token.value:,} B per token"
        formula = f"{window:,} tokens = {blocks:,} {of_what}"
    else:
        padding = pool.padding_bytes(window)
        terms = " + ".join(_taken(pool, window))
        formula = f"{window:,} tokens: {terms} = {blocks:,} {unit_of(question)} x {pool.block_bytes:,} B"
        formula += f", {padding:,} B of it padding" if padding else ""
    return byte_rung(
        7,
        "bytes_per_window",
        blocks * pool.block_bytes,
        formula=formula,
        operands=(
            default_operand("max_model_len", window, "tokens", limit),
            default_operand("block_size", question.levers.block_size, "tokens", default_block_size_of(question)),
            *_in_flight(question, pool),
            step_operand(token),
        ),
        source="step 6 and the max_model_len lever",
    )


def bytes_per_token(deployment: Deployment, rank: Rank) -> int:
    """What every further token takes on one rank, padding apart; rounded up where several tokens share a record."""
    total = sum(
        (
            Fraction(layers_on(footprint, rank) * footprint.record_bytes, footprint.tokens_per_record)
            for footprint in deployment.footprints
            if footprint.grows
        ),
        Fraction(0),
    )
    return ceil_div(total.numerator, total.denominator)


def layers_on(footprint: Footprint, rank: Rank) -> int:
    """How many of a footprint's layers are on a rank's stage."""
    return sum(layer in rank.stage.layers for layer in footprint.numbers)


def unit_of(question: Question) -> str:
    """Name what a pool counts in: an engine's blocks, or the largest unit that all kinds are multiples of."""
    caches = question.model.spec.caches.value
    grouped = question.engine.spec.block_rules is not None
    return "blocks" if grouped or all(isinstance(cache, FullAttention) for cache in caches) else "units"


def _raised(deployment: Deployment, rank: Rank) -> str:
    """Say why a block holds more tokens than was asked for: a page of attention has to hold a state."""
    state = max((one.record_bytes for one in deployment.footprints if isinstance(one.span, State)), default=0)
    grown = [group for group in rank.pool.groups if group.grows]
    if not rank.pool.null_blocks or not state or not grown:
        return ""
    return f"; a block has {grown[0].block:,} tokens, so that one page of attention holds a state of {state:,} B"


def _taken(pool: Pool, window: int) -> list[str]:
    """What a full window takes of each group; groups that take as much are said together."""
    said: dict[tuple[str, Span, int, int], list[int]] = {}
    for group, share, taken in zip(pool.groups, pool.shares, pool.group_blocks(window), strict=True):
        said.setdefault((" and ".join(group.kinds), group.span, group.block, share), []).append(taken)
    return [
        (f"{len(taken)} groups x " if len(taken) > 1 else "")
        + f"{taken[0]:,} of {kinds} ({span.explained(window, block, pool.terms)})"
        + (f" x {share:,} units" if share > 1 else "")
        for (kinds, span, block, share), taken in said.items()
    ]


def _is_plain(pool: Pool) -> bool:
    """Whether every block is the same number of tokens of all layers, and nothing else."""
    return len(pool.groups) == 1 and pool.groups[0].span == Context() and pool.terms.context_shards == 1


def _shape(cache: CacheKind, source: str, certainty: Certainty) -> Iterator[Operand]:
    for name in cache.__struct_fields__:
        value = getattr(cache, name)
        if isinstance(value, int) and not isinstance(value, bool):
            unit = next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "elements")
            yield Operand(name, value, unit, source, certainty)


def _in_flight(question: Question, pool: Pool) -> Iterator[Operand]:
    """What windows hold beyond their own tokens: batches in flight of so many tokens."""
    rules, levers = question.engine.spec.block_rules, question.levers
    if rules is None or not any(isinstance(group.span, Window | Chunk) for group in pool.groups):
        return
    batches = rules.batches_in_flight
    yield Operand("batches_in_flight", batches.value, "batches", batches.source, "assumed")
    if levers.max_num_batched_tokens is not None:
        default = default_batched_tokens(question.engine.spec, question.gpu.spec)
        yield default_operand("max_num_batched_tokens", levers.max_num_batched_tokens, "tokens", default)


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
    counts: tuple[Counts, Counts, Counts],
) -> Rung:
    """Step 8: the users of the whole deployment, guaranteed and observed: at worst, most likely and at best."""
    pools = question.levers.data_parallel
    null = f" - {pool.null_blocks} null block" if pool.null_blocks else ""
    unit = unit_of(question)
    blocks = f"({pool.blocks:,} {unit}{null})" if null else f"{pool.blocks:,} {unit}"
    window_blocks = pool.cost(question.levers.max_model_len)
    low, likely, high = counts
    worst_case, paged, observed = likely.worst_case, likely.paged, likely.observed
    over = f" x {pools} pools" if pools > 1 else ""
    formula = f"{blocks} // {window_blocks:,} of a full window{over} = {worst_case:,} worst case"
    shown = f"{worst_case:,} worst case"
    operands = [
        Operand("blocks", pool.blocks, "blocks", "steps 5 and 6", weakest(budget, token)),
        Operand("blocks_per_window", window_blocks, "blocks", "step 7", window.certainty),
        lever_operand("data_parallel", pools, "pools"),
    ]
    if paged is not None and observed is not None:
        mean = six_digits(observed.held.blocks)
        held = f"{_spelled_out(observed.held.blocks)} held on average"
        formula += f"; {observed.blocks:,} {unit} // {held}{over} = {paged:,} paged"
        shown += f", {paged:,} paged"
        operands.append(Operand("mean_held_blocks", mean, "blocks", "the workload", "exact"))
    if likely.at_risk is not None:
        formula += f"; {likely.at_risk:,} at a risk of {question.risk:g} (occupancy.users)"
        shown += f", {likely.at_risk:,} at a risk of {question.risk:g}"
    if low.worst_case < high.worst_case:
        stages = question.levers.pipeline_parallel
        between = "by the intervals of all stages" if stages > 1 else "by the interval of step 5"
        formula += f"; {low.worst_case:,} to {high.worst_case:,} worst case {between}"
    return Rung(
        step=8,
        name="users",
        value=worst_case,
        unit="users",
        bytes=None,
        low=low.worst_case,
        high=high.worst_case,
        shown=shown,
        formula=formula,
        operands=tuple(operands),
        source="steps 5 to 7" if paged is None else "steps 5 to 7, and the workload",
        certainty=weakest(*operands),
    )
