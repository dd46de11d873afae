"""The care that what is printed reaches its reader, and nothing that it didn't ask for."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import HeadcountError, InvalidParameters, MalformedJson, Refused, SetUpError


@contextmanager
def whole_output() -> Iterator[None]:
    """What is printed inside has been written at the end. Raises `SetUpError`, or `BrokenPipeError` (`| head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output()
        raise SetUpError(f"standard output can't be written: {error.strerror}") from error


def print_json(document: bytes) -> None:
    """Print a document byte for byte; on a terminal the prompt that follows gets a line of its own."""
    sys.stdout.buffer.write(document)
    if sys.stdout.isatty():
        print()


def drop_output() -> None:
    """Forget what couldn't be written; Python would try again at exit, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def lines_of(error: HeadcountError) -> list[str]:
    """One line for each thing that is wrong, led by its place in the question where it has one."""
    match error:
        case Refused(faults=faults):
            named = [(_dotted(fault.pointer), fault.detail) for fault in faults]
        case MalformedJson(fault=fault):
            named = [(_dotted(fault.pointer), fault.detail)]
        case InvalidParameters(faults=parameters):
            named = list(parameters)
        case _:
            named = [("", str(error))]
    return [printable(f"{name}: {detail}" if name else detail) for name, detail in named]


def printable(text: str) -> str:
    """The text with whatever would move the cursor, break the line or hide a letter written as an escape.

    Texts that a server, a file or an argument brought could otherwise rewrite what the terminal shows.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def printable_texts(value: object) -> object:
    """The same of every text in a JSON document."""
    match value:
        case str():
            return printable(value)
        case list():
            return [printable_texts(item) for item in value]
        case dict():
            return {key: printable_texts(item) for key, item in value.items()}
        case _:
            return value


def _dotted(pointer: str) -> str:
    return pointer.removeprefix("/").replace("/", ".")
