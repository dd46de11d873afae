"""Requests made up by chance, and what plain NumPy counts of them: no engine, and none of the project's binning."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Numbers = npt.NDArray[np.int64]

# Written out: 0, 1, 2, 4, 8, then three to an octave, 2^(k/3) to the nearest whole number.
TO_2_20 = (
    *(
        0,
        1,
        2,
        4,
        8,
        16,
        20,
        25,
        32,
        40,
        51,
        64,
        81,
        102,
        128,
        161,
        203,
        256,
        323,
        406,
        512,
        645,
        813,
        1024,
        1290,
        1625,
    ),
    *(2048, 2580, 3251, 4096, 5161, 6502, 8192, 10321, 13004, 16384, 20643, 26008, 32768, 41285, 52016, 65536, 82570),
    *(104032, 131072, 165140, 208064, 262144, 330281, 416128, 524288, 660561, 832255, 1048576),
)
_AT_ONCE = 1_000_000


def requests(rows: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Prompts and outputs, part by part: log-normal, a tenth exactly on an edge or beside one."""
    chance = np.random.default_rng(20)
    for start in range(0, rows, _AT_ONCE):
        size = min(_AT_ONCE, rows - start)
        sides = []
        for middle, spread in ((7.0, 1.6), (5.3, 1.3)):
            lengths = np.exp(chance.normal(middle, spread, size)).astype(np.int64).clip(1, TO_2_20[-1])
            beside = chance.choice(TO_2_20[1:], size) + chance.integers(-1, 2, size)
            sides.append(np.where(chance.random(size) < 0.1, beside.clip(1, TO_2_20[-1]), lengths))
        yield sides[0], sides[1]


def write(rows: int, file: Path) -> None:
    """The requests as Parquet, with what logs hold beside: an identifier and a time."""
    schema = pa.schema(
        [("id", pa.string()), ("arrival_s", pa.float64()), ("prompt_tokens", pa.int64()), ("output_tokens", pa.int64())]
    )
    written = 0
    with pq.ParquetWriter(file, schema) as writer:
        for prompts, outputs in requests(rows):
            numbers = np.arange(written, written + len(prompts))
            names = pa.array([f"cmpl-{number:012d}" for number in numbers])
            writer.write_table(
                pa.table([names, pa.array(numbers / 7), pa.array(prompts), pa.array(outputs)], schema=schema),
                row_group_size=2**17,
            )
            written += len(prompts)


def histogram(rows: int) -> list[list[int]]:
    """What the cells of these requests hold: [bin of the prompt, bin of the output, requests]."""
    sides = len(TO_2_20) - 1
    cells = np.zeros(sides * sides, dtype=np.int64)
    for prompts, outputs in requests(rows):
        # side="left": a length equal to an edge is in the bin that ends there.
        places = [np.searchsorted(TO_2_20, lengths, side="left") - 1 for lengths in (prompts, outputs)]
        cells += np.bincount(places[0] * sides + places[1], minlength=cells.size)
    return [[int(cell) // sides, int(cell) % sides, int(cells[cell])] for cell in np.flatnonzero(cells)]
