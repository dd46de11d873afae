"""The bundled workloads: published traces as joint histograms, with the totals that are known of their requests."""

import json
import re
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

from service.capacity.lengths import Running, Tokens, held
from service.capacity.named_workload import NamedWorkload
from service.catalog import bundled
from service.catalog.bundled import bundled_catalog
from service.catalog.workload_integrity import workload_faults
from tests.collected import FOLDER, collected

DATA = Path(bundled.__file__).parent / "data" / "workloads"
CATALOG = bundled_catalog().workloads
WORKLOADS = {key: CATALOG.pinned(key, None).spec for key in CATALOG.keys}

TOTALS: dict[str, tuple[int, int, int, float]] = {
    "azure_code_2023": (8_819, 2_048, 28, 2_130),
    "azure_conv_2023": (19_366, 1_155, 211, 1_226),
    "claude_code_agentic": (49_307, 122_317, 440, 127_820),
    "mooncake_conversation": (12_031, 12_035, 343, 13_125),
    "servegen_deepseek_r1": (200_000, 1_250, 1_540, 3_460),
    "servegen_m_large": (200_000, 914, 156, 1_406),
    # Held, from moments of the draws: 119.217 + cov / 14.84 + 14.84 x (1 + 11.1784) / 2 - 1 / 2, with cov = 0.3882 x
    # 305.5 x 49.62 = 5,884.
    "servegen_m_small": (200_000, 119, 15, 605.5),
    "sharegpt_multiturn_300": (300, 857, 653, 1_203),
}
"""Requests, mean prompt, mean output, and mean tokens held while running: of all rows, before they were binned."""


def one_token_a_block(tokens: Tokens) -> Tokens:
    return tokens


def test_the_published_traces_are_there_under_their_names() -> None:
    assert WORKLOADS.keys() == TOTALS.keys()


@pytest.mark.parametrize("key", WORKLOADS)
def test_a_workload_is_kept_with_every_list_of_numbers_on_a_line(key: str) -> None:
    version = CATALOG.version(key, None)
    document = {"key": key, "source": version.source, "spec": json.loads(msgspec.json.encode(WORKLOADS[key]))}
    indented = json.dumps(document, indent=2, ensure_ascii=False)
    numbers = re.compile(r"\[\s+([\d,\s]+?)\s+\]")
    normal = numbers.sub(lambda found: f"[{', '.join(found[1].replace(',', ' ').split())}]", indented)
    assert (DATA / f"{key}.json").read_text() == normal + "\n"


@pytest.mark.parametrize("key", WORKLOADS)
def test_no_workload_has_a_fault(key: str) -> None:
    assert workload_faults(key, WORKLOADS[key]) == []


@pytest.mark.parametrize("key", WORKLOADS)
def test_bins_are_octaves_up_to_16_and_three_to_an_octave_from_there(key: str) -> None:
    grid = (0, 1, 2, 4, 8, 16, *(round(2 ** (third / 3)) for third in range(13, 61)))
    lengths = WORKLOADS[key].lengths.value
    assert lengths.prompt_edges == lengths.output_edges == grid
    assert len(list(pairwise(grid))) == 53


@pytest.mark.parametrize(("key", "totals"), TOTALS.items())
def test_a_workload_has_the_requests_and_means_of_its_trace(key: str, totals: tuple[int, int, int, float]) -> None:
    requests, prompt, output, _ = totals
    spec = WORKLOADS[key]
    assert spec.requests.value == requests == sum(count for _, _, count in spec.lengths.value.counts)
    assert (round(spec.mean_prompt_tokens.value), round(spec.mean_output_tokens.value)) == (prompt, output)
    edges = np.array(spec.lengths.value.prompt_edges)
    middles = (edges[:-1] + 1 + edges[1:]) / 2
    of_bins = [sum(count * middles[cell[side]] for *cell, count in spec.lengths.value.counts) for side in (0, 1)]
    assert of_bins[0] / requests == pytest.approx(spec.mean_prompt_tokens.value, rel=0.02)
    assert of_bins[1] / requests == pytest.approx(spec.mean_output_tokens.value, rel=0.02)


@pytest.mark.parametrize(("key", "totals"), TOTALS.items())
def test_a_running_request_holds_what_one_of_the_trace_does_within_2_percent(
    key: str, totals: tuple[int, int, int, float]
) -> None:
    found = held(WORKLOADS[key].lengths.value, running=Running(window=2**21), cost=one_token_a_block)
    assert float(found.tokens) == pytest.approx(totals[3], rel=0.02)
    assert found.requests == totals[0]
    assert found.rejected_share == found.truncated_share == 0


@pytest.mark.parametrize(
    ("trace", "licence", "named"),
    [
        ("azure", "CC-BY-4.0", "cite Patel et al., Splitwise: Efficient generative LLM inference"),
        ("mooncake", "Apache-2.0", "cite Qin et al., Mooncake: Trading More Storage for Less Computation, FAST 2025"),
        ("servegen", "Apache-2.0", "cite Xiang et al., ServeGen: "),
        ("claude_code", "Apache-2.0", "kv-cache-tester by callanjfox"),
        ("sharegpt", "MIT", "copyright (c) 2024, CASYS Lab at KAIST"),
    ],
)
def test_a_workload_names_whom_its_licence_asks_to_name(trace: str, licence: str, named: str) -> None:
    found = [spec for key, spec in WORKLOADS.items() if key.startswith(trace)]
    assert found
    for spec in found:
        assert spec.licence == licence
        assert named in spec.attribution
    if licence == "CC-BY-4.0":
        assert all("https://creativecommons.org/licenses/by/4.0/" in spec.attribution for spec in found)


def test_what_is_weak_about_a_workload_is_said_under_a_code() -> None:
    def codes(spec: NamedWorkload) -> list[str]:
        return [one.code for one in spec.caveats]

    assert {key: codes(spec) for key, spec in WORKLOADS.items()} == {
        "azure_code_2023": [],
        "azure_conv_2023": [],
        "claude_code_agentic": ["workload_misses_long_requests"],
        "mooncake_conversation": [],
        "servegen_deepseek_r1": ["workload_is_drawn"],
        "servegen_m_large": ["workload_is_drawn", "workload_misses_clients"],
        "servegen_m_small": ["workload_is_drawn", "workload_misses_clients"],
        "sharegpt_multiturn_300": ["few_rows", "workload_is_not_production"],
    }
    texts = {key: " ".join(one.text for one in spec.caveats) for key, spec in WORKLOADS.items()}
    assert "29 of 739 sessions" in texts["claude_code_agentic"]
    assert "37 % of the requests" in texts["servegen_m_large"]
    assert "57 % of the requests" in texts["servegen_m_small"]


@collected
@pytest.mark.parametrize("key", WORKLOADS)
def test_every_cell_is_the_collected_one(key: str) -> None:
    trace = json.loads((FOLDER / "traces" / f"{key}.histogram.json").read_text())
    spec = WORKLOADS[key]
    assert [list(cell) for cell in spec.lengths.value.counts] == trace["joint"]
    assert list(spec.lengths.value.prompt_edges) == trace["prompt"]["edges"]
    assert list(spec.lengths.value.output_edges) == trace["output"]["edges"]
    assert spec.requests.value == trace["n"]
    assert spec.mean_prompt_tokens.value == trace["prompt"]["stats"]["mean"]
    assert spec.mean_output_tokens.value == trace["output"]["stats"]["mean"]
