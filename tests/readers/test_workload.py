"""Workloads as written, and the one form that each has afterwards."""

from collections.abc import Mapping

import pytest

from service.capacity.workload import Bin, Found, Joint, Marginal, Marginals, Total
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


PROMPTS = {"bins": [{"upper": 1000, "count": 600}, {"upper": 100, "count": 900}, {"upper": 100, "count": 100}]}
OUTPUTS = {"bins": [{"upper": 50, "count": 1550}, {"count": 50}], "tokens": 40_000}


def test_both_sides_of_marginals_are_sorted_and_merged() -> None:
    assert read({"kind": "marginals", "prompt": PROMPTS, "output": OUTPUTS, "mean_held_tokens": 700.5}) == Marginals(
        prompt=Marginal(bins=(Bin(0, 100, 1000), Bin(100, 1000, 600)), tokens=None),
        output=Marginal(bins=(Bin(0, 50, 1550), Bin(50, None, 50)), tokens=40_000),
        mean_held_tokens=700.5,
    )


def test_thin_evidence_of_marginals_is_said() -> None:
    marginals = read(
        {
            "kind": "marginals",
            "prompt": {"bins": [{"upper": 10, "count": 9}, {"count": 1}]},
            "output": {"bins": [{"upper": 10, "count": 10}], "tokens": 101},
        }
    )
    assert isinstance(marginals, Marginals)
    assert marginals.output.tokens == 100
    assert marginals.found == (
        Found(
            "sum_is_outside_of_the_bins",
            "tokens of the outputs: 101 tokens are not among the sums that the bins can have (10 and 100) and were"
            " taken as the nearest, 100.",
        ),
        Found(
            "much_is_in_the_open_bin",
            "10.0% of the prompts have more than 10 tokens, and nobody counted how many more.",
        ),
        Found("few_requests", "Only 10 requests were counted: below 1,000 the long ones are a matter of chance."),
    )


@pytest.mark.parametrize(
    ("workload", "pointer"),
    [
        ({"kind": "marginals", "prompt": {**PROMPTS, "tokens": 800_000}, "output": OUTPUTS}, "/workload/prompt/tokens"),
        ({"kind": "marginals", "prompt": PROMPTS, "output": {**OUTPUTS, "tokens": 1}}, "/workload/output/tokens"),
        (
            {"kind": "marginals", "prompt": PROMPTS, "output": {"bins": [{"upper": 50, "count": 900}, {"count": 700}]}},
            "/workload/output/bins",
        ),
        (
            {"kind": "marginals", "prompt": PROMPTS, "output": {"bins": [{"upper": 50, "count": 1400}]}},
            "/workload/output/bins",
        ),
        (
            {"kind": "marginals", "prompt": {"bins": [{"count": 0}]}, "output": OUTPUTS},
            "/workload/prompt/bins",
        ),
        (
            {
                "kind": "marginals",
                "prompt": PROMPTS,
                "output": {"bins": [{"upper": 50, "count": 1600}]},
                "mean_held_tokens": 1500,
            },
            "/workload/mean_held_tokens",
        ),
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
