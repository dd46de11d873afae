"""JSON as one reader only could read it.

msgspec is strict about types, but says nothing about a key that comes twice (the last one wins), and PostgreSQL
can't store U+0000 in text. Both are refused here, as are NaN and infinity, each with a JSON Pointer.
"""

import json
import math
import re
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from service.errors import Fault, InvalidDocument, MalformedJson
from service.readers.faults import escaped, faults_in
from service.readers.names import with_kind

Document = TypeVar("Document")

_SURROGATE = re.compile("[\ud800-\udfff]")

_Place = tuple["_Place", str | int] | None


class _Ambiguous:
    """Marks a place in the tree that has no single meaning."""

    def __init__(self, detail: str, *, key: str | None = None) -> None:
        self.detail = detail
        self.key = key


def decode(body: bytes, document: type[Document]) -> Document:
    """Decode a JSON body into a document.

    Raises `MalformedJson` for bytes that aren't unambiguous JSON and `InvalidDocument` for JSON of another shape.
    """
    tree = read(body)
    if (whole := with_kind(tree)) is not tree:
        return convert(whole, document)
    try:
        return cast("Document", _decoder(cast("Hashable", document)).decode(body))
    except msgspec.ValidationError as error:
        raise InvalidDocument(*faults_in(tree, document, error)) from error
    except msgspec.DecodeError as error:  # pragma: no cover - the standard library has read the same bytes
        raise MalformedJson(Fault("", str(error))) from error


def convert(value: object, document: type[Document]) -> Document:
    """Give plain values, read from something else than JSON, the shape of a document, as strictly."""
    value = with_kind(value)
    try:
        return msgspec.convert(value, document, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidDocument(*faults_in(value, document, error)) from error


def read(body: bytes, *, with_infinity: bool = False) -> object:
    """Read JSON as plain values, refusing what readers disagree on.

    `with_infinity` takes Infinity for a number, as Python's own writer does: some config.json files hold it.

    Raises `MalformedJson` for duplicate keys, NaN, infinity, U+0000, lone surrogates, and what isn't JSON at all.
    """
    if not body.strip():
        raise MalformedJson(Fault("", "empty: send one JSON document"))
    found = False

    def pairs(items: list[tuple[str, object]]) -> object:
        nonlocal found
        tree = dict(items)
        if len(tree) == len(items):
            return tree
        found = True
        last_at = {key: index for index, (key, _) in enumerate(items)}
        twice = next(key for index, (key, _) in enumerate(items) if last_at[key] != index)
        return _Ambiguous("comes twice; write it once", key=twice)

    def constant(name: str) -> object:
        nonlocal found
        if with_infinity and name == "Infinity":
            return math.inf
        found = True
        return _Ambiguous(f"{name} is not a JSON number")

    text = _text(body)
    tree = _tree(text, pairs, constant)
    if found or "\\u" in text:
        _refuse_first_ambiguity(tree)
    return tree


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedJson(Fault("", f"not UTF-8 (byte {error.start})")) from error


def _tree(text: str, pairs: Callable[[list[tuple[str, object]]], object], constant: Callable[[str], object]) -> object:
    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        detail = f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise MalformedJson(Fault("", detail)) from error
    except RecursionError as error:
        raise MalformedJson(Fault("", "nested too deeply")) from error
    except ValueError as error:  # the standard library refuses integers of more than 4,300 digits
        raise MalformedJson(Fault("", "a number has too many digits")) from error


def _refuse_first_ambiguity(tree: object) -> None:
    # A place is linked to the one that holds it: its pointer is spelled out only when it is at fault.
    waiting: list[tuple[_Place, object]] = [(None, tree)]
    while waiting:
        place, value = waiting.pop()
        match value:
            case _Ambiguous():
                at = place if value.key is None else (place, value.key)
                raise MalformedJson(Fault(_pointer(at), value.detail))
            case str():
                _refuse_unstorable(place, value)
            case dict():
                for key in value:
                    _refuse_unstorable(place, key)
                waiting += [((place, key), item) for key, item in reversed(value.items())]
            case list():
                waiting += [((place, index), item) for index, item in reversed(list(enumerate(value)))]


def _refuse_unstorable(place: "_Place", text: str) -> None:
    if "\0" in text:
        raise MalformedJson(Fault(_pointer(place), "contains U+0000, which can't be stored"))
    if _SURROGATE.search(text):
        raise MalformedJson(Fault(_pointer(place), "contains half of a surrogate pair"))


def _pointer(place: "_Place") -> str:
    parts: list[str] = []
    while place is not None:
        place, part = place
        parts.append(f"/{escaped(str(part))}")
    return "".join(reversed(parts))


@cache
def _decoder(document: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(document)
