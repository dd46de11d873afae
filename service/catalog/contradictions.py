"""Facts of a start-up that contradict the question that it is said to be of: another start-up than was asked about.

What a log doesn't state contradicts nothing, and is named: a reserve that is learned stands on what was stated.
"""

import re
from collections.abc import Iterator

from service.capacity.dtypes import BITS
from service.capacity.memory import memory_of
from service.capacity.question import Question
from service.capacity.reserve_kinds import has_tower, weight_format
from service.catalog.contradicted_formats import contradicted_formats
from service.catalog.contradicted_levers import LEVERS, contradicted_levers
from service.catalog.entries import Catalog
from service.catalog.model_names import NameFacts, differs, facts_of, names_another
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


def not_stated(question: Question, reading: Reading) -> tuple[str, ...]:
    """Name what the start-up doesn't say of its deployment, in the names of the question.

    A name of a checkpoint that tells nothing of the model is no statement: `/models/7f3a`, or any of a model inline.
    """
    told = Deployment() if reading.log is None else reading.log.deployment
    said = {name for name in Deployment.__struct_fields__ if getattr(told, name) is not None}
    named = None if told.model is None else facts_of(checkpoint_name(told.model.value))
    if named is None or question.model.version is None or named.words != _own(question).words:
        said.discard("model")
    if told.memory_fraction is not None:
        said.add("gpu_memory_utilization")
    if reading.observed.version is not None and _names_a_release(reading.observed.version):
        said.add("version")
    if told.enable_lora is not None:
        said.add("max_loras")
    towers = ("language_model_only",) if has_tower(question.model.spec) else ()
    names = ("version", "model", *LEVERS, *towers, "max_loras", "gpu_memory_utilization", "kv_cache_dtype")
    return tuple(name for name in names if name not in said)


def _engine(question: Question, reading: Reading, catalog: Catalog) -> Iterator[Fault]:
    """The release by its version: the catalog's closest one, as 0.11.0 has an entry beside 0.11."""
    asked, version = question.engine.key, reading.observed.version
    name = asked.partition("@")[0] if reading.log is None else reading.log.engine
    if version is None or not _names_a_release(version):
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
    """A name can be anything, a folder too: it contradicts by what it states, and where it is another model's.

    A model that is given inline has no name of its own.
    """
    if told.model is None or question.model.version is None:
        return
    name, own = facts_of(checkpoint_name(told.model.value)), _own(question)
    others = [facts_of(_bare(key)) for key in catalog.models.keys if key != question.model.key]
    if differs(name, own) or _packed_otherwise(question, name) or names_another(name, own, others):
        loaded = f"{checkpoint_name(told.model.value)!r} (line {told.model.line})"
        yield Fault("/model", f"the log loads {loaded}, the question is of {question.model.key}")


def _packed_otherwise(question: Question, name: NameFacts) -> bool:
    """Whether the name states bits that weights don't have here.

    A checkpoint may hold several formats, of which its own name says one.
    """
    weights = weight_format(question.model.spec, question.levers)
    if weights is None or not name.bits:
        return False
    own = _own(question).bits if question.levers.weight_dtype == "auto" else frozenset()
    return name.bits.isdisjoint({int(BITS[weights]), *own})


def _own(question: Question) -> NameFacts:
    return facts_of(_bare(question.model.key))


def _bare(key: str) -> str:
    return key.rpartition("/")[2]


def _names_a_release(version: str) -> bool:
    """Whether a version tells the release: 0.1.dev20073 is what a build without tags calls itself."""
    return re.match(r"v?0\.1\.dev", version) is None


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (0, 10, 2) of 0.10.2rc1+cu128."""
    found = re.match(r"v?(\d{1,9}(?:\.\d{1,9}){0,3})", version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()
