"""The OpenAPI document, made from what each route says of itself.

Litestar's own generator loses `additionalProperties: false`, bounds of 0 and discriminators, and documents other
errors than the ones that are sent; msgspec's schemas have them all.
"""

import json
import re
import sys
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import msgspec
from litestar import HttpMethod
from litestar.handlers import HTTPRouteHandler

from service.api import problem_types as types
from service.api.examples import EXAMPLE_QUESTION
from service.api.operations import Operation, Parameter
from service.api.problem_types import MEDIA_TYPE, PROBLEM_TYPES, Problem, ProblemType
from service.readers.names import NAMED
from service.readers.question import AskedQuestion, WorkloadRef

_TAGS = {
    "plans": "Questions and answers: how many users fit on this GPU, and why.",
    "observations": "What engines printed when they started, beside what was predicted.",
    "catalog": "What is known of GPUs, models, engines and workloads, each figure with its source.",
    "operations": "For probes and operators.",
    "documents": "This description, and a page per problem type.",
}

_EVERYWHERE = (types.BAD_REQUEST, types.NOT_FOUND, types.METHOD_NOT_ALLOWED, types.INTERNAL)
"""Problems that any route can answer with."""

_VALIDATION_KINDS = tuple(kind for kind in PROBLEM_TYPES.values() if kind.status == types.VALIDATION.status)


def openapi_document(handlers: Iterable[HTTPRouteHandler]) -> dict[str, Any]:
    """Describe the routes of these handlers, HEAD included in its GET."""
    operations = [(path, handler) for handler in handlers for path in handler.paths]
    schemas = _schemas(_operation(handler) for _, handler in operations)
    paths: dict[str, dict[str, Any]] = {}
    for path, handler in sorted(operations, key=lambda item: item[0]):
        method = "post" if HttpMethod.POST in handler.http_methods else "get"
        paths.setdefault(_template(path), {})[method] = _describe(_operation(handler), schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headcount",
            "version": version("headcount"),
            "summary": "How many concurrent users fit on this GPU, and why?",
            "description": (
                "A caller names a model, a GPU, a workload and levers; Headcount climbs one ladder from the card's"
                " reported memory down to a user count, and records question and answer."
            ),
            "contact": {"name": "Headcount", "url": "http://127.0.0.1:8750/docs"},
            "license": {"name": "Proprietary", "identifier": "LicenseRef-Proprietary"},
        },
        "servers": [{"url": "http://127.0.0.1:8750", "description": "The address of `make up`."}],
        "security": [],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {"schemas": schemas.components},
    }


class _Schemas:
    """JSON schemas by type, and the components that they refer to."""

    def __init__(self, described: list[Any]) -> None:
        schemas, components = msgspec.json.schema_components(described, ref_template="#/components/schemas/{name}")
        schemas = tuple(_renamed(schema) for schema in schemas)
        components = {_short(name): _with_kind_left_out(_renamed(schema)) for name, schema in components.items()}
        self._described = list(zip(described, schemas, strict=True))
        self.components = {name: _with_items(components[name]) for name in sorted(components)}

    def of(self, described: object) -> dict[str, Any]:
        """The schema of one of the types."""
        return next(schema for known, schema in self._described if known == described)


def _short(name: str) -> str:
    """A schema's name without the modules of what it is made of, and with no more than the first of several."""
    if "." not in name:
        return name
    made_of = re.findall(r"\.([A-Z][A-Za-z0-9]*)", name)
    return f"{name.partition('_')[0]}_{made_of[0]}{'_and_others' if len(made_of) > 1 else ''}_"


def _renamed(schema: Any) -> Any:  # noqa: ANN401 - any part of a JSON schema
    """Refer to schemas by their short names."""
    if isinstance(schema, list):
        return [_renamed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    root, slash, name = str(schema.get("$ref", "")).rpartition("/")
    reference = {"$ref": root + slash + _short(name)} if name else {}
    return {key: _renamed(part) for key, part in schema.items()} | reference


def _with_items(schema: Any) -> Any:  # noqa: ANN401 - any part of a JSON schema
    """Give every array an `items`: linters want one beside `prefixItems`, whose length is fixed anyway."""
    if isinstance(schema, list):
        return [_with_items(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    whole = {name: _with_items(part) for name, part in schema.items()}
    if whole.get("type") == "array" and not whole.get("items"):
        whole["items"] = next(iter(whole.get("prefixItems", ())), {})
    return whole


def _with_kind_left_out(schema: Any) -> Any:  # noqa: ANN401 - any part of a JSON schema
    """Let what names a workload leave its kind out: it stands beside what is told apart by kinds, not among it."""
    if isinstance(schema, list):
        return [_with_kind_left_out(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    whole = {name: _with_kind_left_out(part) for name, part in schema.items()}
    if whole.get("title") == WorkloadRef.__name__:
        whole["required"] = [name for name in whole["required"] if name != "kind"]
    kinds = dict(whole.get("discriminator", {}).get("mapping", ()))
    named = {"$ref": kinds.pop(NAMED, None)}
    if named not in whole.get("anyOf", ()):
        return whole
    told_apart = whole | {
        "anyOf": [choice for choice in whole["anyOf"] if choice != named],
        "discriminator": whole["discriminator"] | {"mapping": kinds},
    }
    return {"anyOf": [named, told_apart]}


def _schemas(operations: Iterable[Operation]) -> _Schemas:
    described: list[Any] = [Problem]
    for operation in operations:
        described += [parameter.schema for parameter in operation.parameters]
        described += [part for part in (operation.body, operation.answer) if part is not None]
    return _Schemas(described)


def _operation(handler: HTTPRouteHandler) -> Operation:
    operation = handler.opt["operation"]
    assert isinstance(operation, Operation)
    return operation


def _template(path: str) -> str:
    return path.replace(":str}", "}")


def _describe(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    document: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "security": [],
        "responses": _responses(operation, schemas),
    }
    if operation.parameters:
        document["parameters"] = [_parameter(parameter, schemas) for parameter in operation.parameters]
    if operation.body is not None:
        content: dict[str, Any] = {"schema": schemas.of(operation.body)}
        if operation.body is AskedQuestion:
            content["examples"] = {"reference": {"summary": "The reference example", "value": EXAMPLE_QUESTION}}
        document["requestBody"] = {"required": True, "content": {"application/json": content}}
    return document


def _parameter(parameter: Parameter, schemas: _Schemas) -> dict[str, Any]:
    described = schemas.of(parameter.schema)
    schema = described
    # A query parameter is left out rather than null.
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        schema = choices[0]
    return {
        "name": parameter.name,
        "in": parameter.within,
        "required": parameter.required,
        "description": described.get("description", parameter.description),
        "schema": schema,
        # Several values stand in one parameter, with commas between them.
        **({"style": "form", "explode": False} if schema.get("type") == "array" else {}),
    }


def _responses(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    ok: dict[str, Any] = {"description": operation.summary}
    schema = {"type": "string"} if operation.answer is None else schemas.of(operation.answer)
    ok["content"] = {operation.media_type: {"schema": schema}}
    if operation.headers:
        ok["headers"] = {
            name: {"description": meaning, "schema": {"type": "string"}} for name, meaning in operation.headers
        }
    responses: dict[str, Any] = {"200": ok}
    if operation.created:
        responses = {"200": ok | {"description": "It was there already."}, "201": ok}
    if "ETag" in dict(operation.headers):
        responses["304"] = {"description": "The caller has it already."}
    by_status: dict[int, list[ProblemType]] = {}
    for kind in (*_EVERYWHERE, *operation.problems):
        group = _VALIDATION_KINDS if kind is types.VALIDATION else (kind,)
        known = by_status.setdefault(kind.status, [])
        known += [one for one in group if one not in known]
    for status, kinds in sorted(by_status.items()):
        described: dict[str, Any] = {
            "description": "; ".join(f"{kind.title} (`{kind.path}`)" for kind in kinds),
            "content": {MEDIA_TYPE: {"schema": schemas.of(Problem)}},
        }
        if status == types.UNAVAILABLE.status:
            described["headers"] = {
                "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}}
            }
        responses[str(status)] = described
    if operation.id == "readyz":
        responses["503"] = {"description": "Not ready", "content": {"application/json": {"schema": schema}}}
    return responses


def rendered(document: dict[str, Any]) -> str:
    """The document as it is committed: indented, with a line feed at the end."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    from service.api.routes import route_handlers

    sys.stdout.write(rendered(openapi_document(route_handlers())))
