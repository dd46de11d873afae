"""Counts at 1 % fed to the simulator: what was promised, and what came of it."""

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from service.capacity.workload import Rows
from tests.crowds import crowd
from tests.simulation.closed_loop import Requests, overflow, overflow_in_order, rows_as_cells
from tests.traces import bundled, cells_of, recorded

RISK = 0.01
OFFSETS = 12
BLOCKS = {
    "azure_code_2023": 27_508,
    "azure_conv_2023": 27_508,
    "claude_code_agentic": 220_064,
    "mooncake_conversation": 27_508,
    "servegen_deepseek_r1": 27_508,
    "servegen_m_large": 27_508,
    "servegen_m_small": 27_508,
    "sharegpt_multiturn_300": 27_508,
}
"""Blocks that each bundled trace is run in: those of one H100, and eight times as many for the longest contexts."""
ROWS = (
    *BLOCKS.items(),
    ("azure_conv_2023", 2_048),
    ("azure_code_2023", 4_096),
    ("mooncake_conversation", 220_064),
    ("claude_code_agentic", 1_000_000),
)
"""Traces whose rows are run as well, in pools of other sizes too."""
IN_ORDER = (
    ("azure_conv_2023", 27_508),
    ("azure_code_2023", 27_508),
    ("mooncake_conversation", 220_064),
    ("mooncake_conversation", 27_508),
)
"""Traces whose rows are in the order in which they came."""
_STEPS = 10_000_000
"""Steps of single requests that are simulated at a time."""
_TIMES = 15
"""How often, at an effort of 1."""


class Realised(msgspec.Struct, frozen=True):
    """A promise, and what became of it."""

    trace: str
    blocks: int
    users: int
    promised: float
    overflow: float
    error: float
    """One standard error of the overflow, over replicas."""

    @property
    def is_kept(self) -> bool:
        """Within two standard errors of the promise, or below it."""
        return self.overflow <= self.promised + 2 * self.error

    def __str__(self) -> str:
        """One line of figures."""
        return (
            f"{self.trace:24} {self.blocks:9,} blocks {self.users:5,} users   promised {self.promised:7.3%}"
            f"   overflow {self.overflow:7.3%} +- {self.error:.3%}"
        )


def of_histogram(trace: str, effort: int = 1, seed: int = 1) -> Realised:
    """Requests drawn from the joint histogram of the catalog."""
    joint = bundled(trace)
    counted = crowd(joint, BLOCKS[trace], risk=RISK)
    chances = (np.random.default_rng([seed, run]) for run in range(_TIMES * effort))
    return _realised(trace, Requests(cells_of(joint)), (counted.blocks, counted.users.best, counted.tail), chances)


def of_rows(trace: str, blocks: int, effort: int = 1, seed: int = 1) -> Realised:
    """Requests drawn from the rows themselves."""
    counted = crowd(_rows(trace), blocks, risk=RISK)
    requests = Requests(rows_as_cells(recorded(trace)))
    chances = (np.random.default_rng([seed, run]) for run in range(_TIMES * effort))
    return _realised(trace, requests, (blocks, counted.users.best, counted.tail), chances)


def in_order(trace: str, blocks: int, *, ordered: bool, effort: int = 1) -> Realised:
    """Requests in the order in which they came, at the least of the exact count and the one with drift."""
    counted = crowd(_rows(trace, ordered=ordered), blocks, risk=RISK)
    users = min(counted.users.best, counted.drift.users)
    shares = overflow_in_order(
        recorded(trace), users, blocks, offsets=OFFSETS, rounds=effort, chance=np.random.default_rng(1)
    )
    return Realised(trace, blocks, users, RISK, float(shares.mean()), _error(shares))


def _realised(
    trace: str, requests: Requests, promise: tuple[int, int, float], chances: Iterable[Generator]
) -> Realised:
    blocks, users, tail = promise
    # A replica sees every request off about twice; the more of them, the less the error.
    steps = max(50, int(2 * requests.mean_output))
    replicas = max(1, _STEPS // steps // users)
    runs = (overflow(requests, users, blocks, steps=steps, replicas=replicas, chance=chance) for chance in chances)
    shares = np.concatenate(list(runs))
    return Realised(trace, blocks, users, tail, float(shares.mean()), _error(shares))


def _error(shares: NDArray[np.float64]) -> float:
    return float(shares.std(ddof=1) / np.sqrt(len(shares)))


def _rows(trace: str, *, ordered: bool = False) -> Rows:
    return Rows(rows=tuple((int(prompt), int(output)) for prompt, output in recorded(trace)), ordered=ordered)
