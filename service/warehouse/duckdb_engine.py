"""Files read by DuckDB in this process: in parallel, part by part, whatever their size."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import ibis
import ibis.expr.types as ir

from service.warehouse.engine import Opened, errors_of
from service.warehouse.expression import Lengths
from service.warehouse.files import PACKED, Batch
from service.warehouse.heads import check_packed


@contextmanager
def opened(batches: Sequence[Batch]) -> Iterator[Opened]:
    """Open a database in memory over the files. Raises `SetUpError` for what DuckDB can't read."""
    # Without its cache of files, which would grow with them. Nothing is downloaded: what is needed is built in.
    connected = ibis.duckdb.connect(enable_external_file_cache=False, autoinstall_known_extensions=False)
    try:
        for file in (file for batch in batches for file in batch.files if file.suffix == PACKED):
            check_packed(file)  # DuckDB takes one that is cut short for a shorter one
        with errors_of("DuckDB", told):
            lengths = [Lengths(_table(connected, batch), batch.prompt, batch.output) for batch in batches]
            yield Opened("DuckDB", tuple(lengths), lambda: share_done(connected), connected.con.interrupt)
    finally:
        connected.disconnect()


def share_done(connected: ibis.BaseBackend) -> float | None:
    """How far a DuckDB has come with its query."""
    percent: float = connected.con.query_progress()
    return percent / 100 if percent >= 0 else None


def told(error: Exception) -> str:
    """What DuckDB says of an error and in which file, without its advice and without the line of the log."""
    said, _, settings = str(error).partition("Possible")
    lines = [line for line in said.partition("LINE 1")[0].splitlines() if line.strip()]
    parts = dict.fromkeys((lines[0], lines[-1])) if lines else [type(error).__name__]
    file = re.search(r"^ *file = (.+)$", settings, re.MULTILINE)
    return "; ".join(part.strip() for part in parts) + (f" in {file[1]}" if file else "")


def _table(connected: ibis.BaseBackend, batch: Batch) -> ir.Table:
    files = [str(file) for file in batch.files]
    match batch.kind:
        case "csv":
            # All as text: what is a length is decided in one place, for all engines.
            return connected.read_csv(
                files,
                columns=dict.fromkeys(batch.names, "VARCHAR"),
                header=True,
                delim=batch.delimiter,
                quote='"',
                escape='"',
                hive_partitioning=False,
            )
        case "jsonl":
            texts = dict.fromkeys((batch.prompt[0], batch.output[0]), "VARCHAR")
            return connected.read_json(files, columns=texts, format="newline_delimited", hive_partitioning=False)
        case "parquet":
            return connected.read_parquet(files, hive_partitioning=False)
