"""Reserves of start-ups that were recorded: taken where a question asks for that, and offered where it doesn't."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from service.capacity.answer import Answer
from service.capacity.observed_reserve import (
    KeptBack,
    beside,
    conditions_of,
    differing,
    observed_from,
    without_release,
)
from service.capacity.planner import plan
from service.capacity.question import ObservedReserve, Question
from service.errors import Fault, Refused
from service.readers.question import AskedQuestion

MOST_KNOWN = 5000
"""Start-ups that are kept in memory: the newest so many."""


class Told(NamedTuple):
    """What a recorded start-up kept back, and the deployment that it is of."""

    at: datetime
    model: str
    model_digest: str
    gpu: str
    engine: str
    tensor_parallel: int
    kept: KeptBack


class StartUps:
    """Start-ups that said what was kept back, in memory. Never changed: `beside` makes another."""

    def __init__(self, told: Iterable[Told] = ()) -> None:
        """Keep the newest of them."""
        newest_first = sorted(told, key=lambda one: (one.at, one.kept.observation), reverse=True)[:MOST_KNOWN]
        self._told = {one.kept.observation: one for one in newest_first}
        self._of: dict[tuple[str, str, str, int], list[Told]] = defaultdict(list)
        for one in newest_first:
            self._of[one.model, one.gpu, one.engine, one.tensor_parallel].append(one)

    def beside(self, told: Iterable[Told]) -> "StartUps":
        """Those and these, each once."""
        more = [one for one in told if one.kept.observation not in self._told]
        return StartUps((*self._told.values(), *more)) if more else self

    def of(self, question: Question) -> list[KeptBack]:
        """What start-ups of the question's deployment kept back, newest first."""
        model = question.model
        found = self._of.get((model.key, question.gpu.key, question.engine.key, question.levers.tensor_parallel), ())
        # Given inline: models of one architecture share a key.
        return [one.kept for one in found if model.version is not None or one.model_digest == model.digest]


def takes_the_engines_own(asked: AskedQuestion) -> bool:
    """Whether a question leaves the reserve to the engine, and the reserve has a say in its answer."""
    levers = asked.levers
    given = levers is not None and (levers.reserve_bytes is not None or levers.kv_cache_memory_bytes is not None)
    return asked.reserve is None and not given


def planned_weights(answer: Answer) -> int:
    """What an answer plans for the weights on its tightest rank, in bytes."""
    return next(rung.value for rung in answer.ladder if rung.name == "weights")


def offered(question: Question, start_ups: Sequence[KeptBack], *, weights: int) -> ObservedReserve | None:
    """What start-ups of the same deployment, newest first, come to; null where none was started as the question says.

    `weights` are those that are planned for the question today. Each counts once, of however many plans it was told.
    """
    conditions = conditions_of(question)
    same: dict[tuple[str, str], KeptBack] = {}
    for one in start_ups:
        if without_release(one.conditions) == conditions:
            same.setdefault((one.start_up, one.conditions), one)
    if not same:
        return None
    # Of an engine whose key names no release, those of the newest's minor version.
    newest = next(iter(same.values()))
    alike = (one for one in same.values() if one.conditions == newest.conditions)
    return observed_from([beside(one, question, weights) for one in alike])


def reserve_from(question: Question, start_ups: Sequence[KeptBack]) -> ObservedReserve:
    """What start-ups of the same deployment come to, newest first.

    Raises `Refused` where there is none, or only some that were started otherwise: their reserve is another one.
    """
    if start_ups:
        # Whatever the amount is, it takes the place of a rule that may not know this deployment.
        stand_in = msgspec.structs.replace(question, observed_reserve=observed_from(start_ups))
        found = offered(question, start_ups, weights=planned_weights(plan(stand_in)))
        if found is not None:
            return found
    about = (
        f"{question.model.key} on {question.gpu.key} with {question.engine.key} at tensor_parallel"
        f" {question.levers.tensor_parallel}"
    )
    if not start_ups:
        detail = f"no start-up of {about} is recorded that says what was kept back; POST /v1/observations records one"
        raise Refused(Fault("/reserve", detail))
    unlike = differing(without_release(start_ups[0].conditions), conditions_of(question))
    raise Refused(Fault("/reserve", f"start-ups of {about} are recorded, but with {unlike}: their reserve is another"))
