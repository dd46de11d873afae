"""The answer as a table that a person wants to read."""

import sys

import msgspec
from rich.console import Console, JustifyMethod
from rich.table import Column, Table
from rich.text import Text

from service.capacity.answer import Answer
from service.cli.output import printable

_WIDTH_OF_A_FILE = 120
_NARROWEST = 80
"""A narrower terminal wraps the table by itself; a figure cut short would be another figure."""
_COLUMNS: tuple[tuple[str, JustifyMethod], ...] = (
    ("step", "right"),
    ("", "left"),
    ("shown", "right"),
    ("", "left"),
    ("how", "left"),
)


def print_answer(answer: bytes) -> None:
    """Print the summary, the eight steps, and what the reader should know. Takes the JSON of an `Answer`."""
    # No markup: keys and formulas hold square brackets.
    console = Console(markup=False, highlight=False, emoji=False)
    console.width = max(_NARROWEST, console.width) if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    with console.capture() as captured:
        _print(msgspec.convert(_printable_texts(msgspec.json.decode(answer)), Answer), console)
    # Tables fill their last column with blanks, which a terminal would wrap and a diff would show.
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _printable_texts(value: object) -> object:
    match value:
        case str():
            return printable(value)
        case list():
            return [_printable_texts(item) for item in value]
        case dict():
            return {key: _printable_texts(item) for key, item in value.items()}
        case _:
            return value


def _print(answer: Answer, console: Console) -> None:
    console.print(Text(answer.summary, style="bold"))
    console.print()
    console.print(_ladder(answer))
    for line in (*_groups(answer), *_nearest(answer)):
        console.print(line)
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
            bullet = Table.grid(Column(), Column(overflow="fold"), padding=(0, 1))
            bullet.add_row("  -", line)
            console.print(bullet)


def _groups(answer: Answer) -> list[str]:
    """Lines on how the engine groups the cache, and what padding wastes; none where it doesn't."""
    cache = answer.kv_cache
    if not cache.groups:
        return []
    return [
        "\nGroups",
        *(
            f"  {group.layers} layers of {' and '.join(group.kinds)}: {group.blocks_per_window:,}"
            f" x {_block(group.block_size)} for a full window, {group.used_bytes_per_block:,} of"
            f" {cache.block_bytes:,} B used"
            for group in cache.groups
        ),
        f"  padding: {cache.padding_bytes_per_window:,} B of what a full window takes",
    ]


def _block(tokens: int | None) -> str:
    return "a block of its state" if tokens is None else f"a block of {tokens:,} tokens"


def _nearest(answer: Answer) -> list[str]:
    """Lines on the nearest change of one lever that would make it fit."""
    inverse = answer.inverse
    if inverse is None:
        return []
    found = []
    if inverse.max_model_len is not None:
        found.append(f"  max_model_len of at most {inverse.max_model_len:,}")
    if inverse.gpu_memory_utilization is not None:
        found.append(f"  gpu_memory_utilization of at least {inverse.gpu_memory_utilization!r}")
    return ["\nWould fit with", *(found or ["  no window and no share of the memory: see the other levers"])]


def _ladder(answer: Answer) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, justify in _COLUMNS:
        # Fold, where a table would cut what is too long and end it in dots.
        table.add_column(title, justify=justify, overflow="fold")
    for rung in answer.ladder:
        certainty = "" if rung.certainty == "exact" else rung.certainty
        table.add_row(str(rung.step), rung.name.replace("_", " "), rung.shown, certainty, rung.formula)
    return table
