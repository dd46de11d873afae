"""The last number of which something holds, found by halving."""

from collections.abc import Callable


def last_that_holds(holds: Callable[[int], bool], known: int, beyond: int) -> int:
    """The last number from `known` on, before `beyond`, of what holds up to some number and never again.

    That it holds of `known`, and not of `beyond`, isn't looked at.
    """
    while beyond - known > 1:
        middle = (known + beyond) // 2
        if holds(middle):
            known = middle
        else:
            beyond = middle
    return known
