"""The files that the command line names: found, told apart by their endings, and grouped by how they are read."""

import glob
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from service.errors import InvalidParameters, SetUpError
from service.warehouse import columns
from service.warehouse.heads import Head, csv_head, json_head, parquet_head

Kind = Literal["csv", "jsonl", "parquet"]

_KINDS: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
PACKED = ".gz"
_HEADS: dict[Kind, Callable[[Path], Head | None]] = {"csv": csv_head, "jsonl": json_head, "parquet": parquet_head}
_PATTERN = "*?[]{}\\"
"""What an engine would read as a pattern in the name of a file."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Files that are read alike: of one kind, with the lengths in the same columns of the same types."""

    kind: Kind
    files: tuple[Path, ...] = ()
    prompt: columns.Path
    output: columns.Path
    shown: tuple[str, str]
    """What the two columns are called."""
    types: tuple[str, ...] = ()
    """Of the two columns, in Parquet."""
    names: tuple[str, ...] = ()
    """Of all columns of a CSV: numbered, since a header may hold one name twice, or in two cases."""
    delimiter: str = ""
    """Of a CSV."""


class Found(msgspec.Struct, frozen=True):
    """Batches to read, and files in which there is nothing."""

    batches: tuple[Batch, ...]
    empty: tuple[Path, ...]


def find(named: Sequence[str], prompt: str | None, output: str | None) -> Found:
    """Find the files of these names and patterns and the columns in them.

    Raises `InvalidParameters` for names that mean no file and for columns that aren't found, `SetUpError` for files
    that can't be read.
    """
    groups: dict[Batch, list[Path]] = {}
    empty = []
    for file in _files(named):
        kind = _kind(file)
        head = _HEADS[kind](file) if file.stat().st_size else None
        if head is None:
            empty.append(file)
        else:
            groups.setdefault(_batch(kind, head, prompt, output, file), []).append(file)
    if not groups:
        raise InvalidParameters(("FILE", f"there is nothing in {', '.join(str(file) for file in empty)}"))
    batches = [msgspec.structs.replace(batch, files=tuple(files)) for batch, files in groups.items()]
    return Found(tuple(batches), tuple(empty))


def _batch(kind: Kind, head: Head, prompt: str | None, output: str | None, file: Path) -> Batch:
    closed = kind != "jsonl"
    at = columns.find(head.columns, "prompt", prompt, of=str(file), closed=closed)
    to = columns.find(head.columns, "output", output, of=str(file), closed=closed)
    shown = (columns.dotted(at), columns.dotted(to))
    match kind:
        case "csv":
            numbered = tuple(f"column_{number}" for number in range(len(head.columns)))
            at, to = ((numbered[head.columns.index(column)],) for column in (at, to))
            return Batch(kind=kind, prompt=at, output=to, shown=shown, names=numbered, delimiter=head.delimiter)
        case "jsonl":
            for column in (at, to):
                if not all(re.fullmatch("[A-Za-z0-9_]+", name) for name in column[1:]):
                    detail = f"{columns.dotted(column)}: a field inside another is read only if plainly named"
                    raise InvalidParameters(("FILE", f"{file}: {detail}"))
            return Batch(kind=kind, prompt=at, output=to, shown=shown)
        case "parquet":
            types = tuple(head.types[head.columns.index(column)] for column in (at, to))
            return Batch(kind=kind, prompt=at, output=to, shown=shown, types=types)


def _files(named: Sequence[str]) -> list[Path]:
    """Each file once, however many patterns fit it: its requests happened once."""
    files: dict[Path, Path] = {}
    for name in named:
        try:
            for file in _fitting(name):
                files.setdefault(file.resolve(), file)
        except OSError as error:
            raise SetUpError(f"{name} can't be read: {error.strerror}") from error
    return list(files.values())


def _fitting(name: str) -> list[Path]:
    matches = [name] if Path(name).exists() else sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - from / too
    if not matches:
        raise InvalidParameters(("FILE", f"there is no file {name!r}, and none that fits it as a pattern"))
    files = [Path(match).absolute() for match in matches]
    for file in files:
        if file.is_dir():
            raise InvalidParameters(("FILE", f"{file} is a folder: name its files, such as '{file}/*.parquet'"))
        if not file.is_file():
            raise InvalidParameters(("FILE", f"{file} is no file: lengths can't be read from it twice"))
        if set(_PATTERN) & set(str(file)):
            raise InvalidParameters(("FILE", f"{file}: engines take {' '.join(_PATTERN)} in a name for a pattern"))
    return files


def _kind(file: Path) -> Kind:
    name = file.name.removesuffix(PACKED)
    kind = _KINDS.get(Path(name).suffix.lower())
    if kind is None or (kind == "parquet" and name != file.name):
        endings = ", ".join(_KINDS)
        raise InvalidParameters(("FILE", f"{file.name} ends in none of {endings}; {PACKED} may follow that of a text"))
    return kind
