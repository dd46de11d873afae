"""Reads of `/v1/gpus`, `/v1/models`, `/v1/engines` and `/v1/workloads`: list, one, versions.

From memory, so they answer without PostgreSQL.
"""

from collections.abc import Callable
from typing import Annotated, Generic, TypeVar

import msgspec
from litestar.handlers import HTTPRouteHandler
from msgspec import Meta

from service.api import problem_types as types
from service.api.bodies import query_of, whole_number
from service.api.envelope import AnyRequest
from service.api.headcount import Headcount
from service.api.operations import Operation, Parameter, get
from service.capacity.engine import Engine
from service.capacity.gpu import Gpu
from service.capacity.model import Model
from service.capacity.named_workload import NamedWorkload
from service.catalog.entries import Catalog, Shelf, Version
from service.errors import NotStored, UnknownKey
from service.readers.question import MOST_TOKENS

Spec = TypeVar("Spec")
AnyShelf = Shelf[Gpu] | Shelf[Model] | Shelf[Engine] | Shelf[NamedWorkload]


class EntrySummary(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version of an entry, without its figures."""

    key: str
    version: int
    revision: int
    digest: str
    source: str
    url: str


class EntryList(msgspec.Struct, frozen=True):
    """All entries of a kind, by key, or all versions of an entry, oldest first."""

    items: list[EntrySummary]


class Entry(msgspec.Struct, Generic[Spec], frozen=True, kw_only=True):
    """One version of an entry; every figure of the spec carries its source and confidence."""

    key: str
    version: int
    revision: int
    digest: str
    source: str
    spec: Spec


def _path_parameter(name: str, schema: object, description: str) -> Parameter:
    return Parameter(name=name, within="path", schema=schema, description=description, required=True)


_SEGMENT = Annotated[str, Meta(pattern="^[^/]+$", max_length=200)]
_NUMBER = _path_parameter("number", Annotated[int, Meta(ge=1, le=MOST_TOKENS)], "A version of the entry.")
_PROBLEMS = (types.INVALID_PARAMETERS, types.NOT_FOUND)


def catalog_routes() -> list[HTTPRouteHandler]:
    """The routes of every kind that is read over HTTP."""
    return [
        *_routes("GPU", "/v1/gpus", (_path_parameter("key", _SEGMENT, "A GPU's key."),), Gpu, lambda held: held.gpus),
        *_routes(
            "model",
            "/v1/models",
            (
                _path_parameter("owner", _SEGMENT, "The part of a model's key before the slash."),
                _path_parameter("name", _SEGMENT, "The part of a model's key after the slash."),
            ),
            Model,
            lambda held: held.models,
        ),
        *_routes(
            "engine",
            "/v1/engines",
            (_path_parameter("key", _SEGMENT, "An engine's key, such as `vllm@0.19`."),),
            Engine,
            lambda held: held.engines,
        ),
        *_routes(
            "workload",
            "/v1/workloads",
            (_path_parameter("key", _SEGMENT, "A workload's key, such as `azure_conv_2023`."),),
            NamedWorkload,
            lambda held: held.workloads,
        ),
    ]


def _routes(
    noun: str,
    root: str,
    key_parameters: tuple[Parameter, ...],
    spec_type: type[Gpu] | type[Model] | type[Engine] | type[NamedWorkload],
    shelf_in: Callable[[Catalog], AnyShelf],
) -> list[HTTPRouteHandler]:
    one = root + "".join(f"/{{{parameter.name}:str}}" for parameter in key_parameters)
    name = noun[0].upper() + noun[1:]

    def key_of(request: AnyRequest) -> str:
        query_of(request, ())
        return "/".join(request.path_params[parameter.name] for parameter in key_parameters)

    @get(
        root,
        Operation(
            id=f"list{name}s",
            tag="catalog",
            summary=f"List {noun}s",
            description=f"The newest version of every {noun}, by key.",
            answer=EntryList,
            problems=(types.INVALID_PARAMETERS,),
        ),
    )
    async def entries(request: AnyRequest, headcount: Headcount) -> EntryList:
        query_of(request, ())
        shelf = shelf_in(headcount.catalog)
        return EntryList([_summary(root, shelf.version(key, None)) for key in shelf.keys])

    @get(
        one,
        Operation(
            id=f"read{name}",
            tag="catalog",
            summary=f"Read a {noun}",
            description=f"The newest version of a {noun}.",
            parameters=key_parameters,
            answer=Entry[spec_type],  # type: ignore[valid-type]  # a type made at run time, for the document only
            problems=_PROBLEMS,
        ),
    )
    async def newest(request: AnyRequest, headcount: Headcount) -> Entry[msgspec.Raw]:
        return _entry(_find(shelf_in(headcount.catalog), key_of(request), None))

    @get(
        f"{one}/versions",
        Operation(
            id=f"list{name}Versions",
            tag="catalog",
            summary=f"List a {noun}'s versions",
            description="All versions, oldest first. A version never changes.",
            parameters=key_parameters,
            answer=EntryList,
            problems=_PROBLEMS,
        ),
    )
    async def versions(request: AnyRequest, headcount: Headcount) -> EntryList:
        key = key_of(request)
        shelf = shelf_in(headcount.catalog)
        _find(shelf, key, None)
        return EntryList([_summary(root, entry) for entry in shelf.versions(key)])

    @get(
        f"{one}/versions/{{number:str}}",
        Operation(
            id=f"read{name}Version",
            tag="catalog",
            summary=f"Read one version of a {noun}",
            description="A version never changes.",
            parameters=(*key_parameters, _NUMBER),
            answer=Entry[spec_type],  # type: ignore[valid-type]  # as above
            problems=_PROBLEMS,
        ),
    )
    async def version(request: AnyRequest, headcount: Headcount, number: str) -> Entry[msgspec.Raw]:
        key, wanted = key_of(request), whole_number(number, MOST_TOKENS)
        if wanted is None:
            raise NotStored(f"{number!r} is not the number of a version")
        return _entry(_find(shelf_in(headcount.catalog), key, wanted))

    return [entries, newest, versions, version]


def _find(shelf: AnyShelf, key: str, number: int | None) -> Version:
    try:
        return shelf.version(key, number)
    except UnknownKey as unknown:  # in a path, unlike in a question, an unknown name is an unknown address
        raise NotStored(str(unknown)) from unknown


def _summary(root: str, entry: Version) -> EntrySummary:
    return EntrySummary(
        key=entry.key,
        version=entry.version,
        revision=entry.revision,
        digest=entry.digest,
        source=entry.source,
        url=f"{root}/{entry.key}/versions/{entry.version}",
    )


def _entry(entry: Version) -> Entry[msgspec.Raw]:
    return Entry(
        key=entry.key,
        version=entry.version,
        revision=entry.revision,
        digest=entry.digest,
        source=entry.source,
        spec=msgspec.Raw(entry.spec),
    )
