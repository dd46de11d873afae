"""What the name of a checkpoint says of its model: the words, sizes, versions, dates and bits that must agree.

A name is a name only: folders are called anything. So it counts by what it states and another name states otherwise,
such as 7B and 8B, or v0.2 and v0.3, and not by how much of its text is alike.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

_NOISE = frozenset(
    {
        "instruct",
        "chat",
        "it",
        "base",
        "hf",
        "pt",
        "main",
        "final",
        "latest",
        "model",
        "meta",
        "nvidia",
        "v",
        "mtp",
        "dynamic",
        "block",
        "quantized",
        "gptq",
        "gguf",
        "bnb",
        "autoround",
    }
)
"""Words that make no other model of the same words: how it was trained on, packed or filed."""

_BITS = {
    4: "4bit|int4|fp4|nf4|nvfp4|mxfp4|awq|w4a16|w4a8|w4a4|q4",
    8: "8bit|int8|fp8|mxfp8|w8a8|w8a16|q8",
    16: "bf16|fp16|f16|float16|bfloat16",
    32: "fp32|f32|float32",
}
_FORMATS = {word: bits for bits, words in _BITS.items() for word in words.split("|")}

_BETWEEN = re.compile(r"[^a-z0-9.]+")
_DIGITS = re.compile(r"(?<=[0-9])_(?=[0-9])")
_DATE = re.compile(r"[0-9]{4}|[0-9]{6}|[0-9]{8}|0[0-9]")
_SIZE = re.compile(r"(?P<of>[ae]|[0-9]{1,3}x)?(?P<number>[0-9]{1,5}(?:\.[0-9]{1,3})?)(?P<unit>[bmtke])")
_PARAMETERS = {"m": 1, "b": 1000, "t": 1_000_000}
_NUMBERED = re.compile(r"(?P<word>[a-z]{1,24})?(?P<number>[0-9]{1,4}(?:\.[0-9]{1,3}){0,3})(?P<rest>[a-z])?")


class NameFacts(msgspec.Struct, frozen=True):
    """What a name states. Of a kind that it doesn't state nothing is known."""

    words: frozenset[str]
    numbers: Mapping[str, frozenset[str]]
    """By what each numbers: parameters, those that are active, experts, a window, a date, or a version by the word
    before it."""
    bits: frozenset[int]
    """Of the format of weights."""


@lru_cache(maxsize=4096)
def facts_of(name: str) -> NameFacts:
    """Read a checkpoint's name, without its owner. 8x7B and E4B are sizes of their own."""
    words: set[str] = set()
    numbers: dict[str, set[str]] = {}
    bits: set[int] = set()
    before = ""
    for part in _BETWEEN.split(_DIGITS.sub(".", name.casefold())):
        size, numbered = _SIZE.fullmatch(part), _NUMBERED.fullmatch(part)
        if part in _FORMATS:
            bits.add(_FORMATS[part])
        elif _DATE.fullmatch(part):
            numbers.setdefault("date", set()).add(part)
        elif size is not None:
            kind, number = _size(size)
            numbers.setdefault(kind, set()).add(number)
        elif numbered is not None:
            word = numbered["word"] or before
            # `V3` of DeepSeek is of the word before it, `v0.3` behind the size is of nothing else.
            word = before if word == "v" and "parameters" not in numbers else word
            numbers.setdefault(f"{word} version", set()).add(_plain(numbered["number"]))
            words.update(one for one in (word, numbered["rest"]) if one)
            before = word
        elif part:
            words.add(part)
            before = part
    kept = {kind: frozenset(found) for kind, found in numbers.items()}
    return NameFacts(frozenset(words - _NOISE), kept, frozenset(bits))


def differs(name: NameFacts, key: NameFacts) -> bool:
    """Whether both state a size, a version or a date, and have none in common."""
    return any(kind in key.numbers and found.isdisjoint(key.numbers[kind]) for kind, found in name.numbers.items())


def names_another(name: NameFacts, key: NameFacts, others: Iterable[NameFacts]) -> bool:
    """Whether the name fits another model of the catalog better: by more of its words, or by the numbers beside them.

    A short name fits every model that it is a beginning of, and a long one the model whose every word it has.
    """
    own = (len(key.words), _share_a_number(name, key)) if key.words <= name.words else (0, True)
    return any((len(one.words), _share_a_number(name, one)) > own and _fits(name, one) for one in others)


def _fits(name: NameFacts, key: NameFacts) -> bool:
    stated = _share_a_number(name, key) or not (name.numbers or key.numbers)
    return key.words <= name.words and stated and not differs(name, key)


def _share_a_number(name: NameFacts, key: NameFacts) -> bool:
    return any(kind in key.numbers for kind in name.numbers)


def _size(found: re.Match[str]) -> tuple[str, str]:
    of, number, unit = found["of"] or "", found["number"], found["unit"]
    if unit not in _PARAMETERS:
        return {"k": "window", "e": "experts"}[unit], _plain(number)
    whole, _, decimals = number.partition(".")
    millions = int(whole + decimals) * _PARAMETERS[unit] / 10 ** len(decimals)
    return "active parameters" if of == "a" else "parameters", f"{'' if of == 'a' else of}{millions:g}"


def _plain(number: str) -> str:
    """A version without the zero that says nothing: 4.0 is 4."""
    return number.removesuffix(".0").lstrip("0") or "0"
