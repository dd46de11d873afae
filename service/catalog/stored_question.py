"""A recorded question as the planner takes it again: names pinned to the versions that it was recorded with."""

import msgspec

from service.capacity.canonical import plan_id
from service.capacity.model import Model
from service.capacity.question import Levers, ObservedReserve, Pinned, Question, Targets
from service.catalog.entries import Catalog, Shelf, Spec, canonical, digest_of
from service.errors import Fault, Refused


class _Name(msgspec.Struct, frozen=True):
    key: str
    version: int | None = None
    spec: msgspec.Raw | None = None


class _Stored(msgspec.Struct, frozen=True):
    model: _Name
    gpu: _Name
    engine: _Name
    draft_model: _Name | None
    levers: Levers
    risk: float
    targets: Targets | None
    observed_reserve: ObservedReserve | None = None


def question_of(stored: bytes, catalog: Catalog) -> Question:
    """Read what concerns memory of a recorded question; its workload doesn't.

    Raises `Refused` for one that another release recorded in a shape of its own, and `UnknownKey` for a version that
    this reading of the catalog doesn't hold yet.
    """
    try:
        told = msgspec.json.decode(stored, type=_Stored)
        model, draft = _model(told.model, catalog), None
        if told.draft_model is not None:
            draft = _model(told.draft_model, catalog)
    except msgspec.ValidationError as error:
        raise from_another_release(plan_id(stored)) from error
    return Question(
        model=model,
        gpu=_pinned(catalog.gpus, told.gpu),
        engine=_pinned(catalog.engines, told.engine),
        draft_model=draft,
        levers=told.levers,
        workload=None,
        risk=told.risk,
        targets=told.targets,
        observed_reserve=told.observed_reserve,
    )


def from_another_release(plan: str) -> Refused:
    """Build the refusal of a plan whose bytes have the shape of another release."""
    return Refused(Fault("", f"{plan} was made by another release and can't be compared: ask its question again"))


def _model(name: _Name, catalog: Catalog) -> Pinned[Model]:
    if name.spec is None:
        return _pinned(catalog.models, name)
    spec = msgspec.json.decode(name.spec, type=Model)
    return Pinned(key=name.key, version=None, digest=digest_of(canonical(spec)), spec=spec)


def _pinned(shelf: Shelf[Spec], name: _Name) -> Pinned[Spec]:
    return shelf.pinned(name.key, name.version)
