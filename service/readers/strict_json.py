"""JSON as one reader only could read it.

msgspec is strict about types, but says nothing about a key that comes twice (the last one wins), and PostgreSQL
can't store U+0000 in text. Both are refused here, as are NaN and infinity, each with a JSON Pointer.
"""

import json
import re
from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from service.errors import Fault, InvalidDocument, MalformedJson

Document = TypeVar("Document")

_PATH = re.compile(r"(?P<text>.*?)(?: - at (?P<in_key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_SEGMENT = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]")
_FIELD = re.compile(r"Object (?:contains unknown|missing required) field `(?P<name>.*)`", re.DOTALL)


class _Ambiguous:
    """Marks a place in the tree that has no single meaning."""

    def __init__(self, detail: str, *, key: str | None = None) -> None:
        self.detail = detail
        self.key = key


def decode(body: bytes, document: type[Document]) -> Document:
    """Decode a JSON body into a document.

    Raises `MalformedJson` for bytes that aren't unambiguous JSON and `InvalidDocument` for JSON of another shape.
    """
    check_unambiguous(body)
    try:
        return cast("Document", _decoder(cast("Hashable", document)).decode(body))
    except msgspec.ValidationError as error:
        raise InvalidDocument(_fault(str(error))) from error
    except msgspec.DecodeError as error:  # pragma: no cover - the standard library has read the same bytes
        raise MalformedJson(Fault("", str(error))) from error


def convert(value: object, document: type[Document]) -> Document:
    """Give plain values, read from something else than JSON, the shape of a document, as strictly."""
    try:
        return msgspec.convert(value, document, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidDocument(_fault(str(error))) from error


def check_unambiguous(body: bytes) -> None:
    """Refuse what JSON readers disagree on: duplicate keys, NaN, infinity, U+0000, lone surrogates."""
    if not body.strip():
        raise MalformedJson(Fault("", "the body is empty; send one JSON document"))
    found = False

    def pairs(items: list[tuple[str, object]]) -> object:
        nonlocal found
        tree = dict(items)
        if len(tree) == len(items):
            return tree
        found = True
        keys = [key for key, _ in items]
        twice = next(key for key in keys if keys.count(key) > 1)
        return _Ambiguous("comes twice; write it once", key=twice)

    def constant(name: str) -> object:
        nonlocal found
        found = True
        return _Ambiguous(f"{name} is not a JSON number")

    try:
        text = body.decode("utf-8")
        tree = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except UnicodeDecodeError as error:
        raise MalformedJson(Fault("", f"the body is not UTF-8 (byte {error.start})")) from error
    except json.JSONDecodeError as error:
        detail = f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise MalformedJson(Fault("", detail)) from error
    except RecursionError as error:
        raise MalformedJson(Fault("", "the document is nested too deeply")) from error
    except ValueError as error:  # the standard library refuses integers of more than 4,300 digits
        raise MalformedJson(Fault("", "a number has too many digits")) from error
    if found or "\\u" in text:
        _refuse_first_ambiguity(tree)


def _refuse_first_ambiguity(tree: object) -> None:
    waiting: list[tuple[str, object]] = [("", tree)]
    while waiting:
        pointer, value = waiting.pop()
        match value:
            case _Ambiguous():
                at = pointer if value.key is None else f"{pointer}/{escaped(value.key)}"
                raise MalformedJson(Fault(at, value.detail))
            case str():
                _refuse_unstorable(pointer, value)
            case dict():
                for key in value:
                    _refuse_unstorable(pointer, key)
                waiting += [(f"{pointer}/{escaped(key)}", item) for key, item in reversed(value.items())]
            case list():
                waiting += [(f"{pointer}/{index}", item) for index, item in reversed(list(enumerate(value)))]


def _refuse_unstorable(pointer: str, text: str) -> None:
    if "\0" in text:
        raise MalformedJson(Fault(pointer, "contains U+0000, which can't be stored"))
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise MalformedJson(Fault(pointer, "contains half of a surrogate pair"))


def escaped(key: str) -> str:
    """Escape one reference token of a JSON Pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _fault(message: str) -> Fault:
    """Turn msgspec's "text - at `$.path`" into a JSON Pointer and a text."""
    match = _PATH.fullmatch(message)
    assert match is not None  # the pattern takes any text
    text, path = match["text"], match["path"] or ""
    pointer = "".join(f"/{escaped(part['name'] or part['index'])}" for part in _SEGMENT.finditer(path))
    field = _FIELD.fullmatch(text)
    if field is not None:
        pointer += f"/{escaped(field['name'])}"
        text = "is not a field here" if "unknown" in text[:24] else "is required"
    elif match["in_key"]:
        text = f"a key here: {text}"
    return Fault(pointer, text)


@cache
def _decoder(document: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(document)
