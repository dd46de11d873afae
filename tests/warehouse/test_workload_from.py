"""`headcount workload from` on DuckDB, and with the tables of warehouses."""

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from service.cli.main import main
from service.warehouse.edges import EDGES
from tests.questions import REFERENCE
from tests.servers import REPOSITORY, connect, throw_away_folder
from tests.warehouse import counted, mixed
from tests.warehouse.commands import reduced, run

HEADER = "prompt_tokens,output_tokens\n"
REFUSED_MIXED = (
    "28 rows refused: 3 without prompt tokens, 14 whose prompt tokens are no whole number, 6 whose prompt tokens are"
    " 0 or less, 5 of more than 2,147,483,647 prompt tokens"
)


def counts(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[list[list[int]], list[str]]:
    """Cells and what was said beside, without a process of its own."""
    assert main(["workload", "from", *map(str, arguments)]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out)["counts"], printed.err.splitlines()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path, status: int = 2) -> str:
    """The last line that is said where nothing is reduced."""
    assert main(["workload", "from", *map(str, arguments)]) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err.splitlines()[-1]


def file(folder: Path, name: str, content: str | bytes) -> Path:
    written = folder / name
    data = content.encode() if isinstance(content, str) else content
    written.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return written


def test_edges_are_the_cube_roots_of_powers_of_two_to_the_nearest_whole_number() -> None:
    assert EDGES[:54] == counted.TO_2_20
    assert EDGES[-3:] == (1352829926, 1704458901, 2**31 - 1)  # 2^(91/3) = 1352829925.8, 2^(92/3) = 1704458900.5
    # 86 bins a side are 7,396 cells: within the 512 bins and 16,384 cells of a question, so none has to be merged.
    assert len(EDGES) - 1 == 86


def test_200_000_requests_are_counted_as_numpy_counts_them(tmp_path: Path) -> None:
    counted.write(200_000, tmp_path / "requests.parquet")
    workload, said = reduced(tmp_path / "requests.parquet")
    assert workload["counts"] == counted.histogram(200_000)
    assert tuple(workload["prompt_edges"]) == tuple(workload["output_edges"]) == counted.TO_2_20
    assert said[0] == "prompt_tokens and output_tokens of 1 parquet file"
    assert said[1].startswith("200,000 rows read, 200,000 in ")
    assert len(said) == 2


def test_what_is_written_is_a_workload_of_a_plan(tmp_path: Path, client: httpx.Client) -> None:
    log = file(tmp_path, "log.csv", HEADER + "1000,200\n3000,50\n")
    result = run(log, "-o", tmp_path / "workload.json")
    assert (result.returncode, result.stdout) == (0, "")
    workload = json.loads((tmp_path / "workload.json").read_bytes())
    answer = client.post("/v1/estimates", json=REFERENCE | {"workload": workload})
    assert answer.status_code == 200
    assert answer.json()["workload"]["kind"] == "joint"


@pytest.mark.parametrize("kind", ["csv", "jsonl of texts", "parquet of texts"])
def test_texts_are_read_or_refused_by_reason(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    match kind:
        case "csv":
            quoted = "".join(f'"{text}",5\n' for text in mixed.EVERY)
            log = file(tmp_path, "log.csv", HEADER + quoted)
        case "jsonl of texts":
            rows = [json.dumps({"prompt_tokens": text, "output_tokens": 5}) for text in mixed.EVERY]
            log = file(tmp_path, "log.jsonl", "\n".join(rows))
        case _:
            log = tmp_path / "log.parquet"
            pq.write_table(pa.table({"prompt_tokens": mixed.EVERY, "output_tokens": [5] * len(mixed.EVERY)}), log)
    cells, said = counts(capsys, log)
    expected: dict[int, int] = {}
    for place in mixed.READ.values():
        expected[place] = expected.get(place, 0) + 1
    assert cells == [[place, 3, count] for place, count in sorted(expected.items())]
    assert said[1:] == ["44 rows read, 16 in 8 cells", REFUSED_MIXED]


def test_a_row_is_refused_once_for_its_prompt_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = file(tmp_path, "log.csv", HEADER + "0,0\n5,0\n5,\n,5\n5,5\n")
    cells, said = counts(capsys, log)
    assert cells == [[3, 3, 1]]
    assert said[2] == (
        "4 rows refused: 1 without prompt tokens, 1 whose prompt tokens are 0 or less, 1 without output tokens, 1 whose"
        " output tokens are 0 or less"
    )


@pytest.mark.parametrize(
    ("kind", "values", "reasons"),
    [
        (pa.int8(), [-128, 0, 127, None], "1 without prompt tokens, 2 whose prompt tokens are 0 or less"),
        (pa.uint64(), [2**64 - 1, 1], "1 of more than 2,147,483,647 prompt tokens"),
        (pa.int64(), [-(2**63), 2**63 - 1, 2**31 - 1], "1 whose prompt tokens are 0 or less, 1 of more than"),
        (pa.float32(), [12.0, 12.5, 0.5], "2 whose prompt tokens are no whole number"),
        (pa.float64(), [12.0, float("nan"), float("inf"), -float("inf"), None], "1 without prompt tokens, 1 whose"),
        (pa.decimal128(20, 2), [12, "12.50", -3], "1 whose prompt tokens are no whole number, 1 whose"),
    ],
    ids=str,
)
def test_columns_of_every_kind_of_number_are_read(
    kind: pa.DataType, values: list[Any], reasons: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if pa.types.is_decimal(kind):
        column = pa.array([str(value) for value in values]).cast(kind)
    else:
        column = pa.array(values, kind)
    pq.write_table(pa.table({"prompt_tokens": column, "output_tokens": [1] * len(values)}), tmp_path / "log.parquet")
    cells, said = counts(capsys, tmp_path / "log.parquet")
    assert sum(count for _, _, count in cells) == 1
    assert reasons in said[2]


def test_a_column_that_holds_no_numbers_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"prompt_tokens": [True], "output_tokens": [1]}), tmp_path / "log.parquet")
    expected = "headcount: FILE: prompt_tokens holds boolean: lengths are numbers, or texts of numbers"
    assert refused(capsys, tmp_path / "log.parquet") == expected


def test_files_of_several_kinds_types_and_orders_of_columns_are_one_workload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file(tmp_path, "a.csv", HEADER + "1,2\n")
    file(tmp_path, "b.csv", "output_tokens,model,prompt_tokens\n2,m,1\n")
    file(tmp_path, "c.csv.gz", HEADER + "1,2\n")
    file(tmp_path, "d.tsv", "ContextTokens\tGeneratedTokens\n1\t2\n")
    file(tmp_path, "e.jsonl", '{"usage": {"prompt_tokens": 1, "completion_tokens": 2}}\n')
    file(tmp_path, "f.ndjson.gz", '{"input_length": 1, "output_length": 2}\n')
    pq.write_table(pa.table({"input_tokens": [1], "output_tokens": [2]}), tmp_path / "g.parquet")
    pq.write_table(pa.table({"input_tokens": [1.0], "output_tokens": ["2"]}), tmp_path / "h.parquet")
    pq.write_table(pa.table({"usage": [{"input_tokens": 1, "output_tokens": 2}]}), tmp_path / "i.parquet")
    # a.csv fits two patterns, and is read once.
    cells, said = counts(capsys, tmp_path / "*.*", tmp_path / "a*.csv")
    assert cells == [[0, 1, 9]]
    assert said[0] == "prompt_tokens and output_tokens of 2 csv files"
    assert said[-1] == "9 rows read, 9 in 1 cell"


@pytest.mark.parametrize(
    ("content", "cells"),
    [
        (b"\xef\xbb\xbf" + b"prompt_tokens,output_tokens\r\n1,2\r\n\r\n3,4\r\n", [[0, 1, 1], [2, 2, 1]]),
        (b"prompt_tokens;output_tokens\n1;2", [[0, 1, 1]]),
        (b"prompt_tokens|output_tokens\n1|2\n", [[0, 1, 1]]),
        (b'"prompt_tokens" , output_tokens,text\n1,2,"line\nbreak, ""quotes"""\n1,2,"\xff"\n', [[0, 1, 2]]),
        (b"id,ID,id,prompt_tokens,output_tokens\n7,8,9,1,2\n", [[0, 1, 1]]),
    ],
    ids=["byte order mark and CRLF", "semicolons", "bars", "quoted line breaks", "columns of one name"],
)
def test_csv_is_read_as_programs_write_it(
    content: bytes, cells: list[list[int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert counts(capsys, file(tmp_path, "log.csv", content))[0] == cells


def test_numbers_in_json_are_read_in_every_spelling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "\n\n".join(
        f'{{"usage": {{"prompt_tokens": {one}}}, "output_tokens": {other}}}'
        for one, other in [(number, 7) for number in mixed.JSON_NUMBERS]
        + [(7, number) for number in mixed.JSON_NUMBERS]
    )
    others = '\n{"usage": null, "output_tokens": 7}\n{"usage": 5, "output_tokens": 7}\n{"event": "start"}\n'
    cells, said = counts(capsys, file(tmp_path, "log.jsonl", rows + others))
    assert cells == [[3, 4, 4], [4, 3, 4]]
    assert said[1] == "25 rows read, 8 in 2 cells"
    assert said[2] == (
        "17 rows refused: 4 without prompt tokens, 4 whose prompt tokens are no whole number, 1 whose prompt tokens are"
        " 0 or less, 1 of more than 2,147,483,647 prompt tokens, 1 without output tokens, 4 whose output tokens are no"
        " whole number, 1 whose output tokens are 0 or less, 1 of more than 2,147,483,647 output tokens"
    )


@pytest.mark.parametrize(
    ("content", "options", "line"),
    [
        ("a,b\n1,2\n", [], "--prompt: no column of {} is known to hold it; columns: a, b"),
        ("1,2\n3,4\n", [], "--prompt: no column of {} is known to hold it; columns: 1, 2"),
        (
            "prompt_tokens,input_tokens,output_tokens\n1,2,3\n",
            [],
            "--prompt: several columns of {} may hold it, name one: prompt_tokens, input_tokens",
        ),
        (
            "a,a,output_tokens\n1,2,3\n",
            ["--prompt", "a"],
            "--prompt: several columns of {} may hold it, rename one: a, a",
        ),
        (HEADER, ["--output", "nope"], "--output: {} has no column 'nope'; columns: prompt_tokens, output_tokens"),
        (HEADER, [], "FILE: there is no request in it: 0 rows"),
        (HEADER + "0,1\n", [], "FILE: there is no request in it: 1 whose prompt tokens are 0 or less"),
        ("", [], "FILE: there is nothing in {}"),
        (HEADER, ["--table", "t"], "--table: goes with the URL of a warehouse"),
    ],
)
def test_what_cannot_be_reduced_is_refused_with_its_reason(
    content: str, options: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = file(tmp_path, "log.csv", content)
    assert refused(capsys, log, *options) == f"headcount: {line.format(log)}"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (HEADER + "1,2\n3\n", "CSV Error on Line: 3; Expected Number of Columns: 2 Found: 1 in "),
        (HEADER + "1,2\n3,4,5\n", "CSV Error on Line: 3; Expected Number of Columns: 2 Found: 3 in "),
        (HEADER + '1,2\n3,"4\nsecret,secret\n', "CSV Error on Line: 3; Value with unterminated quote found. in "),
    ],
)
def test_a_row_of_another_width_stops_it_and_is_not_quoted(
    content: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = file(tmp_path, "log.csv", content)
    line = refused(capsys, log, status=1)
    assert line.endswith(f"{problem}{log}")
    assert "secret" not in line


def test_a_damaged_file_stops_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = gzip.compress((HEADER + "1,2\n" * 100_000).encode())
    for name, content in [
        ("cut.csv.gz", whole[: len(whole) // 2]),
        ("sum.csv.gz", whole[:-8] + bytes(8)),
        ("text.csv.gz", HEADER.encode()),
        ("text.parquet", HEADER.encode()),
        ("wide.csv", HEADER.encode("utf-16")),
        ("later.jsonl", b'{"prompt_tokens": 1, "output_tokens": 2}\n' * 1000 + b'{"prompt_tokens": 1, "out'),
    ]:
        log = tmp_path / name
        log.write_bytes(content)
        assert str(log) in refused(capsys, log, status=1), name


def test_lines_that_are_no_json_objects_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in ('{"prompt_tokens": 1}\n\n[1, 2]\n', '{"prompt_tokens": 1}\n\n{"prompt_tok'):
        log = file(tmp_path, "log.jsonl", content)
        assert refused(capsys, log) == f"headcount: FILE: {log}: line 3 is no JSON object"


def test_a_field_of_json_may_come_later_than_where_is_looked_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = '{"event": "start"}\n' * 1500 + '{"meta": {"p": 1}, "o": 2}\n'
    log = file(tmp_path, "log.jsonl", rows)
    cells, said = counts(capsys, log, "--prompt", "meta.p", "--output", "o")
    assert cells == [[0, 1, 1]]
    assert said[2] == "1,500 rows refused: 1,500 without prompt tokens"


def test_dots_in_a_name_are_no_fields_where_the_name_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = '{"gen_ai.usage.input_tokens": 1, "gen_ai.usage.output_tokens": 2}\n'
    assert counts(capsys, file(tmp_path, "log.jsonl", row))[0] == [[0, 1, 1]]


def test_names_that_are_no_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file(tmp_path, "log.txt", HEADER)
    file(tmp_path, "log[1].csv", HEADER)
    os.mkfifo(tmp_path / "pipe.csv")
    cases: list[tuple[str | Path, str]] = [
        (tmp_path, "is a folder: name its files"),
        (tmp_path / "log.txt", "ends in none of .csv, .tsv, .jsonl"),
        (tmp_path / "log.parquet.gz", "there is no file"),
        (tmp_path / "*.jsonl", "none that fits it as a pattern"),
        (tmp_path / "log[1].csv", "in a name for a pattern"),
        (tmp_path / "pipe.csv", "is no file"),
        ("-", "there is no file '-'"),
    ]
    for name, part in cases:
        assert part in refused(capsys, name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a moment")
def test_a_file_that_may_not_be_read_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with throw_away_folder() as folder:
        log = file(folder, "log.csv", HEADER + "1,2\n")
        log.chmod(0)
        refused(capsys, folder / "none.csv")  # imports what the other user may not
        os.seteuid(65534)
        try:
            line = refused(capsys, log, status=1)
        finally:
            os.seteuid(0)
    assert line == f"headcount: {log} can't be read: Permission denied"


def test_a_link_is_the_file_that_it_leads_to_under_the_name_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file(tmp_path, "8a7f", HEADER + "1,2\n")
    (tmp_path / "monday.csv").symlink_to("8a7f")
    (tmp_path / "again.csv").symlink_to("8a7f")
    assert counts(capsys, tmp_path / "*.csv")[0] == [[0, 1, 1]]


def test_empty_files_among_others_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file(tmp_path, "a.jsonl", '{"prompt_tokens": 1, "output_tokens": 2}\n')
    file(tmp_path, "b.jsonl", "")
    file(tmp_path, "c.jsonl.gz", "\n\n")
    cells, said = counts(capsys, tmp_path / "*")
    assert cells == [[0, 1, 1]]
    assert said[1:3] == [f"nothing is in {tmp_path}/b.jsonl", f"nothing is in {tmp_path}/c.jsonl.gz"]


def test_a_workload_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = file(tmp_path, "log.csv", HEADER + "1,2\n")
    line = refused(capsys, log, "-o", tmp_path / "no" / "where.json", status=1)
    assert line == f"headcount: {tmp_path}/no/where.json can't be written: No such file or directory"


def test_tables_of_duckdb_are_read_and_no_database_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = tmp_path / "logs.duckdb"
    with duckdb.connect(str(database)) as made:
        made.execute("CREATE SCHEMA raw")
        made.execute("CREATE TABLE raw.requests (usage STRUCT(prompt_tokens HUGEINT, output_tokens VARCHAR))")
        made.execute("INSERT INTO raw.requests VALUES ((1, '2')), ((170141183460469231731687303715884105727, '2'))")
    cells, said = counts(capsys, f"duckdb://{database}", "--table", "raw.requests")
    assert cells == [[0, 1, 1]]
    assert said[-1] == "1 row refused: 1 of more than 2,147,483,647 prompt tokens"
    absent = tmp_path / "absent.duckdb"
    assert refused(capsys, f"duckdb://{absent}", "--table", "t") == f"headcount: FILE: there is no database {absent}"
    assert not absent.exists()
    assert "no_such" in refused(capsys, f"duckdb://{database}", "--table", "no_such", status=1)
    assert refused(capsys, f"duckdb://{database}") == "headcount: --table: name the table of the warehouse"
    spark = refused(capsys, f"duckdb://{database}", "--table", "t", "--engine", "spark")
    assert spark == "headcount: --engine: is for files; a warehouse reads its own tables"
    assert "give one URL, or files" in refused(capsys, f"duckdb://{database}", "log.csv", "--table", "t")


def test_tables_of_postgresql_are_read_by_the_same_expression(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(database) as session:
        session.execute("CREATE TABLE requests (prompt_tokens text, completion_tokens numeric, total_tokens bigint)")
        with session.cursor() as cursor:
            cursor.executemany("INSERT INTO requests VALUES (%s, 5, 6)", [(text,) for text in mixed.EVERY])
    cells, said = counts(capsys, database.replace("postgresql+psycopg://", "postgres://"), "--table", "requests")
    assert sum(count for _, _, count in cells) == 16
    assert said[-1] == REFUSED_MIXED


def test_a_warehouse_that_is_not_there_is_said_without_its_password(capsys: pytest.CaptureFixture[str]) -> None:
    for url in ("postgres://user:hidden@127.0.0.1:1/logs", "trino://user:hidden@x/logs", "nothing://user:hidden@x"):
        line = refused(capsys, url, "--table", "requests", status=1)
        assert url.partition(":")[0] in line
        assert "hidden" not in line


def test_without_its_extra_the_command_names_it() -> None:
    # As where it isn't installed: a name that stands for nothing in sys.modules can't be imported.
    code = "import sys; sys.modules['ibis'] = None; from service.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "workload", "from", "log.csv"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert result.returncode == 1
    assert result.stderr == (
        "headcount: ibis is not installed: the extra warehouse brings it, pip install '.[warehouse]' where the project"
        " is, or -r requirements-warehouse.lock\n"
    )


def test_no_other_command_imports_what_reads_logs() -> None:
    code = (
        "import sys; from service.cli.main import main;"
        " main(['plan', 'meta-llama/Llama-3.1-8B-Instruct', 'h100-sxm-80gb']);"
        " print(sorted({'ibis', 'duckdb', 'pyarrow', 'pandas'} & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert result.stderr == "[]\n"


def test_a_bar_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    counted.write(2_000_000, tmp_path / "requests.parquet")
    terminal, theirs = pty.openpty()
    command = [sys.executable, "-m", "service.cli.main", "workload", "from", str(tmp_path / "requests.parquet")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, cwd=REPOSITORY) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # Linux's way of saying that the other end is closed
            while part := os.read(terminal, 2**16):
                shown += part
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["kind"] == "joint"
    os.close(terminal)
    assert b"reading with DuckDB" in shown
    assert b"%" in shown
    assert b"2,000,000 rows read" in shown


def test_ctrl_c_ends_it_while_the_engine_reads(tmp_path: Path) -> None:
    # So much text that it takes many seconds on any machine.
    text = (HEADER + "1.0,2.0\n" * 12_000_000).encode()
    first = file(tmp_path, "0.csv", text)
    for number in range(1, 10):
        (tmp_path / f"{number}.csv").hardlink_to(first)
    command = [sys.executable, "-m", "service.cli.main", "workload", "from", str(tmp_path / "*.csv")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "prompt_tokens and output_tokens of 10 csv files\n"
        time.sleep(1)
        assert process.poll() is None
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=60)
        assert (process.returncode, printed, said) == (1, "", "")
        assert time.monotonic() - began < 10
