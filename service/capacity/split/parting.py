"""The short requests of a workload and the long ones, as steps by held tokens.

Requests of a cell spread evenly over its pairs of lengths, so a split by the total cuts a cell along a diagonal: of
each prompt only the outputs stay that end at or below the split. Counted in the same integers as the whole, so that the
two parts add up to it to the last bit.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from service.capacity.lengths import cells_of
from service.capacity.occupancy.spread import shared_cells
from service.capacity.occupancy.steps import Cells, Steps, steps_of_cells, steps_of_rows, within
from service.capacity.workload import Joint, Rows, table_of

RouteBy = Literal["total", "prompt"]
"""What a router tells requests apart by: prompt and output together, or the prompt alone."""

Lengths = Joint | Rows
"""Workloads that know prompt and output together."""


def steps_of(lengths: Lengths, window: int) -> Steps:
    """Steps of all requests that the window doesn't reject."""
    if isinstance(lengths, Rows):
        return steps_of_rows(table_of(lengths.rows), window)
    return steps_of_cells(shared_cells(lengths, window), window)


def short_part(lengths: Lengths, whole: Steps, *, at: int, window: int, route_by: RouteBy) -> Steps:
    """Steps of the requests of up to `at` tokens, which is less than the window; `whole` are those of all."""
    if isinstance(lengths, Rows):
        rows = table_of(lengths.rows)
        told_by = rows[:, 0] if route_by == "prompt" else rows.sum(axis=1)
        return steps_of_rows(rows[told_by <= at], window)
    cells = shared_cells(lengths, window)
    if route_by == "prompt":
        return steps_of_cells(cells, window, longest_prompt=at)
    return _ending_by(at, within(cells, window), whole)


def long_part(whole: Steps, short: Steps) -> Steps:
    """Steps of all other requests."""
    missing = (0, len(whole.decode) - len(short.decode))
    return Steps(
        decode=whole.decode - np.pad(short.decode, missing),
        beginning=whole.beginning - np.pad(short.beginning, missing),
    )


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


def _ending_by(at: int, cells: Cells, whole: Steps) -> Steps:
    """Steps of requests of cells whose prompt and output are no more than `at` together."""
    size = min(at + 1, len(whole.decode))
    ended = (whole.beginning - np.diff(whole.decode, prepend=0))[:size]
    first, last, shortest, longest = cells.bounds.T
    outputs = longest - shortest
    per_pair = cells.shares // ((last - first) * outputs)
    middle = (first + last + 1) // 2
    rest = cells.shares - per_pair * ((last - first) * outputs)
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
    return Steps(decode=np.cumsum(beginning - ended), beginning=beginning)


def _add(amounts: NDArray[np.int64], positions: NDArray[np.int64], added: NDArray[np.int64]) -> None:
    inside = positions < len(amounts)
    np.add.at(amounts, positions[inside], added[inside])
