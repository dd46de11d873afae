"""`headcount`: reads the command line, runs one command, and turns every expected error into one line."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from service.cli import plan_command, server_commands
from service.errors import HeadcountError, InvalidParameters, Refused

FAILED = 1
REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0, 1 for a fault of the set-up, 2 for a question refused."""
    parsed = _parser().parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone (`| head`); what is left in the buffer can't be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return FAILED
    except (Refused, InvalidParameters) as error:
        _complain(error)
        return REFUSED
    except HeadcountError as error:
        _complain(error)
        return FAILED
    return status


def _complain(error: HeadcountError) -> None:
    if isinstance(error, Refused):
        for fault in error.faults:
            where = fault.pointer.removeprefix("/").replace("/", ".")
            print(f"headcount: {where + ': ' if where else ''}{fault.detail}", file=sys.stderr)
    else:
        print(f"headcount: {error}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headcount", description="How many concurrent users fit on this GPU, and why?"
    )
    parser.add_argument("--version", action="version", version=f"headcount {version('headcount')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    plan_command.add_to(commands)
    server_commands.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
