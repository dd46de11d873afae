"""What an engine opens: tables to read lengths from, and how far it has come with them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from service.errors import HeadcountError, SetUpError
from service.warehouse.expression import Lengths


class Opened(msgspec.Struct, frozen=True):
    """Tables of one engine, open until it is closed."""

    engine: str
    lengths: tuple[Lengths, ...]
    done: Callable[[], float | None]
    """The share of the work that is done, from 0 to 1, for another thread to ask; None where it isn't known."""
    stop: Callable[[], object]
    """End the work, from another thread."""


@contextmanager
def errors_of(engine: str, told: Callable[[Exception], str]) -> Iterator[None]:
    """A place for what the engine does. Raises `SetUpError` with what it told about an error of its own."""
    try:
        yield
    except HeadcountError:
        raise
    except Exception as error:  # each engine, driver and server raises errors of its own
        raise SetUpError(f"{engine} can't read that: {told(error)}") from error


def first_line(error: Exception) -> str:
    """What an error says before its details."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
