"""A small catalog that never changes, for tests that hold whole answers: the bundled one grows with every release."""

from typing import Any

import msgspec

from service.capacity.engine import BlockRules
from service.catalog.entries import Catalog, Kind, Version, canonical, digest_of


def figure(value: object) -> dict[str, object]:
    return {"value": value, "source": "made up for tests", "confidence": "high"}


def model(full_layers: int, kv_heads: int, parts: list[tuple[int, str]], **changes: object) -> dict[str, object]:
    return {
        "architecture": "TestForCausalLM",
        "dtype": figure("bfloat16"),
        "hidden_size": None,
        "vocab_size": None,
        "query_heads": figure(32),
        "max_position_embeddings": figure(131_072),
        "caches": figure(
            [{"kind": "full", "layers": full_layers, "kv_heads": kv_heads, "key_dim": 128, "value_dim": 128}]
        ),
        "parameters": figure(sum(count for count, _ in parts)),
        "weights": figure(
            [
                {"name": f"part {index}", "parameters": count, "dtype": dtype, "follows_weight_dtype": index == 0}
                for index, (count, dtype) in enumerate(parts)
            ]
        ),
        "notes": None,
        **changes,
    }


def gpu(memory: int | None, certainty: str = "measured", capability: str | None = None) -> dict[str, object]:
    nothing: dict[str, Any] = dict.fromkeys(
        (
            "compute_capability",
            "memory_type",
            "memory_bandwidth_gb_s",
            "dense_bf16_tflops",
            "dense_fp8_tflops",
            "dense_fp4_tflops",
            "dense_int8_tops",
            "fp8_native",
            "fp4_native",
            "interconnect",
            "interconnect_bidirectional_gb_s",
            "tdp_w",
            "typical_gpus_per_node",
        )
    )
    reported = {"bytes": figure(memory), "reader": "the test", "certainty": certainty}
    return nothing | {
        "compute_capability": capability,
        "name": "Test GPU",
        "vendor": "NVIDIA",
        "architecture": "Test",
        "nominal_memory_gb": figure(80),
        "reported_memory": None if memory is None else reported,
        "visible_memory": None
        if memory is None
        else {"bytes": figure(memory), "low": memory, "high": memory, "certainty": certainty},
        "devices_per_package": 1,
        "notes": "memory unknown" if memory is None else None,
    }


ENGINE = {
    "gpu_memory_utilization": figure(0.9),
    "reserve_bytes": figure(3 * 2**30),
    "block_size": figure(16),
    "notes": None,
}


RULED = ENGINE | {
    "reserve_bytes": None,
    "max_num_batched_tokens": figure({"tiers": [[0, 2048], [70 * 2**30, 8192]], "small_too": []}),
    "block_rules": {
        "null_block": True,
        "layouts": {"PackedForCausalLM": "packed", "TupledForCausalLM": "tuples"},
        "uneven_pages": "raise",
        "batches_in_flight": figure(2),
        "state_copies_for_prefix_caching": figure(value=True),
        "checkpoint_blocks": 0,
        "printed_tokens": "concurrency",
        "latents_as_heads": False,
        "latent_block_size": {"10": 32},
        "latent_alignment": 128,
        "dtype_defaults": [{"architecture": "SparseForCausalLM", "generation": 10, "dtype": "fp8"}],
    },
}
"""An engine with groups and a null block, whose reserve nobody knows."""

RULES = msgspec.convert(RULED["block_rules"], BlockRules)


def version(kind: Kind, key: str, spec: object, number: int = 1) -> Version:
    spec_bytes = canonical(spec)
    return Version(
        kind=kind,
        key=key,
        version=number,
        revision=number,
        spec=spec_bytes,
        digest=digest_of(spec_bytes),
        source="made up for tests",
    )


def caches(*kinds: dict[str, object]) -> dict[str, object]:
    return {"layers": figure(40), "caches": figure(kinds)}


FULL = {"kind": "full", "layers": 10, "kv_heads": 2, "key_dim": 256, "value_dim": 256, "at": [[3, 40, 4]]}
WINDOWS = {"kind": "sliding_window", "layers": 30, "kv_heads": 2, "key_dim": 256, "value_dim": 256, "window": 1024}
STATES = {
    "kind": "gated_delta_net",
    "layers": 30,
    "key_heads": 16,
    "value_heads": 32,
    "key_dim": 128,
    "value_dim": 128,
    "conv_kernel": 4,
    "state_dtype": "fp32",
}
BESIDES = [[0, 40, 4], [1, 40, 4], [2, 40, 4]]
LATENT = {"kind": "latent", "layers": 40, "latent_dim": 512, "rope_dim": 64}
INDEX = {"kind": "index_keys", "layers": 40, "key_dim": 128, "stored": "fp8"}
EXPERTS: list[dict[str, object]] = [
    {"name": "embeddings", "parameters": 10**9, "dtype": "bf16", "follows_weight_dtype": False, "stage": "first"},
    {"name": "layers", "parameters": 4 * 10**9, "dtype": "bf16", "follows_weight_dtype": True},
    {"name": "keys and values", "parameters": 10**8, "dtype": "bf16", "follows_weight_dtype": True, "most_shards": 2},
    {"name": "norms", "parameters": 10**6, "dtype": "bf16", "follows_weight_dtype": False, "most_shards": 1},
    {"name": "experts", "parameters": 60 * 10**9, "dtype": "nvfp4", "follows_weight_dtype": True, "experts": 64},
    {"name": "head", "parameters": 10**9, "dtype": "bf16", "follows_weight_dtype": False, "stage": "last"},
    {"name": "tower", "parameters": 5 * 10**8, "dtype": "bf16", "follows_weight_dtype": False, "stage": "first",
     "needed": "multimodal"},
    {"name": "draft", "parameters": 2 * 10**8, "dtype": "bf16", "follows_weight_dtype": False, "stage": "last",
     "needed": "drafting"},
]  # fmt: skip


def workload(counts: list[list[int]], **changes: object) -> dict[str, object]:
    """Cells of prompts up to 64 and 81 tokens, and of outputs up to 16 and 20."""
    lengths = {"kind": "joint", "prompt_edges": [0, 64, 81], "output_edges": [0, 16, 20], "counts": counts}
    return {
        "about": "Requests for tests.",
        "licence": "MIT",
        "attribution": "Nobody, under MIT. Changed: made up.",
        "requests": figure(sum(count for _, _, count in counts)),
        "mean_prompt_tokens": figure(50.0),
        "mean_output_tokens": figure(12.0),
        "lengths": figure(lengths),
        "caveats": [{"code": "few_rows", "text": "there are few of them."}],
        **changes,
    }


FIXED = (
    version("engines", "generic", ENGINE),
    version("engines", "ruled@1", RULED),
    version("gpus", "card", gpu(85_520_809_984)),
    version("gpus", "card", gpu(90_000_000_000, "assumed"), 2),
    version("gpus", "mystery", gpu(None)),
    version("gpus", "small", gpu(24 * 10**9, capability="8.9")),
    version("gpus", "hopper", gpu(85_520_809_984, capability="9.0")),
    version("gpus", "blackwell", gpu(191_000_000_000, capability="10.0")),
    version("gpus", "workstation", gpu(100_000_000_000, capability="12.0")),
    version("models", "test/grouped", model(32, 8, [(8_030_261_248, "bf16")])),
    version("models", "test/multi-head", model(32, 32, [(7 * 10**9, "fp16")], dtype=figure("float16"))),
    version("models", "test/mixed", model(94, 4, [(230 * 10**9, "fp8"), (10**9, "bf16")], dtype=None)),
    version("models", "test/windows", model(40, 2, [(10**9, "bf16")], **caches(FULL, WINDOWS | {"at": BESIDES}))),
    version(
        "models",
        "test/windows-last",
        model(40, 2, [(10**9, "bf16")], **caches(FULL | {"at": [[0, 10, 1]]}, WINDOWS | {"at": [[10, 40, 1]]})),
    ),
    version(
        "models",
        "test/states",
        model(
            40,
            2,
            [(10**9, "bf16")],
            **caches(FULL, STATES | {"at": BESIDES}),
            draft_caches=figure([FULL | {"layers": 1, "at": [[40, 41, 1]]}]),
        ),
    ),
    version(
        "models",
        "test/sparse",
        model(40, 2, [(10**9, "bf16")], **caches(LATENT | {"sparse": True}, INDEX), architecture="SparseForCausalLM"),
    ),
    version("models", "test/latent", model(40, 2, [(10**9, "bf16")], **caches(LATENT))),
    version(
        "models",
        "test/scheme",
        model(40, 2, [(10**9, "bf16")], **caches(FULL | {"layers": 40, "at": []}), kv_cache_scheme=figure("fp8")),
    ),
    version(
        "models", "test/experts", model(40, 2, [], **caches(FULL | {"layers": 40, "at": []}), weights=figure(EXPERTS))
    ),
    version("models", "test/half", model(40, 2, [(15 * 10**9, "bf16")], **caches(FULL | {"at": [[0, 10, 1]]}))),
    version(
        "models",
        "test/placed",
        model(
            40,
            2,
            [],
            **caches(FULL | {"layers": 40, "at": []}),
            weights=figure(
                [
                    {"name": "layers", "parameters": 10**9, "dtype": "bf16", "follows_weight_dtype": True},
                    {
                        "name": "experts",
                        "parameters": 10**9,
                        "dtype": "bf16",
                        "follows_weight_dtype": True,
                        "experts": 8,
                        "at": [[10, 40, 1]],
                    },
                ]
            ),
        ),
    ),
    version(
        "models",
        "test/tuples",
        model(
            40,
            2,
            [(10**9, "bf16")],
            **caches(
                {"kind": "latent_window", "layers": 40, "latent_dim": 512, "window": 128, "block": 64},
                {
                    "kind": "compressed_latent",
                    "layers": 20,
                    "latent_dim": 512,
                    "tokens_per_vector": 4,
                    "at": [[0, 40, 2]],
                },
            ),
            architecture="TupledForCausalLM",
        ),
    ),
    version(
        "models",
        "test/lora",
        model(
            32,
            2,
            [(10**9, "bf16")],
            lora=figure({"whole": 1000, "divided": 4000, "keys_and_values": 100, "kv_heads": 2}),
        ),
    ),
    version(
        "models",
        "test/ends",
        model(
            32,
            2,
            [],
            weights=figure(
                [{**EXPERTS[0], "follows_weight_dtype": True}, {**EXPERTS[1], "follows_weight_dtype": True}]
            ),
        ),
    ),
    version("workloads", "test_chat", workload([[0, 0, 5]])),
    version("workloads", "test_chat", workload([[0, 0, 5], [1, 1, 2]]), 2),
)


def fixed_catalog() -> Catalog:
    return Catalog(2, FIXED)
