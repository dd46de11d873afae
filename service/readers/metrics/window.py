"""Two scrapes of one text: what was counted between them, process by process."""

from collections.abc import Mapping
from itertools import pairwise

import msgspec

from service.readers.metrics.cumulative import Cumulative
from service.readers.metrics.samples import Labels

Side = Mapping[Labels, Cumulative]
"""The series of one histogram by their labels."""


class Between(msgspec.Struct, frozen=True):
    """What each side counted between two scrapes, and the processes for which that is another window."""

    prompt: tuple[Cumulative, ...]
    output: tuple[Cumulative, ...]
    restarted: tuple[Labels, ...]
    """Their later counts are all since they started again."""
    started: tuple[Labels, ...]
    """Not there yet in the earlier scrape."""
    gone: tuple[Labels, ...]
    """Not there any more in the later one."""


def between(earlier: tuple[Side, Side], later: tuple[Side, Side]) -> Between:
    """Take the earlier counts from the later ones. A process that started again is seen by any count that fell.

    Prompts and outputs of one process have the same labels, so that where one of them tells of a new start both are
    taken whole: else they would count other requests.
    """
    fallen = {
        labels
        for before, after in zip(earlier, later, strict=True)
        for labels, series in after.items()
        if labels in before and _fell(before[labels], series)
    }
    known_before = earlier[0].keys() | earlier[1].keys()
    known_after = later[0].keys() | later[1].keys()

    def counted(before: Side, after: Side) -> tuple[Cumulative, ...]:
        return tuple(
            series if labels in fallen or labels not in before else _less(series, before[labels])
            for labels, series in after.items()
        )

    return Between(
        prompt=counted(earlier[0], later[0]),
        output=counted(earlier[1], later[1]),
        restarted=tuple(sorted(fallen)),
        started=tuple(sorted(known_after - known_before)),
        gone=tuple(sorted(known_before - known_after)),
    )


def _fell(before: Cumulative, after: Cumulative) -> bool:
    """Whether any bin holds fewer requests than before, or has other edges: a process never takes a request back."""
    if [edge for edge, _ in before.counts] != [edge for edge, _ in after.counts]:
        return True
    tokens_fell = before.tokens is not None and after.tokens is not None and after.tokens < before.tokens
    return tokens_fell or any(new < old for old, new in zip(_bins(before), _bins(after), strict=True))


def _bins(series: Cumulative) -> list[int]:
    return [count - before for before, count in pairwise([0, *(count for _, count in series.counts)])]


def _less(after: Cumulative, before: Cumulative) -> Cumulative:
    counts = tuple((edge, count - old) for (edge, count), (_, old) in zip(after.counts, before.counts, strict=True))
    tokens = None if after.tokens is None or before.tokens is None else after.tokens - before.tokens
    return msgspec.structs.replace(after, counts=counts, tokens=tokens)
