"""What tables are printed on: a terminal, or a file of a fixed width."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

_WIDTH_OF_A_FILE = 120


@contextmanager
def paper(narrowest: int = 0) -> Iterator[Console]:
    """A console as wide as the terminal, or so many columns if that is more; printed at the end."""
    # No markup: keys and formulas hold square brackets.
    console = Console(markup=False, highlight=False, emoji=False)
    console.width = max(narrowest, console.width) if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    with console.capture() as captured:
        yield console
    # Tables fill their last column with blanks, which a terminal would wrap and a diff would show.
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))
