"""Fitting engines to stored start-ups: what can't be is left out by name, and one engine hinders no other."""

from datetime import UTC, datetime
from typing import Any

import pytest

from service.catalog import fitting
from service.catalog.bundled import bundled_versions
from service.catalog.entries import Catalog
from service.catalog.fitting import Fit, StartUp, fit
from service.catalog.observing import noted_of_planned
from service.catalog.planning import planned
from service.readers import strict_json
from service.readers.observation import AskedFields, AskedObservation, read_observation
from service.readers.question import AskedQuestion

CATALOG = Catalog(1, bundled_versions())


def start_up(engine: str = "vllm@0.14", **fields: Any) -> StartUp:  # noqa: ANN401 - any field
    """Qwen3-8B on an H100, of whose 79.18 GiB vLLM may use 71.26: weights are 15.30 GiB."""
    document = {"model": "Qwen/Qwen3-8B", "gpu": "h100-sxm-80gb", "engine": engine, "levers": {"max_model_len": 8192}}
    made = planned(strict_json.convert(document, AskedQuestion), CATALOG)
    given = strict_json.convert({"weights": "15.27 GiB"} | fields, AskedFields)
    reading = read_observation(AskedObservation(plan=made.id, fields=given))
    at = datetime(2026, 11, 30, tzinfo=UTC)
    noted = noted_of_planned(made, made.answer_bytes, reading=reading, catalog=CATALOG, at=at)
    return StartUp(noted.observation.observation, noted.content, made.question_bytes)


def fitted(*start_ups: StartUp, engine: str = "vllm@0.14", catalog: Catalog = CATALOG) -> Fit:
    return fit(engine, start_ups, catalog)


def test_a_start_up_that_kept_back_less_than_nothing_is_left_out_by_name() -> None:
    # 71.26 - 15.27 - 56.00 is -0.01: more than nothing on a card that has a little more than others of its name.
    nothing, sound = start_up(kv_cache="56.00 GiB"), start_up(kv_cache="50.00 GiB")
    found = fitted(nothing, sound)
    assert found.impossible == (nothing.observation,)
    assert found.faults == ()
    assert found.proposal is not None
    assert found.proposal.observations == (sound.observation,)
    assert fitted(nothing) == Fit(key="vllm@0.14", proposal=None, impossible=(nothing.observation,))


def test_a_start_up_whose_overhead_no_catalog_holds_is_left_out_by_name() -> None:
    # 71.26 - 15.27 - 55.50 is 0.49 GiB, 5.35 less than the 5.84 that are planned with an overhead of a few hundred MiB.
    little, sound = start_up(kv_cache="55.50 GiB"), start_up(kv_cache="50.00 GiB")
    found = fitted(little, sound)
    assert found.impossible == (little.observation,)
    assert found.proposal is not None


def test_an_engine_that_can_not_be_fitted_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "engine_faults", lambda key, _: [f"{key} isn't sound"])
    found = fitted(start_up(kv_cache="50.00 GiB"))
    assert found.proposal is None
    assert [fault.detail for fault in found.faults] == ["vllm@0.14: vllm@0.14 isn't sound"]


def test_an_engine_that_the_catalog_lacks_says_so() -> None:
    found = fitted(engine="vllm@0.1")
    assert found.proposal is None
    assert "vllm@0.1" in found.faults[0].detail
