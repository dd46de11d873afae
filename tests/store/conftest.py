"""Data folders for the tests of the embedded PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.store.embedded import embedded_postgresql
from tests.servers import FAST, connect, throw_away_folder


@pytest.fixture(scope="module")
def used_folder() -> Iterator[Path]:
    with throw_away_folder() as parent:
        yield parent / "data"


@pytest.fixture
def folder(used_folder: Path) -> Path:
    """Return a data folder that was used before, with nothing kept: a first start is the longest part of most tests."""
    with embedded_postgresql(used_folder, options=FAST) as dsn, connect(dsn) as connection:
        connection.execute("DROP TABLE IF EXISTS kept")
    return used_folder
