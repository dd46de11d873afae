"""A question that names its workload: which version, what the answer and the record say of it."""

import json
from typing import Any

import pytest

from service.capacity.answer import Answer, Input
from service.capacity.canonical import canonical_question, plan_id
from service.capacity.planner import plan
from service.capacity.question import Question
from service.catalog.entries import Catalog
from service.catalog.resolve import resolve
from service.catalog.stored_question import question_of
from service.errors import InvalidDocument, UnknownKey
from service.readers import strict_json
from service.readers.question import AskedQuestion
from tests.fixed_catalog import FIXED, fixed_catalog, version, workload
from tests.questions import answered

QUESTION = {"model": "test/grouped", "gpu": "card", "levers": {"max_model_len": 4096}}


def question(workload: object, catalog: Catalog | None = None) -> Question:
    document = json.dumps(QUESTION | {"workload": workload}).encode()
    return resolve(strict_json.decode(document, AskedQuestion), catalog or fixed_catalog())


def answer(workload: object) -> Answer:
    return plan(question(workload))


def test_the_newest_version_is_used_unless_another_is_pinned() -> None:
    for named, number, requests in (
        ("test_chat", 2, 7),
        ({"key": "test_chat", "version": 2}, 2, 7),
        ({"key": "test_chat", "version": 1}, 1, 5),
        ({"kind": "named", "key": "test_chat", "version": 1}, 1, 5),
    ):
        asked = question(named)
        assert asked.named_workload is not None
        assert asked.named_workload.version == number
        found = plan(asked).workload
        assert found is not None
        assert (found.kind, found.requests) == ("joint", requests)


def test_a_named_workload_holds_what_its_lengths_given_inline_hold() -> None:
    entry = fixed_catalog().workloads.pinned("test_chat", 1)
    inline: dict[str, Any] = workload([[0, 0, 5]])["lengths"]["value"]  # type: ignore[index]  # a figure
    by_name, by_value = answer({"key": "test_chat", "version": 1}), answer(inline)
    assert by_name.users == by_value.users
    assert by_name.workload == by_value.workload
    assert by_name.inputs.workload == Input("test_chat", 1, entry.digest)
    assert by_value.inputs.workload is None


def test_what_is_weak_about_a_named_workload_is_a_caveat_of_the_answer() -> None:
    caveats = {one.code: one.text for one in answer("test_chat").caveats}
    assert caveats["few_rows"] == "test_chat: there are few of them."
    weak = {one.code for one in answered(workload="servegen_m_small").caveats}
    assert {"workload_is_drawn", "workload_misses_clients"} <= weak


def test_the_canonical_question_names_the_workload_by_key_version_and_digest() -> None:
    entry = fixed_catalog().workloads.pinned("test_chat", 2)
    text = canonical_question(question("test_chat")).decode()
    assert text.endswith(f',"workload":{{"digest":"{entry.digest}","key":"test_chat","version":2}}}}')


def test_a_workload_by_its_key_or_its_version_is_the_same_plan_and_another_spec_another() -> None:
    def identity(workload: object, catalog: Catalog | None = None) -> str:
        return plan_id(canonical_question(question(workload, catalog)))

    assert identity("test_chat") == identity({"key": "test_chat", "version": 2})
    inline: dict[str, Any] = workload([[0, 0, 5], [1, 1, 2]])["lengths"]["value"]  # type: ignore[index]  # a figure
    changed = Catalog(3, [*FIXED[:-1], version("workloads", "test_chat", workload([[0, 0, 6]]), 2)])
    others = [identity({"key": "test_chat", "version": 1}), identity(inline), identity("test_chat", changed)]
    assert len({identity("test_chat"), *others}) == 4


def test_an_unknown_key_offers_the_three_nearest() -> None:
    with pytest.raises(UnknownKey, match="there is no workload 'azure-conv-2023' in the catalog") as caught:
        answered(workload="azure-conv-2023")
    assert (caught.value.kind, caught.value.nearest[0]) == ("workload", "azure_conv_2023")
    assert len(caught.value.nearest) == 3
    assert caught.value.faults[0].pointer == "/workload"


def test_a_version_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(UnknownKey, match="test_chat has no version 3; its versions: 1, 2") as caught:
        question({"key": "test_chat", "version": 3})
    assert caught.value.faults[0].pointer == "/workload/version"


@pytest.mark.parametrize(
    ("workload", "pointer", "said"),
    [
        ({"key": "test_chat"}, "/workload/version", "version is required"),
        ({"version": 1}, "/workload/key", "key is required"),
        ({"key": "test_chat", "version": 0}, "/workload/version", "expected `int` >= 1"),
        ({"key": "", "version": 1}, "/workload/key", "length >= 1"),
        ({"key": "test_chat", "version": 1, "tokens": 5}, "/workload/tokens", "there is no field tokens here"),
        ({"kind": "mean", "key": "test_chat"}, "/workload/key", "there is no field key here"),
        ({"tokens": 5}, "/workload/kind", "kind is required"),
        ({}, "/workload/kind", "kind is required"),
        (5, "/workload", "expected"),
    ],
)
def test_what_names_a_workload_is_read_strictly(workload: object, pointer: str, said: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        question(workload)
    fault = caught.value.faults[0]
    assert fault.pointer == pointer
    assert said in fault.detail


def test_a_recorded_question_with_a_named_workload_is_read_again() -> None:
    stored = canonical_question(question("test_chat"))
    again = question_of(stored, fixed_catalog())
    # A start-up has no requests: what is compared with it concerns memory alone.
    assert (again.workload, again.named_workload) == (None, None)
    assert again.levers == question("test_chat").levers
