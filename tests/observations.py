"""Start-ups for tests: of the engine `generic`, whose figures never change, and logs of real lines."""

from typing import Any

from tests.start_up_logs import FOLDER

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
WEIGHTS = 16_060_522_496
KV = 57_686_981_017
"""Bytes of cache that the reference question predicts."""


def of_generic(sequences: int, **fields: object) -> dict[str, Any]:
    """A start-up of the reference question, told from others by how many sequences may run at once."""
    return {
        "question": {
            "model": LLAMA,
            "gpu": "h100-sxm-80gb",
            "levers": {"max_model_len": 8192, "max_num_seqs": sequences},
        },
        "fields": {"weights": WEIGHTS, "kv_cache": KV} | fields,
    }


LOG = (FOLDER / "vllm-0.10.2-llama-3.1-8b-h100.log").read_text(encoding="utf-8")

LOGGED: dict[str, Any] = {
    "model": LLAMA,
    "gpu": "h100-sxm-80gb",
    "engine": "vllm@0.10",
    "levers": {"max_model_len": 8192, "max_num_batched_tokens": 8192, "gpu_memory_utilization": 0.9},
}
"""The question that the log is of."""
