"""Which columns hold the lengths: named by the caller, or recognised by what logs commonly call them."""

import re
from collections.abc import Sequence
from typing import Literal

from service.errors import InvalidParameters

Path = tuple[str, ...]
"""The name of a column, and below it those of fields inside."""
Side = Literal["prompt", "output"]

_MOST_LISTED = 40

# Without case, blanks, dashes and underscores; the last part of a dotted name.
_KNOWN: dict[Side, re.Pattern[str]] = {
    "prompt": re.compile(
        "(num|n)?(prompt|input)(tokens|tokencount)|(context|request)tokens|(prompt|input|context)len(gth)?"
    ),
    "output": re.compile(
        "(num|n)?(output|completion|generated|generation|candidates)(tokens|tokencount)|responsetokens"
        "|(output|completion|generation|response)len(gth)?"
    ),
}


def find(columns: Sequence[Path], side: Side, named: str | None, *, of: str, closed: bool = True) -> Path:
    """The column of these that holds prompt or output tokens of what `of` names.

    A name given is looked for as it is, with dots between fields. Where the columns aren't `closed`, as in JSON, one
    that wasn't seen may come later and is taken. Raises `InvalidParameters` where there is none, or more than one.
    """
    if named is None:
        fitting = [column for column in columns if _KNOWN[side].fullmatch(_plain(column[-1]))]
        if not fitting:
            raise InvalidParameters((f"--{side}", f"no column of {of} is known to hold it; {_listed(columns)}"))
    else:
        fitting = [column for column in columns if dotted(column) == named]
        if not fitting and not closed:
            return tuple(named.split("."))
        if not fitting:
            raise InvalidParameters((f"--{side}", f"{of} has no column {named!r}; {_listed(columns)}"))
    if len(fitting) > 1:
        names = ", ".join(dotted(column) for column in fitting)
        several = "name one" if named is None else "rename one"
        raise InvalidParameters((f"--{side}", f"several columns of {of} may hold it, {several}: {names}"))
    return fitting[0]


def dotted(column: Path) -> str:
    """The name of a column with the fields inside it."""
    return ".".join(column)


def _plain(name: str) -> str:
    return re.sub("[ _-]", "", name.rpartition(".")[2]).lower()


def _listed(columns: Sequence[Path]) -> str:
    shown = ", ".join(dotted(column) for column in columns[:_MOST_LISTED])
    more = len(columns) - _MOST_LISTED
    return f"columns: {shown or 'none'}" + (f" and {more} more" if more > 0 else "")
