"""From what an engine counted to a workload, and to what was refused of the rows."""

from collections import Counter

import msgspec

from service.errors import InvalidParameters
from service.readers.question import MOST_TOKENS, AskedJoint
from service.warehouse.edges import edges_up_to
from service.warehouse.engine import Opened
from service.warehouse.expression import BEYOND, MISSING, NOT_POSITIVE, NOT_WHOLE, histogram

_REASONS = {
    MISSING: "without {} tokens",
    NOT_WHOLE: "whose {} tokens are no whole number",
    NOT_POSITIVE: "whose {} tokens are 0 or less",
    BEYOND: f"of more than {MOST_TOKENS:,} {{}} tokens",
}


class Reduced(msgspec.Struct, frozen=True):
    """A workload, and how many rows it was made from and without."""

    workload: AskedJoint
    counted: int
    refused: tuple[tuple[str, int], ...]
    """Rows by the reason that they are left out for; a row with two is left out for its prompt."""


def reduced(opened: Opened) -> Reduced:
    """Count the requests. Raises `InvalidParameters` where there is none, and what the engine raises."""
    counts: Counter[tuple[int, int]] = Counter()
    for row in histogram(opened.lengths).to_pyarrow().to_pylist():
        counts[row["prompt"], row["output"]] += row["requests"]
    cells = sorted((i, j, count) for (i, j), count in counts.items() if min(i, j) >= 0)
    refused = Counter(dict.fromkeys(_reasons(), 0))
    for (i, j), count in counts.items():
        if min(i, j) < 0:
            refused[_REASONS[i].format("prompt") if i < 0 else _REASONS[j].format("output")] += count
    told = tuple((reason, count) for reason, count in refused.items() if count)
    if not cells:
        raise InvalidParameters(("FILE", f"there is no request in it: {listed(told) or '0 rows'}"))
    workload = AskedJoint(
        prompt_edges=edges_up_to(max(i for i, _, _ in cells)),
        output_edges=edges_up_to(max(j for _, j, _ in cells)),
        counts=tuple(cells),
    )
    return Reduced(workload, sum(count for _, _, count in cells), told)


def listed(refused: tuple[tuple[str, int], ...]) -> str:
    """The refused rows, reason by reason."""
    return ", ".join(f"{count:,} {reason}" for reason, count in refused)


def _reasons() -> list[str]:
    return [text.format(side) for side in ("prompt", "output") for text in _REASONS.values()]
