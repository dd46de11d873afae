"""`headcount observe`: what an engine printed when it started, recorded by a server beside what was predicted.

What asks a server is imported when one is asked: it takes longer to import than the rest.
"""

import argparse
import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.capacity.observed import ComparedFigure
from service.capacity.units import shown_gib
from service.catalog.observing import Observation
from service.cli.input import read_from
from service.cli.output import print_json, printable_texts, whole_output
from service.cli.paper import paper
from service.cli.server_commands import HOST, PORT
from service.readers import strict_json
from service.readers.observation import LONGEST_LOG, AskedObservation, check_length
from service.readers.start_up_log import text_of


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "observe",
        help="compare an engine's start-up log with a recorded plan",
        description=(
            "Record what an engine printed when it started beside what a recorded plan predicted, and print which"
            " figure was off. The log is sent to the server, which keeps its digest and the facts found in it."
        ),
    )
    parser.add_argument("log", metavar="LOG", type=Path, help="the log of the start; - reads standard input")
    parser.add_argument("--plan", metavar="ID", required=True, help="the id of the plan, pln_...")
    address = f"http://{HOST}:{PORT}"
    parser.add_argument("--server", metavar="URL", default=address, help=f"the server; {address} when left out")
    parser.add_argument("--json", action="store_true", help="print what POST /v1/observations returns")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read, send and print."""
    from service.cli.asking import ask  # noqa: PLC0415 - see above

    document = {"plan": arguments.plan, "log": _log_in(arguments.log)}
    asked = strict_json.convert(document, AskedObservation)
    answer = ask(arguments.server, "/v1/observations", asked, Observation).content
    with whole_output():
        if arguments.json:
            print_json(answer)
        else:
            with paper() as console:
                _print(msgspec.convert(printable_texts(msgspec.json.decode(answer)), Observation), console)
    return 0


def _log_in(path: Path) -> str:
    """Read a log as text. What can't stand in JSON stands in no line that is read."""
    most = 2 * LONGEST_LOG + 3  # UTF-16 has a mark, and two bytes for one of JSON; nothing else has more
    with read_from(path):
        if str(path) == "-":
            body = sys.stdin.buffer.read(most)
        else:
            with path.open("rb") as file:
                body = file.read(most)
    log = text_of(body).replace("\0", "\ufffd")
    check_length(log)
    return log


def _print(observation: Observation, console: Console) -> None:
    console.print(Text(observation.comparison.summary, style="bold"))
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for title in ("predicted", "between", "observed", "difference"):
        table.add_column(title, justify="right")
    table.add_column("")
    for figure in observation.comparison.figures:
        table.add_row(
            figure.name.replace("_", " "),
            _shown(figure.predicted, figure.unit),
            _between(figure),
            _shown(figure.observed, figure.unit),
            _signed(figure),
            _held(figure),
        )
    console.print(table)
    if observation.not_stated:
        console.print(f"\nNot stated by the log: {', '.join(observation.not_stated)}")
    for note in observation.notes:
        console.print(note)
    console.print(f"\n{observation.observation}")


def _shown(amount: float, unit: str) -> str:
    if unit == "B":
        return shown_gib(int(amount))
    return f"{amount:,.2f}" if unit == "users" else f"{amount:,}"


def _between(figure: ComparedFigure) -> str:
    if figure.low == figure.high:
        return ""
    return f"{_shown(figure.low, figure.unit)} to {_shown(figure.high, figure.unit)}"


def _signed(figure: ComparedFigure) -> str:
    return f"{'+' if figure.difference > 0 else ''}{_shown(figure.difference, figure.unit)}"


def _held(figure: ComparedFigure) -> str:
    if figure.within_rounding:
        return "as printed"
    if figure.low == figure.high:
        return ""
    return "in the interval" if figure.within_interval else "outside of it"
