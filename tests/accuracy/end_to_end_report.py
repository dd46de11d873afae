"""The second half of `make accuracy`: from model, card, flags and release alone."""

from collections.abc import Callable, Iterable, Sequence

from service.capacity.question import Question
from tests.accuracy.deployments import Cell, cells_by_difference, deployments
from tests.accuracy.end_to_end import (
    Outcome,
    Shares,
    cell_error,
    failures,
    filled_error,
    outcome,
    outcomes,
    shares,
    without,
)
from tests.accuracy.kept import asked

_HEAD = "  median     90th     worst   1 %   5 %  10 %  20 %  close  covered   width"


def by_card(question: Question) -> str:
    return question.gpu.key


def by_release(question: Question) -> str:
    return question.engine.key


def print_end_to_end() -> None:
    found = outcomes()
    print("\n\nFrom model, card, flags and release alone, against what vLLM printed: each deployment once")
    print("close: within 10 % or 0.3 GiB of cache; width: half of the interval, of what was printed and in GiB")
    for title in ("cache kind", "engine", "memory class", "TP"):
        groups: dict[str, list[Outcome]] = {}
        for one in found:
            groups.setdefault(one.labels[title], []).append(one)
        print(f"\n{title:38} {'':4}{_HEAD}")
        for name, group in sorted(groups.items()):
            print(_row(name, shares(group)))
    print(f"\n{'all':38} {'':4}{_HEAD}")
    print(_row("fitted to all", shares(found)))
    print(_row("without the card's own start-ups", shares(without(by_card))))
    print(_row("without the release's own start-ups", shares(without(by_release))))
    imputed = [one for one in found if not one.release_is_stated]
    print(f"\nOf {len(found)} releases {len(imputed)} aren't stated: the likely one is planned (planned_because)")
    print(f"{'':38} {'':4}{_HEAD}")
    print(_row("release stated", shares(one for one in found if one.release_is_stated)))
    print(_row("release not stated", shares(imputed)))
    print(_row("never fitted to", shares(one for one in found if not one.fitted)))
    print(f"\n{'id':22} {'compared':11} {'printed':>12} {'predicted':>12} {'interval':>25} {'error':>8} {'GiB':>6}")
    for one in found:
        print(_line(one))
    _print_others()


def _print_others() -> None:
    cells = deployments().cells
    print(f"\nWhat vLLM kept back on an H200, {len(cells)} cells within 0.5 GiB")
    print(f"  fitted to all                        {_cells_within(cells)}")
    print(f"  without the card's own start-ups     {_cells_within(cells, by_card)}")
    print(f"  without the release's own start-ups  {_cells_within(cells, by_release)}")
    for cell in cells:
        print(_cell(cell))
    print("\nThe same on other cards, as far as it is stated: by how much it differs from an H200")
    for gpu in ("b200-sxm", "mi300x"):
        differing = [cell for cell in cells_by_difference() if cell.gpu == gpu]
        print(f"  {gpu}: {_cells_within(differing)} of {len(differing)} within 0.5 GiB")
        for cell in differing:
            print(_cell(cell))
    filled = sorted(filled_error(one) for one in deployments().tensorrt_llm)
    middle = filled[len(filled) // 2]
    print(f"\nTensorRT-LLM, {len(filled)} measurements of users: median {middle:.2%}, worst {filled[-1]:.1%}")
    for one in deployments().sglang:
        print(f"SGLang: {_line(outcome(one, asked(one)))}")
    print("\nFailed starts: what was planned of each")
    for failed in failures():
        print(f"- {' = '.join(failed.ids)}: {failed.said}")
    print("\nNot planned from what is stated")
    for left in deployments().left_out:
        print(f"- {', '.join(left.ids)}: {left.reason}")


def _cells_within(cells: Sequence[Cell], group: Callable[[Question], str] | None = None) -> str:
    """The share of cells within 0.5 GiB; a cell that nothing is left to predict from isn't."""
    errors = [cell_error(cell, group) for cell in cells]
    return f"{sum(error is not None and error <= 0.5 for error in errors) / len(cells):6.1%}"


def _cell(cell: Cell) -> str:
    error = cell_error(cell)
    off = "no rule" if error is None else f"{error:.2f}"
    return f"  {cell.model:48} TP {cell.tensor_parallel} {cell.engine:10} {cell.low_gib}-{cell.high_gib} {off}"


def _row(name: str, found: Shares) -> str:
    within = "".join(f"{share:6.0%}" for share in found.within.values())
    return (
        f"{name:38} {found.count:4} {found.median:8.2%} {found.ninetieth:8.1%} {found.worst:9.1%}{within}"
        f" {found.close:6.1%} {found.covered:8.1%} {found.width:6.1%} {found.kv_width:.2f}"
    )


def _line(one: Outcome) -> str:
    remarks: Iterable[str] = (
        "" if one.close else "NOT CLOSE",
        "" if one.covered else "NOT COVERED",
        "fraction by default" if "gpu_memory_utilization" in one.assumed else "",
        f"not stated: {one.unstated}" if one.unstated else "",
    )
    interval = f"{one.low:,.2f} to {one.high:,.2f}"
    return (
        f"{' = '.join(one.ids):22} {one.compared:11} {one.printed:12,.2f} {one.predicted:12,.2f} {interval:>25}"
        f" {one.error:8.1%} {one.kv_off:+6.2f}  {'; '.join(remark for remark in remarks if remark)}"
    )
