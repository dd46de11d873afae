"""The catalog data that this release ships, one file per entry, each figure with its source."""

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

from service.catalog.entries import KINDS, Catalog, Kind, Version, canonical, digest_of


class _EntryFile(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    source: str
    spec: msgspec.Raw


@cache
def bundled_versions() -> tuple[Version, ...]:
    """Every bundled entry as its version 1, at revision 1."""
    return tuple(
        _version(kind, file) for kind in KINDS for file in _json_files(files(__package__).joinpath("data", kind))
    )


@cache
def bundled_catalog() -> Catalog:
    """The bundled entries alone: what plans without a database stand on."""
    return Catalog(1, bundled_versions())


def _json_files(folder: Traversable) -> list[Traversable]:
    found: list[Traversable] = []
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            found += _json_files(item)
        elif item.name.endswith(".json"):
            found.append(item)
    return found


def _version(kind: Kind, file: Traversable) -> Version:
    entry = msgspec.json.decode(file.read_bytes(), type=_EntryFile)
    spec = canonical(msgspec.json.decode(entry.spec))
    return Version(
        kind=kind, key=entry.key, version=1, revision=1, spec=spec, digest=digest_of(spec), source=entry.source
    )
