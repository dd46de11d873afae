"""A small catalog that never changes, for tests that hold whole answers: the bundled one grows with every release."""

from typing import Any

from service.catalog.entries import Catalog, Kind, Version, canonical, digest_of


def figure(value: object) -> dict[str, object]:
    return {"value": value, "source": "made up for tests", "confidence": "high"}


def model(layers: int, kv_heads: int, parts: list[tuple[int, str]], **changes: object) -> dict[str, object]:
    return {
        "architecture": "TestForCausalLM",
        "dtype": figure("bfloat16"),
        "hidden_size": None,
        "vocab_size": None,
        "query_heads": figure(32),
        "max_position_embeddings": figure(131_072),
        "caches": figure([{"kind": "full", "layers": layers, "kv_heads": kv_heads, "key_dim": 128, "value_dim": 128}]),
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


def gpu(memory: int | None, certainty: str = "measured") -> dict[str, object]:
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
        "name": "Test GPU",
        "vendor": "NVIDIA",
        "architecture": "Test",
        "nominal_memory_gb": figure(80),
        "reported_memory": None if memory is None else reported,
        "devices_per_package": 1,
        "notes": "memory unknown" if memory is None else None,
    }


ENGINE = {
    "gpu_memory_utilization": figure(0.9),
    "reserve_bytes": figure(3 * 2**30),
    "block_size": figure(16),
    "notes": None,
}


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


FIXED = (
    version("engines", "generic", ENGINE),
    version("gpus", "card", gpu(85_520_809_984)),
    version("gpus", "card", gpu(90_000_000_000, "assumed"), 2),
    version("gpus", "mystery", gpu(None)),
    version("models", "test/grouped", model(32, 8, [(8_030_261_248, "bf16")])),
    version("models", "test/multi-head", model(32, 32, [(7 * 10**9, "fp16")], dtype=figure("float16"))),
    version("models", "test/mixed", model(94, 4, [(230 * 10**9, "fp8"), (10**9, "bf16")], dtype=None)),
)


def fixed_catalog() -> Catalog:
    return Catalog(2, FIXED)
