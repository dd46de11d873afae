"""What a running request of each kind of workload holds: most likely, and between what it may lie."""

from functools import lru_cache

import msgspec
import numpy as np

from service.capacity.errors import Fault, Refused
from service.capacity.lengths import Running, cells_of, closed, nothing_fits
from service.capacity.occupancy import couplings
from service.capacity.occupancy.most_mean import most_mean
from service.capacity.occupancy.steps import (
    Cells,
    Steps,
    Weights,
    lengths_of_bins,
    steps_of_cells,
    steps_of_rows,
)
from service.capacity.prefix_sums import pairs_beyond
from service.capacity.workload import Joint, Marginals, Mean, Rows, Total, Workload, table_of

_OFF = 0.02
"""So far outside a measured mean may lie by the rounding of blocks and of bins alone."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Held tokens at a random step, as weights by tokens from 0 on, and those with which a request ends."""

    likely: Weights
    most: Weights
    """As much as may be held: the fewest users. The same as likely, where lengths are known together."""
    least: Weights
    final: Weights
    """By requests, not steps."""
    prompt_tokens: float | None
    """On average; null where prompts aren't known."""
    output_tokens: float | None
    most_tokens: float | None
    """That requests may hold on average, wherever in their cells they lie; null but for a joint histogram."""
    contradicted: tuple[float, float] | None = None
    """Between what the mean of these lengths lies, where a measured mean lies outside of it."""
    beginning: Weights | None = None
    """By requests, with how many tokens they begin to decode; null where prompts aren't known."""
    prefill_steps: float
    """Before the step that ends a prefill, on average; 0 where prompts aren't known."""

    @property
    def tokens(self) -> float:
        """Tokens held on average."""
        return _mean_of(self.likely)

    def shorter_prompts(self, tokens: int) -> float:
        """The share of requests whose prompt is shorter; 0 where prompts aren't known."""
        if self.beginning is None:
            return 0.0
        return float(self.beginning[:tokens].sum() / self.beginning.sum())


@lru_cache(maxsize=32)
def spread_of(workload: Workload, running: Running) -> Spread | None:
    """Weigh the lengths of a workload by the steps that they are held; null for a mean, which has no spread.

    Raises `Refused` for marginals of which no prompt leaves room in the window; of other lengths one has to.
    """
    match workload:
        case Mean():
            return None
        case Total():
            return _of_total(workload, running)
        case Joint():
            cells = shared_cells(workload, running.window)
            fitting = cells.bounds[:, 0] + 1 < running.window
            most = most_mean(cells.bounds[fitting], cells.shares[fitting], running.window)
            return msgspec.structs.replace(_known(steps_of_cells(cells, running.window), running), most_tokens=most)
        case Rows():
            return _known(steps_of_rows(table_of(workload.rows), running.window), running)
        case Marginals():
            return _of_marginals(workload, running)


def _known(steps: Steps, running: Running) -> Spread:
    weights = steps.weights(running)
    return Spread(
        likely=weights,
        most=weights,
        least=weights,
        final=steps.final,
        prompt_tokens=steps.prompt_tokens,
        output_tokens=steps.output_tokens,
        most_tokens=None,
        prefill_steps=steps.prefill_steps(running),
        beginning=steps.beginning.astype(np.float64),
    )


def _of_total(workload: Total, running: Running) -> Spread:
    bounds = [(part.lower, closed(part.upper, part.lower, running.window)) for part in workload.bins]
    counts = [part.count for part in workload.bins]
    once = lengths_of_bins(np.array(bounds, dtype=np.int64), np.array(counts, dtype=np.float64), running.window)
    by_length = once * np.arange(len(once))
    return Spread(
        likely=once,
        most=by_length,
        least=once,
        final=once,
        prompt_tokens=None,
        output_tokens=None,
        most_tokens=None,
        prefill_steps=0.0,
    )


def shared_cells(workload: Joint, window: int) -> Cells:
    """The cells of a joint histogram with their counts; open bins end at the window."""
    counts = [count for _, _, count in workload.counts]
    return Cells(cells_of(workload, window), np.array(counts, dtype=np.float64))


def _of_marginals(workload: Marginals, running: Running) -> Spread:
    window = running.window
    prompts, outputs = (couplings.pieces_of(side, window) for side in (workload.prompt, workload.output))
    cells = couplings.independent(prompts, outputs)
    if not (cells.bounds[:, 0] + 1 < window).any():
        raise nothing_fits(window)
    chance = _known(steps_of_cells(cells, window), running)
    likely = chance.likely
    most, least = (
        _of_pairing(couplings.together(prompts, side), running, likely)
        for side in (outputs, couplings.falling(outputs))
    )
    mean, contradicted = workload.mean_held_tokens, None
    if mean is not None:
        if mean >= window:
            detail = f"{mean:,g} tokens held on average is more than a window of {window:,} lets a request hold"
            raise Refused(Fault("/workload/mean_held_tokens", detail))
        ends = (_mean_of(least), _mean_of(most))
        if not ends[0] * (1 - _OFF) <= mean <= ends[1] * (1 + _OFF):
            contradicted = ends
        # Fewer than any pairing holds may be a prefix that was shared: what isn't known to be is not counted on.
        mean = max(mean, ends[0])
        likely = couplings.with_mean(likely, mean)
        if mean < ends[1]:
            most, least = couplings.widest(least, most, mean), couplings.narrowest(least, most, mean)
        else:
            most, least = couplings.with_mean(most, mean), likely
    return msgspec.structs.replace(chance, likely=likely, most=most, least=least, contradicted=contradicted)


def _of_pairing(cells: Cells, running: Running, instead: Weights) -> Weights:
    """Steps of one pairing; where no request of it gets into the window, those of another."""
    if not (cells.bounds[:, 0] + 1 < running.window).any():
        return instead
    return steps_of_cells(cells, running.window).weights(running)


def _mean_of(weights: Weights) -> float:
    return float((weights * np.arange(len(weights))).sum() / weights.sum())


def cut_shares(workload: Marginals, window: int) -> tuple[float, float]:
    """The shares of requests whose prompt leaves no room in the window, and that are cut at it, paired by chance."""
    prompts, outputs = (couplings.pieces_of(side, window) for side in (workload.prompt, workload.output))
    cells = couplings.independent(prompts, outputs)
    first, last, shortest, longest = cells.bounds.T
    room = np.maximum(np.minimum(last, window - 1), first)
    rejected = cells.shares * ((last - room) / (last - first))
    beyond = pairs_beyond(np.stack([first + 1, room, shortest + 1, longest], axis=1), window)
    pairs = (last - first).astype(np.float64) * (longest - shortest)
    truncated = cells.shares * (np.array(beyond, dtype=np.float64) / pairs)
    requests = cells.shares.sum()
    return float(rejected.sum() / requests), float(truncated.sum() / requests)
