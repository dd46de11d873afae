"""Users at a risk, for people: counts, and a small plot of how the chance of an overflow rises with the users."""

from collections.abc import Iterator

from rich.bar import Bar
from rich.console import RenderableType
from rich.table import Table

from service.capacity.answer import Occupancy, Users

_WIDTH = 32
"""Columns of the plot: what an 80-column terminal has room for beside the figures."""


def risk_lines(occupancy: Occupancy, users: Users) -> Iterator[RenderableType]:
    """Lines on users at each risk, where to cap admission, and the curve. Counts of the curve are of one pool."""
    counts = ", ".join(f"{one.users:,} at {one.risk:g}" for one in users.at_risk or ())
    yield f"\nUsers at a risk: {counts}"
    if occupancy.bracket is not None:
        yield f"  between {occupancy.bracket.low:,} and {occupancy.bracket.high:,} by how lengths may go together"
    yield f"  proven: {occupancy.guaranteed.value:,}; with drift: {occupancy.with_drift.value:,}"
    yield f"  recommended max_num_seqs: {users.recommended_max_num_seqs:,} ({occupancy.recommended.formula})"
    yield "\nOverflow by users of one pool"
    yield _curve(occupancy)


def _curve(occupancy: Occupancy) -> Table:
    plot = Table.grid(padding=(0, 2))
    for justify in ("right", "right", "left"):
        plot.add_column(justify=justify)
    most = max((point.overflow for point in occupancy.curve), default=0.0) or 1.0
    for point in occupancy.curve:
        plot.add_row(
            f"  {point.users:,}", f"{point.overflow:.3%}", Bar(size=most, begin=0, end=point.overflow, width=_WIDTH)
        )
    return plot
