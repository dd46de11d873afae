"""A closed loop of requests, simulated: so many run, and whoever ends makes room for the next.

A request with a prompt of P tokens and an output of O holds ceil((P + g) / 16) blocks at its step g = 0..O-1. Nothing
is in the way of growing: what is asked is at which share of steps all together hold more blocks than there are.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Integers = NDArray[np.int64]
BLOCK = 16


class Requests:
    """Requests to draw from, as cells: rows of (prompt lower, upper, output lower, upper, requests)."""

    def __init__(self, cells: Integers) -> None:
        """Weigh the cells by requests, for newcomers, and by steps, for what runs already."""
        self._bounds, requests = cells[:, :4], cells[:, 4].astype(np.float64)
        outputs = (cells[:, 2] + 1 + cells[:, 3]) / 2
        self.mean_output = float((requests * outputs).sum() / requests.sum())
        self._by_requests, self._by_steps = (
            np.cumsum(weights) / weights.sum() for weights in (requests, requests * outputs)
        )

    def new(self, number: int, chance: Generator) -> tuple[Integers, Integers]:
        """Prompts and outputs of so many requests."""
        cells = self._bounds[np.searchsorted(self._by_requests, chance.random(number), side="right")]
        first, last, shortest, longest = cells.T
        return chance.integers(first + 1, last + 1), chance.integers(shortest + 1, longest + 1)

    def running(self, number: int, chance: Generator) -> tuple[Integers, Integers]:
        """What so many requests hold that are seen at a random step, and how many steps are left to them."""
        cells = self._bounds[np.searchsorted(self._by_steps, chance.random(number), side="right")]
        first, last, shortest, longest = cells.T
        # An output is seen as often as it is long: the places of all steps of the cell's outputs, laid end to end.
        before, through = shortest * (shortest + 1) / 2, longest * (longest + 1) / 2
        place = before + (1 - chance.random(number)) * (through - before)
        outputs = np.clip(np.ceil((np.sqrt(8 * place + 1) - 1) / 2).astype(np.int64), shortest + 1, longest)
        steps = chance.integers(0, outputs)
        return chance.integers(first + 1, last + 1) + steps, outputs - steps


def rows_as_cells(rows: Integers) -> Integers:
    """Single requests, each as a cell of its own."""
    prompts, outputs = rows.T
    return np.stack([prompts - 1, prompts, outputs - 1, outputs, np.ones_like(prompts)], axis=1)


def overflow(
    requests: Requests, users: int, blocks: int, *, steps: int, replicas: int, chance: Generator
) -> NDArray[np.float64]:
    """The share of steps at which more is held than there is, in each replica; all begin in the stationary state."""
    changes = np.zeros(replicas * (steps + 1), dtype=np.int64)
    places = np.repeat(np.arange(replicas) * (steps + 1), users)  # where in `changes` each slot's replica begins
    at = np.zeros_like(places)
    held, left = requests.running(len(places), chance)
    while len(places):
        left = np.minimum(left, steps - at)
        _run(changes, places + at, held, left)
        at = at + left
        still = at < steps
        places, at = places[still], at[still]
        held, left = requests.new(len(places), chance)
    totals = np.cumsum(changes.reshape(replicas, steps + 1), axis=1)[:, :steps]
    return np.asarray((totals > blocks).mean(axis=1))


def _run(changes: Integers, starts: Integers, held: Integers, steps: Integers) -> None:
    """Let requests that hold so many tokens at their start run so many steps: their blocks come, grow and go."""
    size, last = len(changes), held + steps - 1
    begun, ended = -(-held // BLOCK), -(-last // BLOCK)
    grown = ended - begun
    # A request grows by a block at every step at which it holds one token more than whole blocks.
    number = np.arange(grown.sum()) - np.repeat(np.cumsum(grown) - grown, grown)
    growing = np.repeat(starts + begun * BLOCK + 1 - held, grown) + number * BLOCK
    changes += np.bincount(starts, begun, size).astype(np.int64)
    changes += np.bincount(growing, minlength=size)
    changes -= np.bincount(starts + steps, ended, size).astype(np.int64)


def overflow_in_order(
    rows: Integers, users: int, blocks: int, *, offsets: int, rounds: int, chance: Generator
) -> NDArray[np.float64]:
    """The same with requests in the order of the rows, from offsets evenly over them, one replica each.

    A replica runs through its own part of the rows `rounds` times, after a stretch in which the requests that all
    began at once have gone.
    """
    prompts, outputs = rows.T
    number = len(rows)
    following = np.arange(offsets) * number // offsets
    picked = (following[:, None] + np.arange(users)) % number
    following = following + users
    held, left = prompts[picked], outputs[picked]
    gone = chance.integers(0, left)
    held, left = held + gone, left - gone
    own_part = int(rounds * outputs.sum()) // users // offsets
    warm = int(2 * (outputs.astype(np.float64) ** 2).sum() / outputs.sum())
    over = np.zeros(offsets)
    for step in range(warm + own_part):
        if step >= warm:
            over += (-(-held // BLOCK)).sum(axis=1) > blocks
        held, left = held + 1, left - 1
        done = left == 0
        if done.any():
            row, slot = np.nonzero(done)
            nth = np.cumsum(done, axis=1)[row, slot] - 1
            picked = (following[row] + nth) % number
            held[row, slot], left[row, slot] = prompts[picked], outputs[picked]
            following = following + done.sum(axis=1)
    return over / own_part
