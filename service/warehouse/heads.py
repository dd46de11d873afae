"""What a file says of its columns, read from its beginning or, of Parquet, from its end."""

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from service.errors import InvalidParameters, SetUpError
from service.warehouse import columns

_LONGEST_HEADER = 2**20
_LINES_SEEN = 1000
_BYTES_SEEN = 2**24
_READ_AT_ONCE = 2**20
_DELIMITERS = (",", ";", "\t", "|")


class Head(msgspec.Struct, frozen=True):
    """The columns of a file, as they stand in it."""

    columns: tuple[columns.Path, ...]
    types: tuple[str, ...] = ()
    """Of Parquet; text has none."""
    delimiter: str = ""
    """Of CSV."""


def csv_head(file: Path) -> Head | None:
    """The names in the first line, divided by what divides it into most; None for an empty file."""
    with _beginning(file) as beginning:
        line = beginning.readline(_LONGEST_HEADER).decode("utf-8-sig").rstrip("\r\n")
    if not line:
        return None
    split = {delimiter: next(csv.reader([line], delimiter=delimiter)) for delimiter in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda delimiter: len(split[delimiter]))
    return Head(tuple((name.strip(),) for name in split[delimiter]), delimiter=delimiter)


def json_head(file: Path) -> Head | None:
    """The fields that the first lines have, those of objects inside too; None for a file without a line."""
    found: dict[columns.Path, None] = {}
    lines = 0
    with _beginning(file) as beginning:
        left = _BYTES_SEEN
        while lines < _LINES_SEEN and left > 0 and (line := beginning.readline(left)):
            lines += 1
            left -= len(line)
            if line.isspace() or not (left or line.endswith(b"\n")):  # blank, or cut here
                continue
            try:
                row = msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"))
            except (msgspec.DecodeError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise InvalidParameters(("FILE", f"{file}: line {lines} is no JSON object"))
            found |= dict.fromkeys(_fields(row))
    return Head(tuple(found)) if found else None


def parquet_head(file: Path) -> Head:
    """The columns of the schema, fields of structs too, and their types."""
    with _reading(file):
        schema = pq.read_schema(file)
    leaves = [leaf for field in schema for leaf in _leaves(field)]
    return Head(tuple(path for path, _ in leaves), types=tuple(kind for _, kind in leaves))


def check_packed(file: Path) -> None:
    """Unpack a `.gz` file to its end. Raises `SetUpError` where it is cut short or damaged: some engines don't say."""
    with _beginning(file) as opened:
        while opened.read(_READ_AT_ONCE):
            pass


def _leaves(field: pa.Field, above: columns.Path = ()) -> Iterator[tuple[columns.Path, str]]:
    path = (*above, field.name)
    if pa.types.is_struct(field.type):
        for inner in field.type:
            yield from _leaves(inner, path)
    else:
        yield path, str(field.type)


def _fields(row: dict[str, object], above: columns.Path = ()) -> Iterator[columns.Path]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _fields(value, (*above, name))
        else:
            yield (*above, name)


@contextmanager
def _beginning(file: Path) -> Iterator[BinaryIO]:
    with _reading(file), (gzip.open if file.suffix == ".gz" else open)(file, "rb") as opened:
        yield cast("BinaryIO", opened)


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise SetUpError(f"{file} can't be read: it is not UTF-8 text") from error
    except (OSError, EOFError, zlib.error, csv.Error, pa.ArrowException) as error:
        raise SetUpError(f"{file} can't be read: {getattr(error, 'strerror', None) or error}") from error
