"""Published request lengths: as joint histograms in the catalog, and as rows where the collected facts are beside."""

import csv
from functools import cache

import numpy as np
from numpy.typing import NDArray

from service.capacity.workload import Joint
from service.catalog.bundled import bundled_catalog
from tests.collected import FOLDER

TRACES = FOLDER / "traces"
"""The rows themselves are not carried in this project."""


@cache
def recorded(trace: str) -> NDArray[np.int64]:
    """Rows of (prompt, output) in tokens, in the order of the file."""
    with (TRACES / f"{trace}.sample.csv").open() as lines:
        rows = [(int(row["prompt_tokens"]), int(row["output_tokens"])) for row in csv.DictReader(lines)]
    return np.array(rows, dtype=np.int64)


def bundled(trace: str) -> Joint:
    """The joint histogram of the catalog."""
    return bundled_catalog().workloads.pinned(trace, None).spec.lengths.value


def cells_of(joint: Joint) -> NDArray[np.int64]:
    """Rows of (prompt lower, prompt upper, output lower, output upper, count)."""
    prompts, outputs = joint.prompt_edges, joint.output_edges
    return np.array([(prompts[i], prompts[i + 1], outputs[j], outputs[j + 1], n) for i, j, n in joint.counts])
