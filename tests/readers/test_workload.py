"""Workloads as written, and the one form that each has afterwards."""

from collections.abc import Mapping

import pytest

from service.capacity.workload import Bin, Joint, Total
from service.errors import Refused
from service.readers import strict_json
from service.readers.question import WorkloadFile, WorkloadRef
from service.readers.workload import normal_form


def read(workload: Mapping[str, object]) -> object:
    asked = strict_json.convert({"workload": workload}, WorkloadFile).workload
    assert not isinstance(asked, str | WorkloadRef)
    return normal_form(asked)


def test_bins_are_sorted_and_merged_and_empty_ones_leave() -> None:
    bins = [
        {"count": 2},
        {"upper": 2048, "count": 3},
        {"upper": 512, "count": 1},
        {"upper": 1024, "count": 0},
        {"upper": 512, "count": 4},
        {"count": 1},
    ]
    assert read({"kind": "total", "bins": bins}) == Total(bins=(Bin(0, 512, 5), Bin(1024, 2048, 3), Bin(2048, None, 3)))


def test_cells_are_sorted_and_merged() -> None:
    cells = [[1, 0, 2], [0, 0, 1], [1, 0, 3], [0, 1, 0]]
    joint = {"kind": "joint", "prompt_edges": [0, 10, 20], "output_edges": [0, 5, None], "counts": cells}
    assert read(joint) == Joint(prompt_edges=(0, 10, 20), output_edges=(0, 5, None), counts=((0, 0, 1), (1, 0, 5)))


@pytest.mark.parametrize(
    ("workload", "pointer"),
    [
        ({"kind": "total", "bins": [{"upper": 5, "count": 0}]}, "/workload/bins"),
        ({"kind": "total", "bins": [{"upper": 5, "count": 2**53 - 1}, {"upper": 6, "count": 1}]}, "/workload/bins"),
        (
            {"kind": "joint", "prompt_edges": [0, 5, 5], "output_edges": [0, 5], "counts": [[0, 0, 1]]},
            "/workload/prompt_edges/2",
        ),
        (
            {"kind": "joint", "prompt_edges": [0, 5], "output_edges": [0, None, 5], "counts": [[0, 0, 1]]},
            "/workload/output_edges/1",
        ),
        (
            {"kind": "joint", "prompt_edges": [0, 5], "output_edges": [0, 5], "counts": [[0, 0, 1], [0, 1, 1]]},
            "/workload/counts/1/1",
        ),
        (
            {"kind": "joint", "prompt_edges": [0, 5], "output_edges": [0, 5], "counts": [[0, 0, 0]]},
            "/workload/counts",
        ),
    ],
)
def test_bins_that_mean_nothing_are_refused(workload: Mapping[str, object], pointer: str) -> None:
    with pytest.raises(Refused) as caught:
        read(workload)
    assert caught.value.faults[0].pointer == pointer
