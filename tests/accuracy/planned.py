"""A case as the planner sees it: the same way from a question to a pool that plans take, with the KV bytes given."""

from decimal import Decimal
from functools import cache

import msgspec

from service.capacity.cache_summary import printed_tokens
from service.capacity.deployment import deploy
from service.capacity.figures import Figure
from service.capacity.largest_window import largest_length
from service.capacity.model import WeightPart
from service.capacity.pool import Pool
from service.capacity.question import Question
from service.catalog.bundled import bundled_versions
from service.catalog.entries import Catalog
from service.catalog.resolve import resolve
from service.readers.question import AskedLevers, AskedQuestion
from tests import fixed_catalog
from tests.accuracy.cases import Case, collection, half_unit

_NO_WEIGHTS: Figure[tuple[WeightPart, ...]] = Figure((), "not needed: the KV bytes are given", "high")


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One printed figure against the planner's."""

    name: str
    printed: Decimal
    planned: Decimal
    """From the KV bytes as they were printed."""
    error: float
    """Relative."""
    within_rounding: bool
    """Whether some KV bytes that round to the printed ones give a figure that rounds to the printed one."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One case, planned and compared."""

    case: Case
    cache: str
    """The kinds of cache."""
    compared: tuple[Comparison, ...]
    undetermined: str | None

    @property
    def error(self) -> float:
        return max(figure.error for figure in self.compared)

    @property
    def within_rounding(self) -> bool:
        return all(figure.within_rounding for figure in self.compared)


def result_of(case: Case) -> Result:
    """Plan a case and compare every figure that was printed."""
    least, middle, most = (_figures(case, kv) for kv in case.given.kv_range or (None, None, None))
    compared = []
    for name, printed in _printed(case).items():
        half = half_unit(printed) if printed.as_tuple().exponent else Decimal(0)
        low, high = sorted((least[name], most[name]))
        compared.append(
            Comparison(
                name=name,
                printed=printed,
                planned=middle[name],
                error=float(abs(middle[name] - printed) / printed) if printed else float(abs(middle[name])),
                within_rounding=low - half <= printed <= high + half,
            )
        )
    kinds = sorted({str(kind.__struct_config__.tag) for kind in deploy(_asked(case, 0)).caches})
    return Result(case=case, cache=" + ".join(kinds), compared=tuple(compared), undetermined=case.why_undetermined())


def question_of(*, model: str, gpu: str, engine: str, levers: AskedLevers, kv_bytes: int) -> Question:
    """Ask as a caller would, with so many bytes of cache on each rank."""
    levers = msgspec.structs.replace(levers, kv_cache_memory_bytes=kv_bytes)
    question = resolve(AskedQuestion(model=model, gpu=gpu, engine=engine, levers=levers), _catalog())
    # Without weights, so that a checkpoint in another format than the one that was run can't take from the cache.
    spec = msgspec.structs.replace(question.model.spec, weights=_NO_WEIGHTS)
    return msgspec.structs.replace(question, model=msgspec.structs.replace(question.model, spec=spec))


def _asked(case: Case, kv_bytes: int) -> Question:
    return question_of(model=case.model, gpu=case.gpu, engine=case.planned_as, levers=case.levers, kv_bytes=kv_bytes)


def _figures(case: Case, kv_bytes: int | None) -> dict[str, Decimal]:
    """Everything that could have been printed; `kv_bytes` is null where the number of blocks is given."""
    question = _asked(case, kv_bytes or 0)
    pool = deploy(question).tightest.pool
    sequences = case.given.sequences or 0
    if kv_bytes is None:
        assert sequences or case.given.blocks is not None
        pool = msgspec.structs.replace(pool, blocks=case.given.blocks or 0)
    rules, window = question.engine.spec.block_rules, question.levers.max_model_len
    concurrency = pool.concurrency(window)
    growing = sum(
        blocks * share * pool.block_bytes
        for group, share, blocks in zip(pool.groups, pool.shares, pool.group_blocks(window), strict=True)
        if group.grows
    )
    whole = pool.cost(window) * pool.block_bytes
    return {
        "concurrency": Decimal(concurrency.numerator) / concurrency.denominator,
        "tokens": Decimal(printed_tokens(pool, "smallest_group" if rules is None else rules.printed_tokens, window)),
        "blocks": Decimal(pool.blocks),
        "usable_tokens": Decimal(pool.usable * min(group.block for group in pool.groups)),
        "blocks_per_window": Decimal(pool.cost(window)),
        "window_gib": Decimal(whole) / 2**30,
        "max_model_len": Decimal(_longest(pool, window)),
        "contexts_mib": Decimal(sequences * growing) / 2**20,
        "states_mib": Decimal(sequences * (whole - growing)) / 2**20,
    }


def _longest(pool: Pool, window: int) -> int:
    """The longest that releases before 0.33 say: they count the null block in."""
    return largest_length(msgspec.structs.replace(pool, null_blocks=0), 1, window)


def _printed(case: Case) -> dict[str, Decimal]:
    figures = msgspec.structs.asdict(case.printed)
    return {name: Decimal(figure) for name, figure in figures.items() if figure is not None}


@cache
def _catalog() -> Catalog:
    """The bundled catalog, with the cards and models that only these cases have."""
    own = [
        fixed_catalog.version(
            "gpus",
            key,
            fixed_catalog.gpu(int(card.gib * 2**30), "assumed")
            | {"name": card.name, "compute_capability": card.compute_capability},
        )
        for key, card in collection().cards.items()
    ]
    own += [
        fixed_catalog.version(
            "models",
            key,
            fixed_catalog.model(1, 1, [])
            | {
                "dtype": fixed_catalog.figure(shapes.dtype),
                "layers": fixed_catalog.figure(shapes.layers),
                "query_heads": fixed_catalog.figure(shapes.query_heads),
                "caches": fixed_catalog.figure(shapes.caches),
            },
        )
        for key, shapes in collection().models.items()
    ]
    return Catalog(1, (*bundled_versions(), *own))
