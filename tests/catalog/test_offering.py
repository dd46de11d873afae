"""Start-ups in memory: which are of a question's deployment, and how many are kept."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from service.api.offered import NAME, headers_of, offer_in
from service.capacity.observed_reserve import KeptBack, conditions_of
from service.capacity.planner import plan
from service.capacity.question import ObservedReserve, Question
from service.capacity.units import Estimate
from service.catalog.bundled import bundled_catalog
from service.catalog.offering import MOST_KNOWN, StartUps, Told, offered
from service.catalog.resolve import resolve
from tests.questions import asked

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
OFFER = ObservedReserve(observation=f"obs_{'a' * 64}", on="2026-11-30", start_ups=3, bytes=Estimate(1, 2, 3))


def resolved() -> Question:
    return resolve(asked(), bundled_catalog())


def told(number: int, amount: int = 0, **changes: Any) -> Told:  # noqa: ANN401 - any field
    """A start-up of the reference deployment, so many seconds after noon."""
    question = resolved()
    fields: dict[str, Any] = {
        "at": NOON + timedelta(seconds=number),
        "model": question.model.key,
        "model_digest": question.model.digest,
        "gpu": question.gpu.key,
        "engine": question.engine.key,
        "tensor_parallel": 1,
        "kept": KeptBack(f"obs_{number}", f"start-up {number}", "2026-11-30", amount, 100, conditions_of(question)),
    }
    return Told(**fields | changes)


def names(known: StartUps) -> list[str]:
    return [one.observation for one in known.of(resolved())]


def test_in_whatever_order_start_ups_come_the_newest_is_first() -> None:
    known = StartUps().beside([told(2), told(1)]).beside([told(3), told(2)])
    assert names(known) == ["obs_3", "obs_2", "obs_1"]
    assert names(known.beside([told(0)])) == ["obs_3", "obs_2", "obs_1", "obs_0"]


def test_nothing_new_makes_no_other_start_ups() -> None:
    known = StartUps([told(1)])
    assert known.beside([told(1)]) is known
    assert known.beside([]) is known


def test_of_many_the_newest_are_kept() -> None:
    known = StartUps(told(number) for number in range(MOST_KNOWN)).beside([told(MOST_KNOWN), told(-1)])
    assert len(names(known)) == MOST_KNOWN
    assert (names(known)[0], names(known)[-1]) == (f"obs_{MOST_KNOWN}", "obs_1")


@pytest.mark.parametrize(
    "changes", [{"model": "other"}, {"gpu": "other"}, {"engine": "other"}, {"tensor_parallel": 2}], ids=str
)
def test_another_deployment_has_its_own(changes: dict[str, Any]) -> None:
    assert names(StartUps([told(1, **changes)])) == []


def test_a_corrected_model_of_the_catalog_keeps_its_start_ups_and_one_given_inline_does_not() -> None:
    known = StartUps([told(1, model_digest="before")])
    assert names(known) == ["obs_1"]
    question = resolved()
    inline = msgspec.structs.replace(question, model=msgspec.structs.replace(question.model, version=None))
    assert known.of(inline) == []


def test_what_is_offered_is_the_middle_and_the_range() -> None:
    known = StartUps([told(1, 7), told(2, 1), told(3, 4)])
    found = offered(resolved(), known.of(resolved()), weights=100)
    assert found == ObservedReserve(observation="obs_3", on="2026-11-30", start_ups=3, bytes=Estimate(1, 4, 7))
    assert offered(resolved(), [], weights=100) is None


GIB = 2**30


@pytest.mark.parametrize(
    ("amounts", "best"),
    [
        # Qwen3-8B on an H100 may use 71.26 GiB, of which a cache of 53.00 leaves 3, and one of 1.20 almost 55.
        ((3 * GIB, 55 * GIB), 55 * GIB),
        ((3 * GIB, 4 * GIB), 3 * GIB + GIB // 2),
        ((3 * GIB, 4 * GIB + 1), 4 * GIB + 1),
        ((3 * GIB, 3 * GIB + GIB // 2, 55 * GIB), 3 * GIB + GIB // 2),
    ],
)
def test_two_that_differ_by_more_than_chance_have_no_middle(amounts: tuple[int, ...], best: int) -> None:
    known = StartUps(told(number, amount) for number, amount in enumerate(amounts))
    found = offered(resolved(), known.of(resolved()), weights=100)
    assert found is not None
    assert found.bytes == Estimate(amounts[0], best, amounts[-1])
    rung = plan(msgspec.structs.replace(resolved(), observed_reserve=found)).ladder[3]
    unlike = len(amounts) == 2 and best == amounts[-1]
    assert rung.source.startswith(
        "the most (they differ by more than chance) of 2" if unlike else f"the middle of {len(amounts)}"
    )


def test_a_header_is_read_as_it_was_written() -> None:
    text = headers_of(OFFER)[NAME]
    assert text == (f'reserve=observed, start-ups=3, low=1, best=2, high=3, on="2026-11-30", newest="obs_{"a" * 64}"')
    assert offer_in(text) == OFFER
    assert headers_of(None) == {}


@pytest.mark.parametrize("change", [("observed", "guessed"), ("low=1", "low=1.5"), ("3,", "x,"), ("obs_a", "obs_\x1b")])
def test_a_header_of_another_form_is_none(change: tuple[str, str]) -> None:
    assert offer_in(headers_of(OFFER)[NAME].replace(*change)) is None
