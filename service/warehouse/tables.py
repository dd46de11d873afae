"""A table of a warehouse, read by the engine that its URL names: `duckdb://`, `postgres://` and others of Ibis."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from service.errors import InvalidParameters, SetUpError
from service.warehouse import columns, duckdb_engine
from service.warehouse.engine import Opened, errors_of, first_line
from service.warehouse.expression import Lengths

_IN_A_FILE = {"duckdb", "sqlite"}


@contextmanager
def opened(url: str, table: str, prompt: str | None, output: str | None) -> Iterator[Opened]:
    """Open a table, whose name may have its schema before a dot.

    Raises `InvalidParameters` for a URL of nothing and for columns that aren't found, `SetUpError` for what can't be
    read.
    """
    scheme = url.partition("://")[0]
    told = duckdb_engine.told if scheme == "duckdb" else first_line
    # A URL may hold a password.
    with errors_of(scheme, lambda error: told(error).replace(url, f"{scheme}://...")):
        connected = _connected(url, scheme)
        try:
            schema, _, name = table.rpartition(".")
            found = connected.table(name, database=schema or None)
            yield Opened(
                scheme,
                (_lengths(found, table, prompt, output),),
                lambda: duckdb_engine.share_done(connected) if scheme == "duckdb" else None,
                lambda: _stop(connected),
            )
        finally:
            connected.disconnect()


def _connected(url: str, scheme: str) -> ibis.BaseBackend:
    if scheme in _IN_A_FILE:
        # Both would make the file that isn't there.
        parts = urlsplit(url)
        file = Path(parts.netloc + parts.path)
        if not file.is_file():
            raise InvalidParameters(("FILE", f"there is no database {file}"))
        if scheme == "duckdb":
            return ibis.duckdb.connect(file, read_only=True, autoinstall_known_extensions=False)
    try:
        return ibis.connect(url)
    except ImportError as error:
        raise SetUpError(f"Ibis can't open {scheme}:// here: {error}") from error


def _stop(connected: ibis.BaseBackend) -> None:
    """Ask the driver to end its query: DuckDB's has `interrupt`, PostgreSQL's `cancel`; others run to the end."""
    driver = getattr(connected, "con", None)
    for name in ("interrupt", "cancel"):
        if callable(end := getattr(driver, name, None)):
            end()
            return


def _lengths(found: ir.Table, table: str, prompt: str | None, output: str | None) -> Lengths:
    names = [leaf for name, kind in found.schema().items() for leaf in _leaves((name,), kind)]
    return Lengths(
        found, columns.find(names, "prompt", prompt, of=table), columns.find(names, "output", output, of=table)
    )


def _leaves(path: columns.Path, kind: dt.DataType) -> Iterator[columns.Path]:
    if kind.is_struct():
        for name, inner in kind.items():
            yield from _leaves((*path, name), inner)
    else:
        yield path
