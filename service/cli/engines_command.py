"""`headcount engines fit`: new overheads of engines from the start-ups that were recorded, and their approval.

What opens the database is imported when it runs: it takes longer to import than a plan to make.
"""

import argparse

from rich.table import Table

from service.capacity.reserve_rules import Overhead
from service.capacity.units import shown_gib
from service.catalog.fitting import Fit, Proposal
from service.cli.output import printable, whole_output
from service.cli.paper import paper
from service.errors import Fault, InvalidParameters, Refused

_LONGEST_AUTHOR = 100


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("engines", help="learn what engines keep back from recorded start-ups")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    fitting = actions.add_parser(
        "fit",
        help="propose new reserves",
        description=(
            "Fit what engines keep back anew from the start-ups in the database, and print each row before and after."
            " Nothing is written without --approve, which publishes the rows as a new version of the engine. Who may"
            " approve is who may open the database: HEADCOUNT_DATABASE_URL, or the embedded one, also while it serves."
        ),
    )
    fitting.add_argument(
        "engine", nargs="?", metavar="ENGINE", help="an engine's key; all that were observed if left out"
    )
    fitting.add_argument("--approve", action="store_true", help="publish what is proposed")
    fitting.add_argument("--author", metavar="NAME", help="who approves it; goes with --approve")
    fitting.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Propose, and publish if told."""
    from service.cli.serving import database_beside_a_server  # noqa: PLC0415 - see above
    from service.store.fitting import approve, fits  # noqa: PLC0415

    author = _author(arguments)
    with database_beside_a_server() as url, whole_output():
        found = fits(url, arguments.engine)
        if not any(one.proposal or one.faults for one in found):
            print("No recorded start-up says what was kept back: there is nothing to fit.")
        faults: list[Fault] = []
        for one in found:
            faults += one.faults
            _print_left_out(one)
            if one.proposal is None:
                continue
            _print(one.proposal)
            if author is not None:
                try:
                    version, whose = approve(url, one.proposal, author)
                except Refused as refused:  # it was published anew meanwhile; the others may not have been
                    faults += refused.faults
                    continue
                print(f"{one.key}: version {version} is the newest, by {printable(whose)}")
    if faults:
        raise Refused(*faults)
    return 0


def _print_left_out(fit: Fit) -> None:
    for observation in fit.impossible:
        print(f"{printable(fit.key)}: {observation} doesn't count: no engine keeps back so much, or so little")


def _author(arguments: argparse.Namespace) -> str | None:
    author: str | None = arguments.author
    if arguments.approve != (author is not None):
        raise InvalidParameters(("--author", "goes with --approve: a version says who approved it"))
    if author is not None and not (author.strip() and author.isprintable() and len(author) <= _LONGEST_AUTHOR):
        raise InvalidParameters(("--author", f"is a name of at most {_LONGEST_AUTHOR} characters that can be printed"))
    return author


def _print(proposal: Proposal) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("kept beside the step by", overflow="fold")
    for title in ("tensor parallel", "start-ups", "best", "low", "high"):
        table.add_column(title, justify="right", no_wrap=True)
    for old, new in proposal.rows:
        table.add_row(
            _kind(old),
            "{}-{}".format(*old.tensor_parallel),
            f"{old.logs} -> {new.logs}",
            *(f"{shown_gib(before)} -> {shown_gib(after)}" for before, after in _ends(old, new)),
        )
    with paper() as console:
        console.print(proposal.key)
        console.print(table)
    if any(new.best < 0 for _, new in proposal.rows):
        print(
            "Below zero: less was kept back than the step alone takes. Were those engines started as their plans say?"
        )
    if proposal.passed_over:
        print(f"{proposal.passed_over} more start-ups don't say what a rank kept back")


def _ends(old: Overhead, new: Overhead) -> list[tuple[int, int]]:
    return [(old.best, new.best), (old.low, new.low), (old.high, new.high)]


def _kind(row: Overhead) -> str:
    """The kind of deployments that a row is of, in a few words."""
    experts = {None: "", True: "with experts", False: "without experts"}[row.experts]
    parts = [", ".join(row.cards), ", ".join(row.caches), ", ".join(row.weights), experts]
    return printable("; ".join(part for part in parts if part) or "any deployment")
