"""The most that requests of a joint histogram can hold on average, wherever in its cells they lie."""

import numpy as np
from numpy.typing import NDArray

_LOOKS = 60
_EXACT = 1e-13


def most_mean(bounds: NDArray[np.int64], counts: NDArray[np.float64], window: int) -> float:
    """Tokens held at a random decode step, at most: a proof where the upper edges of all bins are none.

    Raising a short output may lower the mean, as it dilutes the long ones. So the largest ratio of summed to run steps
    is sought: r with sum n max over O in {lower + 1, upper} of [P O + O (O - 1) / 2 - r O] = 0, P the upper edge of the
    prompts (the bracket is convex in O, so an edge is the largest; Dinkelbach's method). A request that may be cut at
    the window may run as few as one step.
    """
    _, prompt, least, longest = bounds.T.astype(np.float64)
    prompt, longest = np.minimum(prompt, window - 1), np.minimum(longest, window)
    shortest = np.where(prompt + longest > window, 1.0, least + 1)
    gains = [prompt * outputs + outputs * (outputs - 1) / 2 for outputs in (shortest, longest)]
    ratio = float((counts * gains[1]).sum() / (counts * longest).sum())
    for _ in range(_LOOKS):
        long = gains[1] - ratio * longest >= gains[0] - ratio * shortest
        better = float(
            (counts * np.where(long, gains[1], gains[0])).sum() / (counts * np.where(long, longest, shortest)).sum()
        )
        if abs(better - ratio) <= _EXACT * better:
            break
        ratio = better
    return better
