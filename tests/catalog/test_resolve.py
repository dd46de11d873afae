"""Names to pinned versions, defaults written out, and the id that equal questions share."""

import pytest

from service.capacity.canonical import canonical_question, plan_id
from service.catalog.bundled import bundled_catalog
from service.catalog.entries import Catalog
from service.catalog.resolve import resolve
from service.errors import UnknownKey
from service.readers import strict_json
from service.readers.question import AskedQuestion
from tests.fixed_catalog import FIXED, fixed_catalog, gpu, version
from tests.questions import asked

QUESTION = {"model": "test/grouped", "gpu": "card"}

DEFAULTS = {
    "max_model_len": 131_072,
    "kv_cache_dtype": "auto",
    "weight_dtype": "auto",
    "gpu_memory_utilization": 0.9,
    "tensor_parallel": 1,
    "data_parallel": 1,
    "block_size": 16,
    "max_num_seqs": None,
    "kv_cache_memory_bytes": None,
    "reserve_bytes": 3_221_225_472,
    "other_process_bytes": 0,
    "kv_heads": None,
}


def identity(**changes: object) -> str:
    question = strict_json.convert(QUESTION | changes, AskedQuestion)
    return plan_id(canonical_question(resolve(question, fixed_catalog())))


def test_the_newest_version_is_used_unless_another_is_pinned() -> None:
    catalog = fixed_catalog()
    newest = resolve(strict_json.convert(QUESTION, AskedQuestion), catalog)
    first = QUESTION | {"gpu": {"key": "card", "version": 1}}
    assert newest.gpu.version == 2
    assert resolve(strict_json.convert(first, AskedQuestion), catalog).gpu.version == 1


def test_defaults_left_out_or_written_out_are_the_same_plan() -> None:
    plan = identity()
    assert plan == identity(levers={}, engine="generic", risk=0.01, targets=None, workload=None)
    assert plan == identity(levers=DEFAULTS)
    assert plan == identity(model={"key": "test/grouped", "version": 1}, gpu={"key": "card", "version": 2})


def test_labels_do_not_belong_to_the_plan() -> None:
    assert identity() == identity(labels={"team": "chat"})


def test_what_belongs_to_the_question_makes_another_plan() -> None:
    others = [
        identity(gpu={"key": "card", "version": 1}),
        identity(risk=0.05),
        identity(targets={"users": 1}),
        identity(levers={"kv_cache_dtype": "bf16"}),
        identity(workload={"kind": "mean", "tokens": 5}),
    ]
    assert len({identity(), *others}) == 6


def test_another_spec_under_the_same_version_is_another_plan() -> None:
    def with_a_card_of(memory: int) -> str:
        catalog = Catalog(1, [*FIXED[:1], *FIXED[4:], version("gpus", "card", gpu(memory))])
        question = strict_json.convert(QUESTION, AskedQuestion)
        return plan_id(canonical_question(resolve(question, catalog)))

    assert with_a_card_of(80 * 10**9) != with_a_card_of(81 * 10**9)


def test_rows_in_another_order_are_another_plan() -> None:
    one = identity(workload={"kind": "rows", "rows": [[2, 1], [1, 1]]})
    assert one != identity(workload={"kind": "rows", "rows": [[1, 1], [2, 1]]})


def test_a_histogram_in_another_order_is_the_same_plan() -> None:
    bins = [{"upper": 512, "count": 1}, {"upper": 2048, "count": 2}]
    one = identity(workload={"kind": "total", "bins": bins})
    assert one == identity(workload={"kind": "total", "bins": [*reversed(bins), {"upper": 2048, "count": 0}]})


def test_the_canonical_question_has_sorted_keys_no_spaces_and_every_default() -> None:
    question = strict_json.convert(QUESTION | {"gpu": {"key": "card", "version": 1}}, AskedQuestion)
    text = canonical_question(resolve(question, fixed_catalog())).decode()
    assert text.startswith('{"draft_model":null,"engine":{"digest":"')
    assert (
        '"levers":{"accepted_tokens":1.0,"block_size":16,"data_parallel":1,"decode_context_parallel":1,"enable_prefix_caching":false,"enforce_eager":false,'
        '"expert_parallel":false,"gpu_memory_utilization":0.9,"indexer_kv_dtype":"auto","kv_cache_dtype":"auto",'
        '"kv_cache_dtype_skip_layers":[],"kv_cache_memory_bytes":null,"kv_heads":null,"language_model_only":false,"max_lora_rank":16,"max_loras":0,"max_model_len":131072,'
        '"max_num_batched_tokens":null,"max_num_seqs":null,"other_process_bytes":0,"pipeline_layers":null,"pipeline_parallel":1,'
        '"reserve_bytes":3221225472,"shared_prefix_tokens":0,"speculative_tokens":0,"tensor_parallel":1,"weight_dtype":"auto"}'
    ) in text
    assert text.endswith('"planner":3,"risk":0.01,"sessions":null,"targets":null,"tau":null,"workload":null}')


def test_an_unknown_key_offers_the_three_nearest() -> None:
    with pytest.raises(UnknownKey) as caught:
        resolve(asked(model="meta-llama/llama-3.1-8b-instruct"), bundled_catalog())
    assert caught.value.nearest[0] == "meta-llama/Llama-3.1-8B-Instruct"
    assert len(caught.value.nearest) == 3
    with pytest.raises(UnknownKey) as caught:
        resolve(asked(gpu="h100-80gb"), bundled_catalog())
    assert set(caught.value.nearest) >= {"h100-sxm-80gb", "h100-pcie-80gb"}


def test_a_version_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(UnknownKey, match="card has no version 3; its versions: 1, 2"):
        identity(gpu={"key": "card", "version": 3})
