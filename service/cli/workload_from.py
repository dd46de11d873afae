"""`headcount workload from`: request logs of any size, or a table, as a joint histogram of prompts and outputs.

What reads them is imported when it runs: it is an extra, and takes longer to import than a plan to make.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from service.cli.output import print_json, printable, whole_output
from service.errors import InvalidParameters, SetUpError

if TYPE_CHECKING:
    from service.warehouse.engine import Opened
    from service.warehouse.reducing import Reduced

_LOOKED_AT_EVERY = 0.2
"""Seconds between two looks at how far the engine has come."""


def add_to(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the action to the parser."""
    parser = actions.add_parser(
        "from",
        help="reduce request logs to a joint histogram",
        description=(
            "Reduce request logs (CSV, JSON lines, Parquet; text may be packed as .gz) or a warehouse's table to a"
            " workload of the kind joint, for headcount plan --workload and POST /v1/plans. What was read and what was"
            " refused is said on standard error."
        ),
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a file or a pattern, or the URL of a warehouse, such as duckdb:///data/logs.duckdb or postgres://...",
    )
    parser.add_argument("--table", metavar="NAME", help="the table; with a URL")
    parser.add_argument(
        "--prompt", metavar="COLUMN", help="the column of prompt tokens, if its name isn't a common one"
    )
    parser.add_argument("--output", metavar="COLUMN", help="the column of output tokens, likewise")
    parser.add_argument(
        "--engine",
        choices=("duckdb", "spark"),
        help="what reads files: duckdb when left out, spark where it is too slow",
    )
    parser.add_argument("-o", metavar="FILE", dest="written_to", type=Path, help="write the workload here")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Reduce and write."""
    with _extra("spark" if arguments.engine == "spark" else "warehouse"), _opened(arguments) as opened:
        from service.warehouse.reducing import reduced  # noqa: PLC0415 - see above

        answer = _watched(opened, reduced)
    _tell(answer)
    document = msgspec.json.encode(answer.workload)
    if arguments.written_to is None:
        with whole_output():
            print_json(document)
    else:
        try:
            arguments.written_to.write_bytes(document)
        except OSError as error:
            raise SetUpError(f"{arguments.written_to} can't be written: {error.strerror}") from error
    return 0


def _opened(arguments: argparse.Namespace) -> "AbstractContextManager[Opened]":
    from service.warehouse import files, tables  # noqa: PLC0415

    urls = [name for name in arguments.files if "://" in name]
    if not urls:
        if arguments.table is not None:
            raise InvalidParameters(("--table", "goes with the URL of a warehouse"))
        found = files.find(arguments.files, arguments.prompt, arguments.output)
        for batch in found.batches:
            _say(f"{' and '.join(batch.shown)} of {_several(len(batch.files), batch.kind + ' file')}")
        for file in found.empty:
            _say(f"nothing is in {file}")
        if arguments.engine == "spark":
            from service.warehouse import spark_engine  # noqa: PLC0415

            return spark_engine.opened(found.batches)
        from service.warehouse import duckdb_engine  # noqa: PLC0415

        return duckdb_engine.opened(found.batches)
    if len(arguments.files) > 1:
        raise InvalidParameters(("FILE", "give one URL, or files"))
    if arguments.table is None:
        raise InvalidParameters(("--table", "name the table of the warehouse"))
    if arguments.engine is not None:
        raise InvalidParameters(("--engine", "is for files; a warehouse reads its own tables"))
    return tables.opened(urls[0], arguments.table, arguments.prompt, arguments.output)


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """A place in which packages of an extra are imported. Raises `SetUpError` where it isn't installed."""
    try:
        yield
    except ImportError as error:
        # Of its engines Ibis says that one is missing, from what is missing.
        missing = error if isinstance(error, ModuleNotFoundError) else error.__cause__
        package = str(getattr(missing, "name", None)).partition(".")[0]
        if package not in {"ibis", "duckdb", "pyarrow", "pyspark"}:
            raise
        raise SetUpError(
            f"{package} is not installed: the extra {name} brings it, pip install '.[{name}]' where the project is, or"
            f" -r requirements-{name}.lock"
        ) from error


def _watched(opened: "Opened", work: "Callable[[Opened], Reduced]") -> "Reduced":
    """Do the work in a thread: this one shows how far it has come, and stops it on Ctrl-C, which engines don't hear."""
    with ThreadPoolExecutor(1) as pool, _bar(f"reading with {opened.engine}") as show:
        running = pool.submit(work, opened)
        try:
            while not wait([running], timeout=_LOOKED_AT_EVERY).done:
                show(opened.done())
        except KeyboardInterrupt:
            opened.stop()
            raise
        return running.result()


@contextmanager
def _bar(title: str) -> Iterator[Callable[[float | None], None]]:
    """A bar on standard error, where somebody looks at it: called with the share that is done."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    parts = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda share: None if share is None else bar.update(task, total=1, completed=share)


def _tell(answer: "Reduced") -> None:
    from service.warehouse.reducing import listed  # noqa: PLC0415

    left_out = sum(count for _, count in answer.refused)
    cells = _several(len(answer.workload.counts), "cell")
    _say(f"{_several(answer.counted + left_out, 'row')} read, {answer.counted:,} in {cells}")
    if left_out:
        _say(f"{_several(left_out, 'row')} refused: {listed(answer.refused)}")


def _several(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("s" if number > 1 else "")


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr)
