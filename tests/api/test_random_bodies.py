"""Bodies made by chance: whatever comes, the service answers, and never with a fault of its own."""

import json
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import httpx
import pytest

from tests.questions import REFERENCE

BODIES = 20_000
THREADS = 4

SEEDS: list[dict[str, Any]] = [
    REFERENCE | {"workload": {"kind": "mean", "tokens": 2300}, "labels": {"team": "chat"}},
    REFERENCE | {"workload": {"kind": "total", "bins": [{"upper": 512, "count": 120}, {"count": 3}]}, "risk": 0.05},
    REFERENCE
    | {"workload": {"kind": "rows", "rows": [[100, 50], [8000, 900]]}, "targets": {"users": 3, "basis": "paged"}},
    REFERENCE | {"workload": {"key": "sharegpt_multiturn_300", "version": 1}},
    REFERENCE
    | {
        "gpu": {"key": "h100-sxm-80gb", "version": 1},
        "workload": {
            "kind": "joint",
            "prompt_edges": [0, 64, 4096, None],
            "output_edges": [0, 16, 1000],
            "counts": [[0, 0, 5], [1, 1, 7], [2, 0, 1]],
        },
    },
]
LEVERS = ("max_model_len", "tensor_parallel", "block_size", "kv_heads", "reserve_bytes", "kv_cache_memory_bytes", "x")
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 7, 16, 8192, 131_072, 2**31 - 1, 2**31, 2**53, 2**63, 10**30, 0.0, -0.0, 0.5, 1.0,
    1e-9, 1e300, "", "a", "8192", "fp8", "at_risk", "worst_case", "\x00", "\ud800", "é" * 300, [], {}, [[]], [1, 2],
    {"key": "generic", "version": 1}, {"kind": "mean", "tokens": 1},
]  # fmt: skip


def plausible(chance: random.Random) -> dict[str, Callable[[], object]]:
    """Levers with values that mostly make sense, some at their bounds."""
    return {
        "max_model_len": lambda: chance.choice([1, 2300, 8192, 131_072, 131_073, chance.randint(1, 131_072)]),
        "tensor_parallel": lambda: chance.choice([1, 2, 4, 8, 16, 32, 64]),
        "data_parallel": lambda: chance.randint(1, 4096),
        "block_size": lambda: chance.choice([1, 16, 65_536, chance.randint(1, 65_536)]),
        "kv_heads": lambda: chance.choice([1, 8, 32]),
        "kv_cache_dtype": lambda: chance.choice(["auto", "fp8", "fp32"]),
        "gpu_memory_utilization": lambda: chance.choice([1e-300, 5e-324, 0.9, 1, chance.random()]),
        "reserve_bytes": lambda: chance.choice([0, 2**53 - 1, chance.randint(0, 2**37)]),
        "other_process_bytes": lambda: chance.choice([0, 2**53 - 1]),
        "kv_cache_memory_bytes": lambda: chance.choice([0, 1, 2**53 - 1]),
        "max_num_seqs": lambda: chance.choice([1, 256, 2**53 - 1]),
    }


def mutated(chance: random.Random) -> bytes:
    """A question with one to four things changed, and now and then bytes that are no JSON at all."""
    document = json.loads(json.dumps(chance.choice(SEEDS)))
    if chance.random() < 0.4:
        document["levers"] |= {name: value() for name, value in plausible(chance).items() if chance.random() < 0.4}
        return json.dumps(document).encode()
    for _ in range(chance.randint(1, 4)):
        place: Any = document
        while isinstance(place, dict | list) and place and chance.random() < 0.7:
            step = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
            if not isinstance(place[step], dict | list):
                break
            place = place[step]
        if isinstance(place, dict):
            place[chance.choice([*place, *LEVERS])] = deepcopy(chance.choice(VALUES))
        elif isinstance(place, list):
            place.insert(chance.randint(0, len(place)), deepcopy(chance.choice(VALUES)))
    body = json.dumps(document).encode("utf-8", "surrogatepass")
    if chance.random() < 0.1:
        cut = bytearray(body)
        for _ in range(chance.randint(1, 5)):
            cut[chance.randrange(len(cut))] = chance.randrange(256)
        body = bytes(cut[: chance.randint(1, len(cut))])
    return body


def asked(url: str, thread: int) -> Counter[int]:
    """Send one thread's share over one connection and count the statuses."""
    chance = random.Random(thread)
    found: Counter[int] = Counter()
    with httpx.Client(base_url=url, timeout=30) as client:
        for _ in range(BODIES // THREADS):
            path = chance.choice(["/v1/plans", "/v1/estimates", "/v1/pools"])
            body = mutated(chance)
            status = client.post(path, content=body).status_code
            assert status < 500, body
            found[status] += 1
    return found


@pytest.mark.timeout(300)
def test_20000_random_bodies_get_no_5xx(service_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        found = sum(threads.map(asked, [service_url] * THREADS, range(THREADS)), Counter[int]())
    with capsys.disabled():
        print(f"\nRandom bodies: {found.total()}, statuses {dict(sorted(found.items()))}")
    assert found.total() == BODIES
    # Enough of them get past the reader to reach the planner and the database.
    assert found[200] > BODIES / 20
