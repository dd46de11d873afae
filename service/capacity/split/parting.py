"""The short requests of a workload and the long ones, as steps by held tokens.

Requests of a cell spread evenly over its pairs of lengths, so a split by the total cuts a cell along a diagonal: of
each prompt only the outputs stay that end at or below the split. Counted in the same integers as the whole, so that the
two parts add up to it to the last bit.
"""

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.capacity.lengths import cells_of
from service.capacity.occupancy.spread import shared_cells
from service.capacity.occupancy.steps import (
    Divided,
    Steps,
    counted_in,
    divisions,
    steps_of_cells,
    steps_of_rows,
    summed,
)
from service.capacity.workload import Joint, Rows, table_of

RouteBy = Literal["total", "prompt"]
"""What a router tells requests apart by: prompt and output together, or the prompt alone."""

Lengths = Joint | Rows
"""Workloads that know prompt and output together."""


Amounts = NDArray[np.int64]


def steps_of(lengths: Lengths, window: int) -> Steps:
    """Steps of all requests that the window doesn't reject, of which there is one."""
    if isinstance(lengths, Rows):
        return steps_of_rows(table_of(lengths.rows), window)
    return steps_of_cells(shared_cells(lengths, window), window)


def parts_of(lengths: Lengths, *, at: int, window: int, route_by: RouteBy) -> tuple[Steps, Steps]:
    """Steps of the requests of up to `at` tokens, which is less than the window, and of the longer ones."""
    if isinstance(lengths, Rows):
        rows = table_of(lengths.rows)
        is_short = (rows[:, 0] if route_by == "prompt" else rows.sum(axis=1)) <= at
        return steps_of_rows(rows[is_short], window), steps_of_rows(rows[~is_short], window)
    found: list[Steps] = []
    for divided in divisions(shared_cells(lengths, window), window):
        whole = summed(divided)
        short = _beginning_by(at, divided) if route_by == "prompt" else _ending_by(at, divided, whole)
        parts = (short, (whole[0] - short[0], whole[1] - short[1]))
        steps = [counted_in(divided.unit, *part) for part in parts]
        found = [one + more for one, more in zip(found, steps, strict=True)] if found else steps
    return found[0], found[1]


def short_window(lengths: Lengths, *, at: int, window: int, route_by: RouteBy) -> int:
    """The least window in which all short requests end as they would in the whole one.

    Told apart by their total that is the split itself. Told apart by their prompt it leaves room for the longest output
    that comes after a short one.
    """
    if route_by == "total":
        return at
    if isinstance(lengths, Rows):
        rows = table_of(lengths.rows)
        return min(window, int(rows[rows[:, 0] <= at].sum(axis=1).max(initial=0)))
    first, last, _, longest = cells_of(lengths, window).T
    return min(window, int((np.minimum(last, at) + longest)[first < at].max(initial=0)))


def _beginning_by(at: int, divided: Divided) -> tuple[Amounts, Amounts]:
    """Beginning and holding requests whose prompt is no more than `at`."""
    bounds = divided.bounds.copy()
    first, last = bounds[:, 0], bounds[:, 1]
    rest = np.where((first + last + 1) // 2 <= at, divided.rest, 0)
    # What division left over stays in the middle of its whole cell.
    middle = summed(msgspec.structs.replace(divided, per_pair=np.zeros_like(rest), rest=rest))
    bounds[:, 1] = np.minimum(last, np.maximum(first, at))
    even = summed(msgspec.structs.replace(divided, bounds=bounds, rest=np.zeros_like(rest)))
    return even[0] + middle[0], even[1] + middle[1]


def _ending_by(at: int, divided: Divided, whole: tuple[Amounts, Amounts]) -> tuple[Amounts, Amounts]:
    """The same of those whose prompt and output are no more than `at` together; `whole` is of all."""
    size, (first, last, shortest, longest) = divided.size, divided.bounds.T
    ended = whole[0] - np.diff(whole[1], prepend=0)
    ended[at + 1 :] = 0
    outputs, per_pair, rest = longest - shortest, divided.per_pair, divided.rest
    middle = (first + last + 1) // 2
    # Of a prompt p so many outputs stay: min(outputs, at - shortest - p), no less than none. That is a step at the
    # first prompt, one less for each further one from where it falls to where it ends, and a step down after the last.
    begins, fall, end = first + 1, at - longest, np.minimum(last, at - shortest)
    at_first, at_last = (np.clip(at - shortest - prompt, 0, outputs) for prompt in (begins, last))
    jumps, slopes = np.zeros(size + 1, dtype=np.int64), np.zeros(size + 1, dtype=np.int64)
    _add(jumps, begins, per_pair * at_first)
    _add(jumps, last + 1, -per_pair * at_last)
    falls = np.maximum(begins, fall)
    falling = end > falls
    _add(slopes, falls[falling] + 1, -per_pair[falling])
    _add(slopes, end[falling] + 1, per_pair[falling])
    # What the division by pairs left over lies in the middle of its cell, as in the whole.
    kept = np.where(middle + (shortest + longest + 1) // 2 <= at, rest, 0)
    _add(jumps, middle, kept)
    _add(jumps, middle + 1, -kept)
    beginning = np.cumsum(jumps + np.cumsum(slopes))[:size]
    return beginning, np.cumsum(beginning - ended)


def _add(amounts: NDArray[np.int64], positions: NDArray[np.int64], added: NDArray[np.int64]) -> None:
    inside = positions < len(amounts)
    np.add.at(amounts, positions[inside], added[inside])
