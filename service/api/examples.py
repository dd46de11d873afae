"""The reference example, as the OpenAPI document, the pages and `make up` show it."""

EXAMPLE_QUESTION: dict[str, object] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu": "h100-sxm-80gb",
    "levers": {"max_model_len": 8192},
    "workload": {"kind": "mean", "tokens": 2300},
}
