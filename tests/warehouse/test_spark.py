"""The same workload from Spark as from DuckDB, bin for bin and refusal for refusal."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.warehouse import counted, mixed
from tests.warehouse.commands import reduced, run, said, spark

# Each run starts a Java of its own, on cores that it may have to share.
pytestmark = pytest.mark.timeout(400)


def test_200_000_requests_are_counted_as_duckdb_and_numpy_count_them(tmp_path: Path) -> None:
    python = spark()
    counted.write(200_000, tmp_path / "requests.parquet")
    workload, told = reduced("--engine", "spark", tmp_path / "requests.parquet", python=python)
    assert workload["counts"] == counted.histogram(200_000)
    assert (workload, told) == reduced(tmp_path / "requests.parquet")


def test_lengths_of_every_kind_and_type_are_read_and_refused_alike(tmp_path: Path) -> None:
    python = spark()
    # Folders called as partitions are: no columns come of them, on either.
    folder = tmp_path / "prompt_tokens=9" / "day one"
    folder.mkdir(parents=True)
    quoted = "".join(f'"{text}",5,"line\nbreak, ""quotes"""\n' for text in mixed.EVERY)
    (folder / "texts.csv").write_text("\ufeffprompt_tokens,output_tokens,text\n" + quoted)
    (folder / "turned.csv").write_text("output_tokens;ID;id;prompt_tokens\r\n1;2;3;4\r\n")
    nested = [{"usage": {"prompt_tokens": text}, "output_tokens": 5} for text in mixed.EVERY]
    lines = [f'{{"usage": {{"prompt_tokens": 7}}, "output_tokens": {number}}}' for number in mixed.JSON_NUMBERS]
    lines += [f'{{"usage": {{"prompt_tokens": {number}}}, "output_tokens": 7}}' for number in mixed.JSON_NUMBERS]
    lines += ["", '{"usage": null, "output_tokens": 7}', '{"usage": 5, "output_tokens": 7}', '{"event": "start"}']
    (folder / "lines.jsonl").write_text("\n".join([*map(json.dumps, nested), *lines]))
    columns = {
        "int8": pa.array([-128, 0, 127, None], pa.int8()),
        "uint32": pa.array([2**32 - 1, 1, 0, 7], pa.uint32()),
        "uint64": pa.array([2**64 - 1, 2**63, 1, 7], pa.uint64()),
        "int64": pa.array([-(2**63), 2**63 - 1, 2**31 - 1, 2**31], pa.int64()),
        "float32": pa.array([12.0, 12.5, 0.5, 16777216.0], pa.float32()),
        "float64": pa.array([float("nan"), float("inf"), -float("inf"), 17.0], pa.float64()),
        "decimal": pa.array(["12.00", "12.50", "-3.00", None]).cast(pa.decimal128(20, 2)),
    }
    for name, column in columns.items():
        pq.write_table(
            pa.table({"prompt_tokens": column, "output_tokens": [1, 2, 3, None]}), folder / f"{name}.parquet"
        )
        usage = pa.StructArray.from_arrays([column, column], ["prompt_tokens", "completion_tokens"])
        pq.write_table(pa.table({"usage": usage}), folder / f"{name} nested.parquet")
    pattern = tmp_path / "*" / "*" / "*"
    on_spark = reduced("--engine", "spark", pattern, python=python)
    assert on_spark == reduced(pattern)
    # 44 + 1 rows of CSV, 44 + 22 + 3 of JSON, 14 files of 4 in Parquet.
    assert on_spark[1][-2].startswith("170 rows read, ")


def test_a_row_of_another_width_stops_it_and_is_not_quoted(tmp_path: Path) -> None:
    python = spark()
    (tmp_path / "long.csv").write_text("prompt_tokens,output_tokens\n1,2\n3,4,secret\n")
    result = run("--engine", "spark", tmp_path / "long.csv", python=python)
    assert (result.returncode, result.stdout) == (1, "")
    assert said(result)[-1] == f"headcount: Spark can't read that: MALFORMED_CSV_RECORD in {tmp_path}/long.csv"
    assert "secret" not in result.stderr


def test_files_that_spark_would_pass_over_without_a_word_are_refused(tmp_path: Path) -> None:
    python = spark()
    (tmp_path / "_hidden.csv").write_text("prompt_tokens,output_tokens\n1,2\n")
    result = run("--engine", "spark", tmp_path / "_hidden.csv", python=python)
    assert result.returncode == 2
    assert "Spark passes over files whose names start as that of" in result.stderr


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("prompt_tokens,output_tokens\n1,2\n")
    assert said(run("--engine", "spark", tmp_path / "log.csv"))[-1] == (
        "headcount: pyspark is not installed: the extra spark brings it, pip install '.[spark]' where the project is,"
        " or -r requirements-spark.lock"
    )
    assert said(run(tmp_path / "log.csv", python=spark()))[-1].startswith(
        "headcount: duckdb is not installed: the extra warehouse brings it"
    )
