"""A config.json on the command line."""

import sys
from pathlib import Path

from service.errors import SetUpError
from service.readers import strict_json
from service.readers.question import AskedConfig


def config_in(path: Path, *, parameters: int | None = None, weight_bytes: int | None = None) -> AskedConfig:
    """Read a file, or standard input for `-`. Raises `SetUpError`, `MalformedJson` and `InvalidDocument`."""
    try:
        body = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise SetUpError(f"{path} can't be read: {error.strerror}") from error
    config = strict_json.read(body, with_infinity=True)
    document = {"config": config, "parameters": parameters, "weight_bytes": weight_bytes}
    return strict_json.convert(document, AskedConfig)
