"""What counts at 1 % promise, and what comes of them: `make simulation`, the long form of the tests beside this."""

from collections.abc import Callable, Iterator
from functools import partial

from tests.collected import FOLDER
from tests.simulation.realised import BLOCKS, IN_ORDER, ROWS, Realised, in_order, of_histogram, of_rows

_EFFORT = 10


def main() -> None:
    """Print every run, and leave with a failure where a promise wasn't kept."""
    broken = 0
    for name, runs in (("published histograms", _histograms()), ("rows", _rows()), ("in recorded order", _in_order())):
        print(f"\n{name}", flush=True)
        for found, is_kept in runs:
            broken += not is_kept
            print(f"{found}   {'kept' if is_kept else 'NOT KEPT'}", flush=True)
    if not FOLDER.exists():
        print("\nThe rows are no part of this project, and aren't beside it.")
    raise SystemExit(broken > 0)


def _histograms() -> Iterator[tuple[Realised, bool]]:
    for trace in BLOCKS:
        yield from _runs(partial(of_histogram, trace, _EFFORT))


def _rows() -> Iterator[tuple[Realised, bool]]:
    for trace, blocks in ROWS if FOLDER.exists() else ():
        yield from _runs(partial(of_rows, trace, blocks, _EFFORT))


def _runs(run: Callable[[int], Realised]) -> Iterator[tuple[Realised, bool]]:
    """One run; of promises that are kept one in 44 misses two standard errors by chance, so a second one decides."""
    found = run(1)
    if not found.is_kept:
        print(f"{found}   again:", flush=True)
        found = run(2)
    yield found, found.is_kept


def _in_order() -> Iterator[tuple[Realised, bool]]:
    for trace, blocks in IN_ORDER if FOLDER.exists() else ():
        for ordered in (True, False):
            found = in_order(trace, blocks, ordered=ordered, effort=_EFFORT)
            yield found, found.overflow <= 0.025


if __name__ == "__main__":
    main()
