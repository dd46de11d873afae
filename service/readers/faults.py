"""What is wrong with a document, place by place, in words that say what was expected."""

import copy
import re
from functools import cache
from typing import Any

import msgspec

from service.errors import Fault

MOST_FAULTS = 20
"""Faults that one answer names; a document with more is another kind of document."""

_MESSAGE = re.compile(r"(?P<text>.*?)(?: - at (?P<in_key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_SEGMENT = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]")
_FIELD = re.compile(r"Object (?P<what>contains unknown|missing required) field `(?P<name>.*)`", re.DOTALL)
_CHOICE = re.compile(r"Invalid (?:enum )?value (?P<value>.*)", re.DOTALL)


def faults_in(tree: Any, document: type, first: msgspec.ValidationError) -> tuple[Fault, ...]:  # noqa: ANN401 - any JSON
    """List the faults of a document: the one found, and those that remain when it is taken out.

    msgspec stops at the first. A wrong or unknown member of an object is taken out and the rest read again; a
    missing member or a wrong item of a list can't be, and ends the list.
    """
    found = [_fault(str(first), document)]
    rest = copy.deepcopy(tree)
    while len(found) < MOST_FAULTS and _taken_out(rest, found[-1].pointer):
        try:
            msgspec.json.decode(msgspec.json.encode(rest), type=document)
        except msgspec.ValidationError as error:
            fault = _fault(str(error), document)
            if fault.pointer in {known.pointer for known in found}:  # required, and taken out by us
                break
            found.append(fault)
        else:
            break
    return tuple(found)


def escaped(key: str) -> str:
    """Escape one reference token of a JSON Pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _taken_out(tree: Any, pointer: str) -> bool:  # noqa: ANN401 - any JSON
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]
    for part in parents[1:]:
        if isinstance(tree, list):
            tree = tree[int(part)]
        elif isinstance(tree, dict) and part in tree:
            tree = tree[part]
        else:
            return False
    if not (parents and isinstance(tree, dict) and last in tree):
        return False
    del tree[last]
    return True


def _fault(message: str, document: type) -> Fault:
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
    return Fault(pointer, f"a key here: {text}" if match["in_key"] else text)


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
