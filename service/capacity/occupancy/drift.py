"""How far the mean of what requests hold wanders, measured on requests in the order in which they came."""

import numpy as np
from numpy.typing import NDArray

from service.capacity.lengths import Running

USUAL = 0.08
"""What recorded traffic wandered by: 7 to 10 % of the mean (conversations, code completion)."""
_WINDOWS_PER_USERS = 4
_FEWEST_WINDOWS = 4
"""Fewer means than that say nothing of how they vary."""


def measured_tau(rows: NDArray[np.int64], blocks: NDArray[np.int64], running: Running, users: int) -> float | None:
    """The share of the mean by which means of windows vary beyond what chance does to them; null for too few rows.

    Windows are of W = 4 users requests one after the other. With S the blocks of a request summed over its O decode
    steps and mu = E[S] / E[O]: tau^2 = Var(sum S / sum O) - Var(S - mu O) / (W E[O]^2), over mu^2. `blocks` is what a
    request holds, by its tokens.
    """
    fitting = rows[rows[:, 0] < running.window]
    size = _WINDOWS_PER_USERS * users
    windows = len(fitting) // size if size else 0
    if windows < _FEWEST_WINDOWS:
        return None
    prompts = fitting[:, 0]
    ends = np.minimum(prompts + fitting[:, 1], running.window)
    cumulated = np.cumsum(blocks)
    summed, steps = (
        (cumulated[ends - 1] - cumulated[prompts - 1]).astype(np.float64),
        (ends - prompts).astype(np.float64),
    )
    mean = summed.sum() / steps.sum()
    alone = float((summed - mean * steps).var()) / (size * float(steps.mean()) ** 2)
    kept = windows * size
    means = summed[:kept].reshape(windows, size).sum(axis=1) / steps[:kept].reshape(windows, size).sum(axis=1)
    return float(np.sqrt(max(float(means.var(ddof=1)) - alone, 0.0)) / mean)
