"""The arguments that an engine repeats: `Namespace(a=1, b='x')`, `{'a': 1}`, or a bare `a=1, b='x'`.

What stands between the outermost commas is kept as text; nothing is evaluated. Values that are objects themselves are
read by asking again. Any text takes one pass.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

_OPENING = re.compile(r"\s{0,8}(?:[A-Za-z_][\w.]{0,80})?[({]")
_TOKEN = re.compile(
    r"""(?P<quoted>'(?:[^'\\]|\\.?)*(?:'|\Z)|"(?:[^"\\]|\\.?)*(?:"|\Z))"""
    r"""|(?P<open>[\[({])|(?P<close>[\])}])|(?P<gap>[,\s]+)|(?P<word>[^\s,'"()\[\]{}]+)""",
    re.DOTALL,
)
_NAMED = re.compile(r"(?P<name>[A-Za-z_]\w{0,80})=")
_NAME = re.compile(r"\w{1,80}")
_WHOLE = re.compile(r"[0-9]{1,15}")
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,25})?")

_SWITCHES = {"True": True, "False": False, "true": True, "false": False}

LONGEST_WORD = 500
"""Characters that are kept of a value."""


def pairs_in(text: str, *, whole: bool = True) -> dict[str, str]:
    """Read names and values; of a name that comes twice the first counts.

    `whole` is false for a text whose end is missing: the last value, which may be cut, is then left out. So it is
    where the bracket that was opened isn't closed.
    """
    opening = _OPENING.match(text)
    starts: list[tuple[str, int, int]] = []
    end = len(text)
    closed = opening is None and whole
    for name, at, value_at in _names(text, opening.end() if opening else 0):
        if not name:
            end, closed = at, True
            break
        starts.append((name, at, value_at))
    pairs: dict[str, str] = {}
    ends = [*(at for _, at, _ in starts[1:]), end]
    for (name, _, value_at), value_end in zip(starts, ends, strict=False):
        pairs.setdefault(name, text[value_at:value_end].strip(" ,\t"))
    if starts and not closed and [name for name, _, _ in starts].index(starts[-1][0]) == len(starts) - 1:
        del pairs[starts[-1][0]]
    return pairs


def _names(text: str, position: int) -> Iterator[tuple[str, int, int]]:
    """Find each name on the outer level with where it and its value begin; the closing bracket has no name."""
    depth = 0
    fresh = True
    for token in _TOKEN.finditer(text, position):
        kind = token.lastgroup
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
            if depth < 0:
                yield "", token.start(), token.end()
                return
        elif depth == 0 and fresh and kind == "quoted" and text[token.end() : token.end() + 1] == ":":
            name = token.group()[1:-1]
            if _NAME.fullmatch(name):
                yield name, token.start(), token.end() + 1
        elif depth == 0 and fresh and kind == "word":
            named = _NAMED.match(token.group())
            if named:
                yield named["name"], token.start(), token.start() + named.end()
        fresh = kind == "gap"


def value_of(pairs: Mapping[str, str], path: str) -> str | None:
    """Take one value by its name, or by `outer.inner` for one inside of an object; None is no value."""
    outer, _, inner = path.partition(".")
    text = pairs.get(outer)
    if inner and text is not None:
        text = pairs_in(text).get(inner)
    return None if text in {None, "", "None", "null"} else text


def word(text: str) -> str | None:
    """Read a name: without its quotes, without `torch.`, only what can be printed."""
    bare = text[1:-1] if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0] else text
    return "".join(filter(str.isprintable, bare[:LONGEST_WORD])).removeprefix("torch.") or None


def whole_number(text: str) -> int | None:
    """Read a count; a limit that an engine is left to choose (-1, auto) is none."""
    return int(text) if _WHOLE.fullmatch(text) else None


def share(text: str) -> Decimal | None:
    """Read a share as it is written."""
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


def flag(text: str) -> bool | None:
    """Read a switch: as such, as a number of ranks, of which one alone divides nothing, or as what it is on for."""
    if text in _SWITCHES:
        return _SWITCHES[text]
    if text[:1] in {"[", "{"}:
        return bool(text[1:-1].strip())
    ranks = whole_number(text)
    return None if ranks is None else ranks > 1
