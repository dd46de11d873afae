"""`headcount`: reads the command line, runs one command, and turns every expected error into lines that say it."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

from service.cli import (
    engines_command,
    import_command,
    observe_command,
    plan_command,
    server_commands,
    workload_command,
)
from service.cli.output import drop_output, lines_of, printable, whole_output
from service.errors import HeadcountError, SetUpError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

FAILED = 1
REFUSED = 2


class _Parser(argparse.ArgumentParser):
    """A parser whose errors repeat arguments without obeying them, and whose help says when it can't be written."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        if file is sys.stdout:
            with whole_output():
                print(message, end="")
        else:
            super()._print_message(message, file)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0, 1 for a fault of the set-up, 2 for a question refused."""
    try:
        _open_output()
        parsed = _parser().parse_args(arguments)
        status: int = parsed.run(parsed)
        with whole_output():
            return status
    except BrokenPipeError:  # the reader has gone
        drop_output()
        return FAILED
    except KeyboardInterrupt:
        return FAILED
    except SetUpError as error:
        _complain(error)
        return FAILED
    except HeadcountError as error:
        _complain(error)
        return REFUSED


def _open_output() -> None:
    if sys.stdout is None:
        raise SetUpError("standard output is closed")
    if isinstance(sys.stdout, TextIOWrapper):
        # Formulas and sources hold more than ASCII, which is all that some terminals are set to.
        sys.stdout.reconfigure(errors="backslashreplace")


def _complain(error: HeadcountError) -> None:
    if sys.stderr is None:  # print() would take standard output instead
        return
    with suppress(OSError):
        for line in lines_of(error):
            print(f"headcount: {line}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="headcount", description="How many concurrent users fit on this GPU, and why?"
    )
    parser.add_argument("--version", action="version", version=f"headcount {version('headcount')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    plan_command.add_to(commands)
    import_command.add_to(commands)
    observe_command.add_to(commands)
    engines_command.add_to(commands)
    workload_command.add_to(commands)
    server_commands.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
