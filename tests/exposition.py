"""What engines expose of known requests, written from the documented names and edges and by nothing of the service."""

import math
import random
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from service.capacity.workload import Bin, Marginals
from service.readers import strict_json
from service.readers.question import AskedPrometheus, WorkloadFile
from service.readers.workload import normal_form

Requests = Sequence[tuple[int, int]]
"""(prompt tokens, output tokens) of each."""

SGLANG_EDGES = (100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 12000, 15000,
                20000, 22000, 25000, 30000, 35000, 40000, 66000, 99000, 132000, 300000, 600000, 900000,
                1100000)  # fmt: skip


def requests_of(count: int, seed: int, longest: int = 8192) -> list[tuple[int, int]]:
    """Requests as chats have them, the same for the same seed."""
    chance = random.Random(seed)
    return [
        (min(int(chance.lognormvariate(6, 1.2)) + 1, longest), min(int(chance.lognormvariate(5, 1)) + 1, longest))
        for _ in range(count)
    ]


def vllm_edges(max_model_len: int) -> tuple[int, ...]:
    """1, 2, 5, 10 ... up to the longest request."""
    edges = [digit * 10**power for power in range(10) for digit in (1, 2, 5)]
    return tuple(edge for edge in edges if edge <= max_model_len)


def histogram(name: str, labels: str, lengths: Sequence[int], edges: Iterable[int]) -> list[str]:
    """The lines of one series, as Python's Prometheus client writes them."""
    comma = "," if labels else ""
    counts = [(str(float(edge)), sum(length <= edge for length in lengths)) for edge in edges]
    return [
        f"# HELP {name} Histogram of lengths.",
        f"# TYPE {name} histogram",
        *(f'{name}_bucket{{{labels}{comma}le="{le}"}} {float(n)}' for le, n in [*counts, ("+Inf", len(lengths))]),
        f"{name}_count{{{labels}}} {float(len(lengths))}",
        f"{name}_sum{{{labels}}} {float(sum(lengths))}",
        f"# TYPE {name}_created gauge",
        f"{name}_created{{{labels}}} 1.7637e+09",
    ]


def vllm(
    requests: Requests, max_model_len: int = 8192, *, engine: int = 0, model: str = "llama", more: Iterable[str] = ()
) -> str:
    """What one engine of vLLM exposes of its requests."""
    labels = f'engine="{engine}",model_name="{model}"'
    edges = vllm_edges(max_model_len)
    lines = [
        *histogram("vllm:request_prompt_tokens", labels, [prompt for prompt, _ in requests], edges),
        *histogram("vllm:request_generation_tokens", labels, [output for _, output in requests], edges),
        *more,
    ]
    return "\n".join(lines) + "\n"


def sglang(requests: Requests, edges: Iterable[int] = SGLANG_EDGES, *, more: Iterable[str] = ()) -> str:
    """What SGLang exposes of its requests."""
    labels = 'model_name="llama"'
    edges = tuple(edges)
    lines = [
        *histogram("sglang:prompt_tokens_histogram", labels, [prompt for prompt, _ in requests], edges),
        *histogram("sglang:generation_tokens_histogram", labels, [output for _, output in requests], edges),
        *more,
    ]
    return "\n".join(lines) + "\n"


def bins_of(lengths: Sequence[int], edges: Iterable[int], last: int | None = None) -> tuple[Bin, ...]:
    """The bins that hold any of these lengths."""
    bounds = [0, *edges, math.inf]
    counts = [(lower, upper, sum(lower < length <= upper for length in lengths)) for lower, upper in pairwise(bounds)]
    return tuple(
        Bin(int(lower), last if upper == math.inf else int(upper), count) for lower, upper, count in counts if count
    )


def read(**fields: Any) -> Marginals:  # noqa: ANN401 - fields of a workload of the kind prometheus
    """Read a workload as the service does."""
    asked = strict_json.convert({"workload": {"kind": "prometheus", **fields}}, WorkloadFile)
    assert isinstance(asked.workload, AskedPrometheus)
    marginals = normal_form(asked.workload)
    assert isinstance(marginals, Marginals)
    return marginals


def texts_by_code(marginals: Marginals) -> dict[str, str]:
    """What was found, by its code."""
    assert len({each.code for each in marginals.found}) == len(marginals.found)
    return {each.code: each.text for each in marginals.found}
