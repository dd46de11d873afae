"""Facts of a start-up that contradict the question that it is said to be of: another start-up than was asked about.

What a log doesn't state contradicts nothing, and is named: a reserve that is learned stands on what was stated.
"""

import re
from collections.abc import Iterator

from service.capacity.memory import memory_of
from service.capacity.question import Question
from service.catalog.contradicted_formats import contradicted_formats
from service.catalog.contradicted_levers import LEVERS, contradicted_levers
from service.catalog.entries import Catalog
from service.errors import Fault
from service.readers.observation import Reading, checkpoint_name
from service.readers.start_up_log.facts import Deployment

_SAME_CARD = 20
"""Cards of one name differ by up to a hundredth; one that shows a twentieth more or less is another card."""


def contradictions(question: Question, reading: Reading, catalog: Catalog) -> list[Fault]:
    """List each fact that says something else, with the place in the question that it contradicts."""
    faults = [*_engine(question, reading, catalog), *_card(question, reading)]
    if reading.log is not None:
        told = reading.log.deployment
        faults += [*_model(question, told, catalog), *contradicted_levers(question, reading, reading.log)]
        faults += contradicted_formats(question, reading.log)
    return faults


def not_stated(reading: Reading) -> tuple[str, ...]:
    """Name what the start-up doesn't say of its deployment, in the names of the question."""
    told = Deployment() if reading.log is None else reading.log.deployment
    said = {name for name in Deployment.__struct_fields__ if getattr(told, name) is not None}
    if told.memory_fraction is not None:
        said.add("gpu_memory_utilization")
    if reading.observed.version is not None:
        said.add("version")
    if told.enable_lora is not None:
        said.add("max_loras")
    names = ("version", "model", *LEVERS, "max_loras", "gpu_memory_utilization", "kv_cache_dtype")
    return tuple(name for name in names if name not in said)


def _engine(question: Question, reading: Reading, catalog: Catalog) -> Iterator[Fault]:
    """The release by its version: the catalog's closest one, as 0.11.0 has an entry beside 0.11."""
    asked, version = question.engine.key, reading.observed.version
    name = asked.partition("@")[0] if reading.log is None else reading.log.engine
    if version is None:
        if name != asked.partition("@")[0]:
            yield Fault("/engine", f"the log is of {name}, the question of {asked}")
        return
    numbers = _numbers(version)
    fitting = [
        key
        for key in catalog.engines.keys
        if key.partition("@")[0] == name
        and numbers[: len(_numbers(key.partition("@")[2]))] == _numbers(key.partition("@")[2])
    ]
    closest = max(fitting, key=len, default=None)
    if closest != asked:
        planned = "no release of the catalog" if closest is None else closest
        yield Fault("/engine", f"it was {name} {version}, which is {planned}; the question is of {asked}")


def _card(question: Question, reading: Reading) -> Iterator[Fault]:
    seen = reading.observed.reported_capacity
    if seen is None:
        return
    known = memory_of(question).bytes.best
    if abs(seen.best - known) * _SAME_CARD > known:
        yield Fault("/gpu", f"the engine saw {seen.best:,} B of memory, and {question.gpu.key} shows {known:,} B")


def _model(question: Question, told: Deployment, catalog: Catalog) -> Iterator[Fault]:
    """A name can be anything, a folder too: it contradicts where it is another model's, or this one's and more.

    A model that is given inline has no name of its own.
    """
    if told.model is None or question.model.version is None:
        return
    name, asked = checkpoint_name(told.model.value), question.model.key.rpartition("/")[2]
    bare, own = _bare(name), _bare(asked)
    others = {_bare(key.rpartition("/")[2]) for key in catalog.models.keys}
    if bare != own and (bare in others or own in bare):
        yield Fault(
            "/model", f"the log loads {name!r} (line {told.model.line}), the question is of {question.model.key}"
        )


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (0, 10, 2) of 0.10.2rc1+cu128."""
    found = re.match(r"v?(\d{1,9}(?:\.\d{1,9}){0,3})", version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()
