"""JSON that is refused, and where the pointer leads."""

import json
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidDocument, MalformedJson
from service.readers import strict_json
from service.readers.question import AskedLevers, AskedQuestion
from tests.questions import REFERENCE

BODY = json.dumps(REFERENCE)


def refusal(body: str | bytes) -> tuple[str, str]:
    with pytest.raises((MalformedJson, InvalidDocument)) as caught:
        strict_json.decode(body if isinstance(body, bytes) else body.encode(), AskedQuestion)
    error = caught.value
    if isinstance(error, MalformedJson):
        return error.fault.pointer, error.fault.detail
    assert isinstance(error, InvalidDocument)
    fault = error.faults[0]
    return fault.pointer, fault.detail


def test_the_reference_question_is_read() -> None:
    question = strict_json.decode(BODY.encode(), AskedQuestion)
    assert question.levers == AskedLevers(max_model_len=8192)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        pytest.param('{"model": "a", "model": "b", "gpu": "c"}', "/model", id="a key twice"),
        pytest.param('{"model": "a", "gpu": "c", "levers": {"a/b": 1, "a/b": 1}}', "/levers/a~1b", id="deeper"),
        pytest.param('{"model": "a", "gpu": "c", "levers": {"x": 1, "\\u0078": 2}}', "/levers/x", id="escaped alike"),
        pytest.param('{"model": "a", "gpu": "c", "risk": NaN}', "/risk", id="NaN"),
        pytest.param('{"model": "a", "gpu": "c", "levers": {"x": [1, -Infinity]}}', "/levers/x/1", id="infinity"),
        pytest.param('{"model": "a\\u0000", "gpu": "c"}', "/model", id="U+0000"),
        pytest.param('{"model": "a", "gpu": "c", "labels": {"k\\u0000": "v"}}', "/labels", id="U+0000 in a key"),
        pytest.param('{"model": "a\\ud800", "gpu": "c"}', "/model", id="half a surrogate pair"),
        pytest.param('{"model": "a", "gpu": "c", "risk": 1e400}', "/risk", id="a number past the range"),
    ],
)
def test_what_readers_disagree_on_is_refused_with_a_pointer(body: str, pointer: str) -> None:
    assert refusal(body)[0] == pointer


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"{",
        b'{"model": "a"} x',
        b"\xff\xfe{\x00}\x00",
        b'{"model": "\xc3\x28"}',
        b"[" * 100_000,
        b"9" * 5000,
    ],
)
def test_what_is_not_json_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedJson):
        strict_json.decode(body, AskedQuestion)


@pytest.mark.parametrize(
    ("levers", "pointer"),
    [
        ('{"max_model_len": "8192"}', "/levers/max_model_len"),
        ('{"max_model_len": 8192.0}', "/levers/max_model_len"),
        ('{"max_model_len": true}', "/levers/max_model_len"),
        ('{"max_model_len": 0}', "/levers/max_model_len"),
        ('{"max_model_len": 99999999999999999999}', "/levers/max_model_len"),
        ('{"gpu_memory_utilization": 1.01}', "/levers/gpu_memory_utilization"),
        ('{"gpu_memory_utilization": 0}', "/levers/gpu_memory_utilization"),
        ('{"kv_cache_dtype": "fp7"}', "/levers/kv_cache_dtype"),
        ('{"kv_cache_typ": "fp8"}', "/levers/kv_cache_typ"),
        ('{"pipeline_paralel": 2}', "/levers/pipeline_paralel"),
    ],
)
def test_a_wrong_lever_is_pointed_at(levers: str, pointer: str) -> None:
    assert refusal(f'{{"model": "a", "gpu": "b", "levers": {levers}}}')[0] == pointer


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ("[]", ""),
        ('{"gpu": "b"}', "/model"),
        ('{"model": 1, "gpu": "b"}', "/model"),
        ('{"model": {"key": "a"}, "gpu": "b"}', "/model"),
        ('{"model": "a", "gpu": "b", "workload": {"kind": "rows", "rows": [[1, 2], [0, 2]]}}', "/workload/rows/1/0"),
        ('{"model": "a", "gpu": "b", "workload": {"kind": "rows", "rows": [[1, 2, 3]]}}', "/workload/rows/0"),
        ('{"model": "a", "gpu": "b", "workload": {"kind": "row"}}', "/workload/kind"),
        ('{"model": "a", "gpu": "b", "labels": {"a": "b", "Team": "x"}}', "/labels/Team"),
        ('{"model": "a", "gpu": "b", "labels": {"a": "b", "c/d": "x"}}', "/labels/c~1d"),
        ('{"model": "a", "gpu": "b", "labels": {"a": "b", "team": 1}}', "/labels/team"),
        ('{"model": "a", "gpu": "b", "labels": {"team\\n": "x"}}', ""),
    ],
)
def test_a_wrong_shape_is_pointed_at(body: str, pointer: str) -> None:
    assert refusal(body)[0] == pointer


def test_a_wrong_value_of_a_free_key_inside_a_list_is_pointed_at() -> None:
    result = (
        '{"prompt": {"status": "success", "data": {"resultType": "vector", "result": [{}, {"metric": {"pod": 2}}]}}}'
    )
    body = f'{{"model": "a", "gpu": "b", "workload": {{"kind": "prometheus", "result": {result}}}}}'
    assert refusal(body)[0] == "/workload/result/prompt/data/result/1/metric/pod"


def test_all_faults_of_a_document_are_named_and_say_what_is_expected() -> None:
    levers = '{"kv_cache_dtype": "fp9", "block_size": "a", "speed": 1}'
    with pytest.raises(InvalidDocument) as caught:
        strict_json.decode(f'{{"model": "a", "gpu": "b", "levers": {levers}}}'.encode(), AskedQuestion)
    assert [(fault.pointer, fault.detail[:55]) for fault in caught.value.faults] == [
        ("/levers/kv_cache_dtype", "'fp9' is none of: auto, bf16, fp16, fp32, fp8, fp8_ds_m"),
        ("/levers/block_size", "expected `int | null`, got `str`"),
        ("/levers/speed", "there is no field speed here; fields: max_model_len, kv"),
    ]


@pytest.mark.parametrize("depth", [300, 500, 985, 2000])
def test_nesting_is_refused_at_any_depth(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    for place in (f'"x": {deep}', f'"levers": {{"block_size": {deep}}}'):
        refusal(f'{{"model": "a", "gpu": "b", {place}}}')


def test_a_missing_field_is_named() -> None:
    assert refusal('{"gpu": "b"}') == ("/model", "model is required")


def test_a_workload_of_no_kind_is_told_the_kinds() -> None:
    body = '{"model": "a", "gpu": "b", "workload": {"kind": "row"}}'
    assert refusal(body) == (
        "/workload/kind",
        "'row' is none of: mean, total, joint, rows, marginals, prometheus, named",
    )


def test_one_key_twice_among_a_hundred_thousand_is_found() -> None:
    # A look at all keys for each key would take minutes.
    keys = ",".join(f'"k{number}":1' for number in range(100_000))
    assert refusal(f'{{{keys},"k99999":1}}') == ("/k99999", "comes twice; write it once")


def test_the_search_for_a_place_takes_no_more_memory_than_the_document() -> None:
    # A pointer for every place, under a key of 30,000 characters, would take 900 MB.
    body = f'{{"{"A" * 30_000}": [{",".join("0" * 30_000)}], "x": "\\u0041"}}'.encode()
    tracemalloc.start()
    try:
        strict_json.read(body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(body)


@given(st.sampled_from([field.name for field in msgspec.structs.fields(AskedLevers)]), st.text(max_size=20))
def test_a_number_in_quotes_is_never_a_number(lever: str, text: str) -> None:
    if lever in {"kv_cache_dtype", "weight_dtype"}:
        return
    with pytest.raises(InvalidDocument):
        strict_json.convert({"model": "a", "gpu": "b", "levers": {lever: text}}, AskedQuestion)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_any_json_is_read_or_refused_and_never_crashes(value: object) -> None:
    with pytest.raises((MalformedJson, InvalidDocument)):
        strict_json.decode(json.dumps(value).encode(), AskedQuestion)


def test_a_wrong_label_beside_something_deep_is_pointed_at_as_well_as_can_be() -> None:
    deep = "[" * 700 + "]" * 700
    assert refusal(f'{{"model": "a", "gpu": "b", "labels": {{"a": 1}}, "x": {deep}}}')[0].startswith("/labels")


def test_infinity_is_a_number_only_where_python_may_have_written_it() -> None:
    with pytest.raises(MalformedJson, match="Infinity is not a JSON number"):
        strict_json.read(b'{"a": Infinity}')
    assert strict_json.read(b'{"a": [0.0, Infinity]}', with_infinity=True) == {"a": [0.0, float("inf")]}
    with pytest.raises(MalformedJson, match="NaN is not a JSON number"):
        strict_json.read(b'{"a": NaN}', with_infinity=True)
