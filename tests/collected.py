"""The collected facts that figures were copied from: no part of the project, and only sometimes beside it."""

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "shared" / "data"

collected = pytest.mark.skipif(
    not FOLDER.exists(),
    reason="compares with the collected facts, which may not be carried in the project and aren't beside it",
)


def entries(*names: str, under: str) -> list[dict[str, Any]]:
    """What these files list under that name; nothing where they aren't beside the project."""
    if not FOLDER.exists():
        return []
    return [entry for name in names for entry in json.loads((FOLDER / f"{name}.json").read_text())[under]]
