"""The answer as a table that a person wants to read."""

from collections import Counter
from collections.abc import Iterator

import msgspec
from rich.console import Console, JustifyMethod, RenderableType
from rich.table import Column, Table
from rich.text import Text

from service.capacity.answer import Answer, CacheGroup
from service.capacity.question import ObservedReserve
from service.capacity.units import shown_gib
from service.cli.output import printable_texts
from service.cli.paper import paper
from service.cli.risk_curve import risk_lines

_NARROWEST = 80
"""A narrower terminal wraps the table by itself; a figure cut short would be another figure."""
_COLUMNS: tuple[tuple[str, JustifyMethod], ...] = (
    ("step", "right"),
    ("", "left"),
    ("shown", "right"),
    ("", "left"),
    ("how", "left"),
)


def print_answer(answer: bytes, offer: ObservedReserve | None) -> None:
    """Print the summary, the eight steps, and what the reader should know. Takes the JSON of an `Answer`."""
    with paper(_NARROWEST) as console:
        _print(msgspec.convert(printable_texts(msgspec.json.decode(answer)), Answer), offer, console)


def _print(answer: Answer, offer: ObservedReserve | None, console: Console) -> None:
    console.print(Text(answer.summary, style="bold"))
    console.print()
    console.print(_ladder(answer))
    for line in (*_interval(answer), *_groups(answer), *_nearest(answer)):
        console.print(line)
    for part in _workload(answer):
        console.print(part)
    for title, lines in (
        ("Assumed", [f"{one.name} = {one.value}: {one.reason}" for one in answer.assumed]),
        ("Worth knowing", [f"{one.code}: {one.text}" for one in answer.caveats]),
        ("Observed", [] if offer is None else [_offered(offer)]),
    ):
        if lines:
            console.print(f"\n{title}")
        for line in lines:
            bullet = Table.grid(Column(), Column(overflow="fold"), padding=(0, 1))
            bullet.add_row("  -", line)
            console.print(bullet)


def _offered(offer: ObservedReserve) -> str:
    amount, count = offer.bytes, offer.start_ups
    kept = f"{count} start-ups" if count > 1 else "a start-up"
    between = "" if amount.low == amount.high else f" ({shown_gib(amount.low)} to {shown_gib(amount.high)})"
    return (
        f"{kept} of this deployment kept {shown_gib(amount.best)}{between} back, the newest {offer.observation} of"
        f" {offer.on}: --reserve observed takes that at step 4"
    )


def _workload(answer: Answer) -> Iterator[RenderableType]:
    """Lines on the lengths, on users at a risk, and on people; none without a workload."""
    held, named = answer.workload, answer.inputs.workload
    if held is None:
        return
    name = "" if named is None else f" {named.key} version {named.version}"
    yield (
        f"\nWorkload{name} ({held.kind}, confidence {held.confidence}): {held.mean_held_tokens:,g} tokens in"
        f" {held.mean_held_blocks:,g} blocks held on average"
    )
    if held.rejected_share or held.truncated_share:
        yield (
            f"  rejected (prompt too long for the window): {held.rejected_share:.4%};"
            f" cut at the window: {held.truncated_share:.4%}"
        )
    if answer.occupancy is not None:
        yield from risk_lines(answer.occupancy, answer.users)
    if answer.sessions is not None:
        warm = answer.sessions.warm_sessions
        yield f"\nPeople: {answer.sessions.people.value:,} ({answer.sessions.people.formula})"
        if warm is not None:
            yield f"  warm conversations: {warm.value:,} ({warm.formula})"


def _interval(answer: Answer) -> list[str]:
    """Lines on between what the answer lies; none where nothing about the memory is in doubt."""
    between = answer.interval
    if between is None:
        return []
    budget, tokens, users = between.budget_bytes, between.tokens, between.users_worst_case
    rows = (
        ("", "at worst", "most likely", "at best"),
        ("kv budget", *(shown_gib(end) for end in (budget.low, budget.best, budget.high))),
        ("tokens of full windows", *(f"{end:,}" for end in (tokens.low, tokens.best, tokens.high))),
        ("users worst case", *(f"{end:,}" for end in (users.low, users.best, users.high))),
    )
    verdict = answer.verdict.replace("_", " ")
    return [
        f"\nInterval (verdict: {verdict})",
        *(f"  {name:24}{low:>12}{best:>14}{high:>12}" for name, low, best, high in rows),
    ]


def _groups(answer: Answer) -> list[str]:
    """Lines on how the engine groups the cache, and what padding wastes; none where it doesn't."""
    cache = answer.kv_cache
    if not cache.groups:
        return []
    alike = Counter(cache.groups)
    window = next(rung.value for rung in answer.ladder if rung.name == "bytes_per_window")
    whole, padding = shown_gib(window), shown_gib(cache.padding_bytes_per_window)
    printed = f", {cache.printed_tokens:,} tokens" if cache.printed_tokens is not None else ""
    return [
        "\nGroups",
        *(
            f"  {f'{count} groups of ' if count > 1 else ''}{group.layers} layers of {' and '.join(group.kinds)}:"
            f" {group.blocks_per_window:,} {_blocks(group)} for a full window"
            for group, count in alike.items()
        ),
        f"  padding: {padding} of the {whole} that a full window takes ({cache.padding_bytes_per_window:,} B)",
        # Not from `max_concurrency`: it has six digits, and rounding it once more may turn the last.
        f"  printed at start-up: {cache.blocks * cache.block_bytes / window:,.2f}x{printed}",
    ]


def _blocks(group: CacheGroup) -> str:
    blocks = "block" if group.blocks_per_window == 1 else "blocks"
    return f"{blocks} of its state" if group.block_size is None else f"{blocks} of {group.block_size:,} tokens"


def _nearest(answer: Answer) -> list[str]:
    """Lines on the nearest change of one lever that would make it fit."""
    inverse = answer.inverse
    if inverse is None:
        return []
    window, share = inverse.max_model_len, inverse.gpu_memory_utilization
    found = (
        f"max_model_len of at most {window:,}" if window is not None else None,
        f"gpu_memory_utilization of at least {share!r}" if share is not None else None,
    )
    return [
        *(["\nWould fit with", *(f"  {line}" for line in found if line)] if any(found) else []),
        *(["\nWould not help"] if inverse.reasons else []),
        *(f"  {one.name}: {one.reason}" for one in inverse.reasons),
    ]


def _ladder(answer: Answer) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, justify in _COLUMNS:
        # Fold, where a table would cut what is too long and end it in dots.
        table.add_column(title, justify=justify, overflow="fold")
    for rung in answer.ladder:
        certainty = "" if rung.certainty == "exact" else rung.certainty
        table.add_row(str(rung.step), rung.name.replace("_", " "), rung.shown, certainty, rung.formula)
    return table
