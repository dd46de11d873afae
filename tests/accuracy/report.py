"""How close plans come to what engines printed: `make accuracy`, first given the KV bytes."""

from collections.abc import Callable, Iterable
from functools import cache

from tests.accuracy.cases import collection
from tests.accuracy.end_to_end_report import print_end_to_end
from tests.accuracy.planned import Result, result_of

CLOSE = 0.01


@cache
def results() -> tuple[Result, ...]:
    """Every case that states or implies the KV bytes, planned and compared."""
    return tuple(result_of(case) for case in collection().cases)


def universe() -> list[Result]:
    """What engines printed, or say in their own tests: what the shares are taken of."""
    return [result for result in results() if result.case.figure != "formula"]


def determined(among: Iterable[Result]) -> list[Result]:
    return [result for result in among if result.undetermined is None]


def undetermined(among: Iterable[Result]) -> list[Result]:
    return [result for result in among if result.undetermined is not None]


def share_close(among: list[Result]) -> float:
    return sum(result.error <= CLOSE for result in among) / len(among)


def share_within_rounding(among: list[Result]) -> float:
    return sum(result.within_rounding for result in among) / len(among)


def main() -> None:
    counted = universe()
    fixed, left_open = determined(counted), undetermined(counted)
    print("Concurrency, tokens and blocks against what engines printed, given the KV bytes")
    for title, key in (
        ("cache kind", lambda result: result.cache),
        ("engine", lambda result: result.case.engine),
        ("TP", lambda result: f"TP {result.case.tensor_parallel}"),
        ("said by", lambda result: result.case.figure.replace("_", " ")),
    ):
        _table(title, key, fixed)
    print(f"\n{'id':16} {'model':42} {'figure':18} {'printed':>12} {'planned':>14} {'error':>9}  own rounding")
    for result in fixed:
        _lines(result)
    print(f"\nNot determined by their stated facts: {len(left_open)} of {len(counted)}")
    for result in left_open:
        print(f"- {_ids(result)}, {result.case.model}: {result.undetermined} (off by {result.error:.2%})")
    print("\nFormulas of others, printed by no engine; not counted")
    for result in results():
        if result.case.figure == "formula":
            print(f"- {_ids(result)}, {result.case.model}: {result.case.origin}; off by {result.error:.3%}")
    print("\nNot compared")
    for apart in collection().apart:
        print(f"- {apart.reason}: {len(apart.ids)} ({', '.join(apart.ids)})")
    print_end_to_end()


def _table(title: str, key: Callable[[Result], str], fixed: list[Result]) -> None:
    groups: dict[str, list[Result]] = {}
    for result in fixed:
        groups.setdefault(key(result), []).append(result)
    print(f"\n{title:38} {'cases':>5}  {'within 1 %':>10}  {'own rounding':>12}  worst")
    for name, group in sorted(groups.items()):
        _row(name, group)
    _row("all", fixed)


def _row(name: str, group: list[Result]) -> None:
    worst = max(group, key=lambda result: result.error)
    print(
        f"{name:38} {len(group):5}  {share_close(group):10.1%}  {share_within_rounding(group):12.1%}"
        f"  {worst.error:.3%} {_ids(worst)}"
    )


def _lines(result: Result) -> None:
    label = f"{result.case.ids[0]:16} {result.case.model:42}"
    for figure in result.compared:
        within = "within" if figure.within_rounding else "NOT WITHIN"
        print(f"{label} {figure.name:18} {figure.printed:12,} {figure.planned:14,.3f} {figure.error:9.3%}  {within}")
        label = " " * 59
    if not result.within_rounding and result.case.found_later is not None:
        print(f"{label} {result.case.found_later}")


def _ids(result: Result) -> str:
    return " = ".join(result.case.ids)


if __name__ == "__main__":
    main()
