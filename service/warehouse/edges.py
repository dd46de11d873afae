"""The edges of the bins that lengths are counted in: 0, 1, 2, 4, 8, and from 16 on three to an octave."""

from service.readers.question import MOST_TOKENS

_THIRDS_OF_16 = 12
"""16 is 2^(12/3)."""
_LEAST_SHOWN = 2**20


def _cube_root(number: int) -> int:
    """The whole number nearest to the cube root, in whole numbers: the last digit of a float could differ."""
    root: int = round(float(number) ** (1 / 3))
    while (2 * root - 1) ** 3 > 8 * number:
        root -= 1
    while (2 * root + 1) ** 3 <= 8 * number:
        root += 1
    return root


EDGES = (0, 1, 2, 4, 8, *(_cube_root(2**thirds) for thirds in range(_THIRDS_OF_16, 3 * 31)), MOST_TOKENS)
"""Tokens, rising, up to the longest length that a question may hold. Bin i is (EDGES[i], EDGES[i + 1]].

So few that any two sides keep the limits of a joint histogram, which is why no bins are ever merged.
"""


def edges_up_to(last_bin: int) -> tuple[int, ...]:
    """Edges of the bins up to this one, and up to 2^20 in any case: histograms of most logs have the same."""
    return EDGES[: max(last_bin + 2, EDGES.index(_LEAST_SHOWN) + 1)]
