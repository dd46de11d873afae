"""Files read by Spark: on a cluster that is configured, or on all cores of this machine."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import ibis
import ibis.expr.types as ir
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from service.errors import InvalidParameters, SetUpError
from service.warehouse.engine import Opened, errors_of, first_line
from service.warehouse.expression import Lengths
from service.warehouse.files import Batch

_CONFIGURED_BY = ("SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS")
_HERE = {
    "spark.master": "local[*]",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
"""Nothing listens where another machine could ask."""


@contextmanager
def opened(batches: Sequence[Batch]) -> Iterator[Opened]:
    """Start Spark over the files. Raises `SetUpError` for what it can't read, and where there is no Java."""
    _check(batches)
    with errors_of("Spark", _told):
        session = _started()
        try:
            connected = ibis.pyspark.connect(session)
            lengths = [
                Lengths(_table(connected, session, batch, f"batch_{number}"), batch.prompt, batch.output)
                for number, batch in enumerate(batches)
            ]
            yield Opened("Spark", tuple(lengths), lambda: _share_done(session), session.sparkContext.cancelAllJobs)
        finally:
            session.stop()


def _check(batches: Sequence[Batch]) -> None:
    java = Path(os.environ.get("JAVA_HOME", "/nowhere"), "bin", "java")
    if not java.exists() and shutil.which("java") is None:
        raise SetUpError("Spark needs Java 17 or newer: the Debian package default-jre-headless brings it")
    for file in (file for batch in batches for file in batch.files):
        if file.name.startswith(("_", ".")):
            raise InvalidParameters(("FILE", f"Spark passes over files whose names start as that of {file}: rename it"))


def _started() -> SparkSession:
    settings = {} if any(os.environ.get(name) for name in _CONFIGURED_BY) else _HERE
    builder = SparkSession.builder.appName("headcount")
    for name, value in (settings | {"spark.ui.showConsoleProgress": "false"}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")  # what goes wrong is raised as well
    session.conf.set("spark.sql.caseSensitive", "true")
    return session


def _table(connected: ibis.BaseBackend, session: SparkSession, batch: Batch, name: str) -> ir.Table:
    files = [f"file://{file}" for file in batch.files]
    # Each file as it is named: folders called `day=1` are no columns.
    reader = session.read.option("recursiveFileLookup", "true")
    match batch.kind:
        case "csv":
            # As DuckDB reads it: quoted line breaks and quotes, and no row of another width, whatever is asked of it.
            read = reader.options(mode="FAILFAST", columnPruning="false").csv(
                files, schema=_texts(batch.names), header=True, sep=batch.delimiter, escape='"', multiLine=True
            )
        case "jsonl":
            tops = dict.fromkeys((batch.prompt[0], batch.output[0]))
            read = reader.json(files, schema=_texts(tops), mode="FAILFAST")
        case "parquet":
            read = reader.parquet(*files)
    read.createOrReplaceTempView(name)
    return connected.table(name)


def _texts(names: Iterable[str]) -> StructType:
    return StructType([StructField(name, StringType()) for name in names])


def _share_done(session: SparkSession) -> float | None:
    tracker = session.sparkContext.statusTracker()
    stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number))]
    tasks = sum(stage.numTasks for stage in stages)
    return sum(stage.numCompletedTasks for stage in stages) / tasks if tasks else None


def _told(error: Exception) -> str:
    """The name of the innermost cause that has one, and the file, without the line of the log."""
    named = re.findall(r"Exception: \[([A-Z_.]+)\]", str(error))
    file = re.search(r"reading file file:(?://)?(.+?)\. +SQLSTATE", str(error))
    return (named[-1] if named else first_line(error)) + (f" in {file[1]}" if file else "")
