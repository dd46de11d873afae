"""The answer as a table that a person wants to read."""

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.capacity.answer import Answer

_WIDTH_OF_A_FILE = 120


def print_answer(answer: Answer) -> None:
    """Print the summary, the eight steps, and what the reader should know."""
    # No markup: keys and formulas hold square brackets.
    console = Console(
        width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, markup=False, highlight=False, emoji=False
    )
    with console.capture() as captured:
        _print(answer, console)
    # Tables fill their last column with blanks, which a terminal would wrap and a diff would show.
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _print(answer: Answer, console: Console) -> None:
    console.print(Text(answer.summary, style="bold"))
    console.print()
    console.print(_ladder(answer))
    if answer.workload is not None:
        held = answer.workload
        console.print(
            f"\nWorkload ({held.kind}, confidence {held.confidence}): {held.mean_held_tokens:,g} tokens in"
            f" {held.mean_held_blocks:,g} blocks held on average"
        )
        if held.rejected_share or held.truncated_share:
            console.print(
                f"  rejected (prompt too long for the window): {held.rejected_share:.4%};"
                f" cut at the window: {held.truncated_share:.4%}"
            )
    for title, lines in (
        ("Assumed", [f"{one.name} = {one.value}: {one.reason}" for one in answer.assumed]),
        ("Worth knowing", [f"{one.code}: {one.text}" for one in answer.caveats]),
    ):
        console.print(f"\n{title}")
        for line in lines:
            bullet = Table.grid(padding=(0, 1))
            bullet.add_row("  -", line)
            console.print(bullet)


def _ladder(answer: Answer) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("step", justify="right")
    table.add_column("")
    table.add_column("shown", justify="right")
    table.add_column("")
    table.add_column("how", overflow="fold")
    for rung in answer.ladder:
        certainty = "" if rung.certainty == "exact" else rung.certainty
        table.add_row(str(rung.step), rung.name.replace("_", " "), rung.shown, certainty, rung.formula)
    return table
