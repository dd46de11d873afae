"""What a pattern of module names may stand for: it is written out into plain names, and never run."""

import re
from collections.abc import Sequence

_MOST_CHARACTERS = 500
_MOST_NAMES = 256
_DEEPEST = 16
_MOST_TIMES = 4
ANYTHING = "*"
"""Stands for whatever may be there; all else in a name stands for itself."""
_DIGITS = tuple("0123456789")
_CLASS = re.compile(r"\[([A-Za-z0-9_.\\-]{1,40})\]")
_NOT_A_DOT = re.compile(r"\[\^\\?\.\]")
_RANGE = re.compile(r"([a-z])-([a-z])|([A-Z])-([A-Z])|([0-9])-([0-9])")
_TIMES = re.compile(r"\{([0-9]{1,2})(,([0-9]{1,2}))?\}")
_GROUP = re.compile(r"\((\?:|(?!\?))")
_SPECIAL = re.compile(r"[\\()\[\]|^$+?{}]")
_ENTRY = "re:"


class Unreadable(Exception):
    """A pattern that can't be written out."""


def written_out(entry: str) -> Sequence[str]:
    """The names that an entry may stand for; those that have to end there end in `$`.

    Without `re:` and without what only patterns have, it is a name, in which an asterisk stands for anything.

    Raises:
        Unreadable: it looks ahead or behind, repeats what can't be written out, or comes to too many names.
    """
    if not entry.startswith(_ENTRY) and not _SPECIAL.search(entry):
        return (f"{entry}$",)
    pattern = entry.removeprefix(_ENTRY)
    if len(pattern) > _MOST_CHARACTERS:
        raise Unreadable
    reader = _Reader(pattern)
    names = reader.alternatives(0)
    if reader.place != len(pattern):
        raise Unreadable
    return tuple(dict.fromkeys(names))


class _Reader:
    """One pattern and how far it has been read."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.place = 0

    def alternatives(self, depth: int) -> list[str]:
        """What is up to the end of a group, any of several."""
        if depth > _DEEPEST:
            raise Unreadable
        found = self._sequence(depth)
        while self._next("|"):
            found = _few([*found, *self._sequence(depth)])
        return found

    def _sequence(self, depth: int) -> list[str]:
        names = [""]
        while self.place < len(self.pattern) and self.pattern[self.place] not in "|)":
            atom = self._repeated(self._atom(depth))
            if len(names) * len(atom) > _MOST_NAMES:
                raise Unreadable
            names = [name + more for name in names for more in atom]
        return names

    def _atom(self, depth: int) -> list[str]:
        if group := self._match(_GROUP):
            self.place = group.end()
            found = self.alternatives(depth + 1)
            if not self._next(")"):
                raise Unreadable
            return found
        if other := self._match(_NOT_A_DOT):
            self.place = other.end()
            return [ANYTHING]
        if one_of := self._match(_CLASS):
            self.place = one_of.end()
            return _characters(one_of[1])
        if self._next("\\"):
            return self._escaped()
        character = self.pattern[self.place]
        self.place += 1
        if character == "." and self.pattern[self.place : self.place + 1] in ("*", "+", "?", "{"):
            return [ANYTHING]
        if character in "()[]{}*+?":
            raise Unreadable
        return [""] if character == "^" else [character]

    def _escaped(self) -> list[str]:
        character = self.pattern[self.place : self.place + 1]
        self.place += 1
        if character == "d":
            return [*_DIGITS]
        if character in ("w", "S"):
            return [ANYTHING]
        if character == "b":
            return [""]
        if not character or character.isalnum():
            raise Unreadable
        return [character]

    def _repeated(self, atom: list[str]) -> list[str]:
        """What stands for several of which nobody can say how many may be anything."""
        several = [ANYTHING] if len(atom) > 1 else atom
        if times := self._match(_TIMES):
            self.place = times.end()
            least, most = int(times[1]), int(times[3] or times[1])
            if atom == [ANYTHING]:
                found = atom
            elif least <= most <= _MOST_TIMES:
                found = [name for count in range(least, most + 1) for name in _times(atom, count)]
            else:
                raise Unreadable
        elif self._next("*"):
            found = several if several == [ANYTHING] else ["", *several]
        elif self._next("+"):
            found = several
        elif self._next("?"):
            return _few(["", *atom]) if atom != [ANYTHING] else atom
        else:
            return atom
        self._next("?")  # as few as will do: which names are meant is the same
        return _few(found)

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.match(self.pattern, self.place)

    def _next(self, character: str) -> bool:
        found = self.pattern.startswith(character, self.place)
        self.place += found
        return found


def _times(atom: list[str], count: int) -> list[str]:
    names = [""]
    for _ in range(count):
        names = _few([name + more for name in names for more in atom])
    return names


def _characters(inside: str) -> list[str]:
    """One of the characters of a class."""
    found: list[str] = []
    place = 0
    while place < len(inside):
        if span := _RANGE.match(inside, place):
            first, last = (end for end in span.groups() if end is not None)
            found += [chr(code) for code in range(ord(first), ord(last) + 1)]
            place = span.end()
        elif inside.startswith(r"\d", place):
            found += _DIGITS
            place += 2
        elif inside[place] == "\\" and not inside[place + 1 : place + 2].isalnum():
            place += 1
        elif inside[place] == "\\":
            raise Unreadable
        else:
            found.append(inside[place])
            place += 1
    if not found:
        raise Unreadable
    return list(dict.fromkeys(found))


def _few(names: list[str]) -> list[str]:
    if len(names) > _MOST_NAMES:
        raise Unreadable
    return names
