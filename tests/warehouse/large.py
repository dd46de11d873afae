"""Made-up requests by the million in Parquet, on DuckDB, Spark and NumPy: the same bins, and how much memory they take.

`make warehouse`; ROWS=1000000 for fewer than 10 million.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.servers import REPOSITORY
from tests.warehouse import counted
from tests.warehouse.commands import spark

MOST_GROWTH = 1.1
"""Of the peak of memory, from a tenth of the rows to four times as many."""

# A process between: Linux counts what this one holds as the peak of what it starts itself.
_MEASURED = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL);"
    " print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)"
)
_TO_MIB = 20 if sys.platform == "darwin" else 10


def measured(file: Path, *options: str, python: str | Path = sys.executable) -> tuple[list[list[int]], float, int]:
    """The counts, the seconds and the peak of memory in MiB of one run; of Spark without its Java."""
    command = [python, "-m", "service.cli.main", "workload", "from", file, *options]
    began = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-c", _MEASURED, *command], check=True, capture_output=True, text=True, cwd=REPOSITORY
    )
    return json.loads(result.stdout)["counts"], time.monotonic() - began, int(result.stderr) >> _TO_MIB


def main() -> int:
    """Print what is found; the status is 1 where bins differ or memory grows with the rows."""
    rows = int(os.environ.get("ROWS", "10000000"))
    wrong = []
    with tempfile.TemporaryDirectory(prefix="headcount-warehouse-") as folder:
        peaks = []
        for size in (rows // 10, rows, rows * 4):
            file = Path(folder, f"{size}.parquet")
            counted.write(size, file)
            cells, seconds, peak = measured(file)
            peaks.append(peak)
            if cells != counted.histogram(size):
                wrong.append(f"{size:,} rows on DuckDB are not counted as NumPy counts them")
            millions = file.stat().st_size / 1e6
            print(f"{size:>12,} rows, {millions:5.0f} MB: DuckDB {seconds:6.1f} s, peak {peak:,} MiB", flush=True)
        if peaks[-1] > peaks[0] * MOST_GROWTH:
            wrong.append("memory grows with the rows")
        cells, seconds, _ = measured(Path(folder, f"{rows}.parquet"), "--engine", "spark", python=spark())
        if cells != counted.histogram(rows):
            wrong.append(f"{rows:,} rows on Spark are not counted as NumPy counts them")
        print(f"{rows:>12,} rows: Spark {seconds:6.1f} s")
    print("\n".join(wrong) or f"DuckDB, Spark and NumPy agree on all {len(cells):,} cells")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
