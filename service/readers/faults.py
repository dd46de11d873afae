"""What is wrong with a document, place by place, in words that say what was expected."""

import re
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec

from service.errors import Fault

MOST_FAULTS = 20
"""Faults that one answer names; a document with more is another kind of document."""

LARGEST_SEARCHED = 2**16
"""Bytes up to which a document is read again and again; of a larger one only the first fault is named."""

_MESSAGE = re.compile(r"(?P<text>.*?)(?: - at (?P<in_key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_SEGMENT = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]")
_FIELD = re.compile(r"Object (?P<what>contains unknown|missing required) field `(?P<name>.*)`", re.DOTALL)
_CHOICE = re.compile(r"Invalid (?:enum )?value (?P<value>.*)", re.DOTALL)


def faults_in(tree: Any, document: type, first: msgspec.ValidationError) -> tuple[Fault, ...]:  # noqa: ANN401 - any JSON
    """List the faults of a document: the one found, and those that remain when it is taken out.

    msgspec stops at the first. A wrong or unknown member of an object is taken out and the rest read again; a
    missing member or a wrong item of a list can't be, and ends the list. So does a document that is large or deep.
    """
    found = [_fault(str(first), tree, document)]
    with suppress(RecursionError):
        if len(msgspec.json.encode(tree)) > LARGEST_SEARCHED:
            return tuple(found)
        while len(found) < MOST_FAULTS:
            tree = _without(tree, _parts(found[-1].pointer))
            error = None if tree is None else _error_of(tree, document)
            fault = None if error is None else _fault(error, tree, document)
            if fault is None or fault.pointer in {known.pointer for known in found}:  # required, and taken out by us
                break
            found.append(fault)
    return tuple(found)


def escaped(key: str) -> str:
    """Escape one reference token of a JSON Pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _parts(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _without(tree: Any, parts: list[str]) -> Any:  # noqa: ANN401 - any JSON
    """The tree without the member at a place, the rest shared with it; None where that is no member of an object."""
    if not parts:
        return None
    part, *deeper = parts
    if isinstance(tree, list):
        inner = _without(tree[int(part)], deeper)
        return None if inner is None else [*tree[: int(part)], inner, *tree[int(part) + 1 :]]
    if not isinstance(tree, dict) or part not in tree:
        return None
    if not deeper:
        return {name: value for name, value in tree.items() if name != part}
    inner = _without(tree[part], deeper)
    return None if inner is None else tree | {part: inner}


def _with(tree: Any, parts: list[str], value: object) -> Any:  # noqa: ANN401 - any JSON
    """The tree with another value at a place."""
    if not parts:
        return value
    if isinstance(tree, list):
        index = int(parts[0])
        return [*tree[:index], _with(tree[index], parts[1:], value), *tree[index + 1 :]]
    return tree | {parts[0]: _with(tree[parts[0]], parts[1:], value)}


def _error_of(tree: Any, document: type) -> str | None:  # noqa: ANN401 - any JSON
    try:
        msgspec.json.decode(msgspec.json.encode(tree), type=document)
    except msgspec.ValidationError as error:
        return str(error)
    except RecursionError:  # deeper than can be written again: no more can be found out
        return None
    return None


def _fault(message: str, tree: Any, document: type) -> Fault:  # noqa: ANN401 - any JSON
    """Turn msgspec's "text - at `$.path`" into a JSON Pointer and a sentence."""
    match = _MESSAGE.fullmatch(message)
    assert match is not None  # the pattern takes any text
    pointer = "".join(f"/{escaped(part['name'] or part['index'])}" for part in _SEGMENT.finditer(match["path"] or ""))
    if field := _FIELD.fullmatch(match["text"]):
        known = ", ".join(dict.fromkeys(_fields(_schema_at(document, pointer))))
        at = f"{pointer}/{escaped(field['name'])}"
        if field["what"].startswith("missing"):
            return Fault(at, f"{field['name']} is required")
        return Fault(at, f"there is no field {field['name']} here; fields: {known}")
    text = match["text"][0].lower() + match["text"][1:]
    if choice := _CHOICE.fullmatch(match["text"]):
        allowed = ", ".join(_choices(_schema_at(document, pointer)))
        text = f"{choice['value']} is none of: {allowed}" if allowed else text
    if match["in_key"] or (match["path"] or "").endswith("[...]"):
        pointer += _key_at_fault(message, tree, _parts(pointer), document)
    return Fault(pointer, f"the key: {text}" if match["in_key"] else text)


def _key_at_fault(message: str, tree: Any, parts: list[str], document: type) -> str:  # noqa: ANN401 - any JSON
    """Find which of an object's free keys msgspec means, which says only where the object is: the one wrong alone."""
    members = tree
    for part in parts:
        members = members[int(part) if isinstance(members, list) else part]
    for name, value in list(members.items())[:MOST_FAULTS]:
        if _error_of(_with(tree, parts, {name: value}), document) == message:
            return f"/{escaped(name)}"
    return ""


def _fields(schema: dict[str, Any]) -> list[str]:
    return [*schema.get("properties", ()), *(name for part in schema.get("anyOf", ()) for name in _fields(part))]


def _choices(schema: dict[str, Any]) -> list[str]:
    return [str(value) for value in schema.get("enum", ())] + [
        choice for part in schema.get("anyOf", ()) for choice in _choices(part)
    ]


def _schema_at(document: type, pointer: str) -> dict[str, Any]:
    """The JSON schema of a place in a document; an empty one where the place has none of its own."""
    schema, definitions = _schema(document)
    for part in pointer.split("/")[1:]:
        branches = _branches(_resolved(schema, definitions), definitions)
        schema = {"anyOf": [branch["properties"][part] for branch in branches if part in branch.get("properties", ())]}
    return {"anyOf": _branches(_resolved(schema, definitions), definitions)}


def _branches(schema: dict[str, Any], definitions: dict[str, Any]) -> list[dict[str, Any]]:
    if "anyOf" not in schema:
        return [schema]
    return [branch for choice in schema["anyOf"] for branch in _branches(_resolved(choice, definitions), definitions)]


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    return definitions[reference.rpartition("/")[2]] if reference else schema


@cache
def _schema(document: type) -> tuple[dict[str, Any], dict[str, Any]]:
    (schema,), definitions = msgspec.json.schema_components([document])
    return schema, definitions
