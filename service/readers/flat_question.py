"""A question as flat names and texts: what a query string and a command line can say."""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from service.errors import Fault, InvalidDocument, InvalidParameters, Refused
from service.readers import strict_json
from service.readers.question import AskedLevers, AskedQuestion

LEVERS = tuple(field.name for field in msgspec.structs.fields(AskedLevers))

NAMES = (
    "model",
    "model_version",
    "gpu",
    "gpu_version",
    "engine",
    "engine_version",
    "workload",
    "workload_version",
    "reserve",
    "mean_tokens",
    "risk",
    "users",
    "basis",
    *LEVERS,
)
"""Every name that such a question can have."""

_TEXTS = frozenset(
    {"model", "gpu", "engine", "workload", "reserve", "basis", "kv_cache_dtype", "indexer_kv_dtype", "weight_dtype"}
)

_SWITCHES = frozenset(
    field.name for field in msgspec.structs.fields(AskedLevers) if bool in get_args(get_args(field.type)[0])
)

_LISTS = frozenset({"kv_cache_dtype_skip_layers", "pipeline_layers"})
"""Values that are several, with commas between them."""
_LONGEST_NUMBER = 20
"""Digits of a number that is read as one: longer ones pass every limit."""


def question_of(texts: Mapping[str, str]) -> AskedQuestion:
    """Read a question from names of `NAMES` and their texts. Raises `InvalidParameters`, by name, and `Refused`."""
    values = {name: _value(name, text) for name, text in texts.items()}
    document: dict[str, Any] = {}
    for entry in ("model", "gpu", "engine", "workload"):
        key, version = values.pop(entry, None), values.pop(f"{entry}_version", None)
        if key is not None:
            document[entry] = key if version is None else {"key": key, "version": version}
        elif version is not None:
            raise Refused(Fault(f"/{entry}/version", f"pins nothing without {entry}"))
    if "mean_tokens" in values:
        if "workload" in document:
            raise Refused(Fault("/workload", "comes beside mean_tokens; a question has one workload"))
        document["workload"] = {"kind": "mean", "tokens": values.pop("mean_tokens")}
    document |= {name: values.pop(name) for name in ("reserve", "risk") if name in values}
    targets = {name: values.pop(name) for name in ("users", "basis") if name in values}
    if targets.keys() == {"basis"}:
        raise Refused(Fault("/targets/basis", "says what users is compared with, and there is no users"))
    if targets:
        document["targets"] = targets
    document["levers"] = values
    try:
        return strict_json.convert(document, AskedQuestion)
    except InvalidDocument as error:
        raise InvalidParameters(*((name_of(fault.pointer), fault.detail) for fault in error.faults)) from error


def name_of(pointer: str) -> str:
    """The name whose value a JSON Pointer into the question leads to."""
    if pointer == "/workload/tokens":
        return "mean_tokens"
    first, _, last = pointer.removeprefix("/").partition("/")
    if last == "version":
        return f"{first}_version"
    return first if last in {"", "key"} else last


def _value(name: str, text: str) -> str | int | float | bool | list[str | int]:
    if name in _TEXTS:
        return text
    if name in _LISTS:
        return [
            int(item) if item.isascii() and item.isdigit() and len(item) < _LONGEST_NUMBER else item
            for item in text.split(",")
            if text
        ]
    if name in _SWITCHES:
        if text not in {"true", "false"}:
            raise InvalidParameters((name, f"must be true or false, not {text[:40]!r}"))
        return text == "true"
    try:
        return msgspec.json.decode(text, type=int | float)
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise InvalidParameters((name, f"must be a number, not {text[:40]!r}")) from None
