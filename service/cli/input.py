"""Files that the command line names."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.errors import SetUpError
from service.readers import strict_json
from service.readers.question import AskedConfig


@contextmanager
def read_from(path: Path) -> Iterator[None]:
    """A place to read a file in. Raises `SetUpError` where it can't be read."""
    try:
        yield
    except OSError as error:
        raise SetUpError(f"{path} can't be read: {error.strerror}") from error


def config_in(path: Path, *, parameters: int | None = None, weight_bytes: int | None = None) -> AskedConfig:
    """Read a file, or standard input for `-`. Raises `SetUpError`, `MalformedJson` and `InvalidDocument`."""
    with read_from(path):
        body = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    config = strict_json.read(body, with_infinity=True)
    document = {"config": config, "parameters": parameters, "weight_bytes": weight_bytes}
    return strict_json.convert(document, AskedConfig)
