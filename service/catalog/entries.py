"""Catalog entries at their versions, held in memory."""

import difflib
import hashlib
from collections.abc import Iterable
from typing import Generic, Literal, TypeVar

import msgspec

from service.capacity.engine import Engine
from service.capacity.gpu import Gpu
from service.capacity.model import Model
from service.capacity.named_workload import NamedWorkload
from service.capacity.question import Pinned
from service.errors import Fault, UnknownKey

UNREAD = 0
"""The revision of a catalog that no database has given yet; the first one published is 1."""

Kind = Literal["gpus", "models", "engines", "workloads"]
KINDS: tuple[Kind, ...] = ("gpus", "models", "engines", "workloads")

Spec = TypeVar("Spec", Gpu, Model, Engine, NamedWorkload)


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one entry. `spec` is the canonical JSON whose SHA-256 is the digest."""

    kind: Kind
    key: str
    version: int
    revision: int
    spec: bytes
    digest: str
    source: str


def canonical(document: object) -> bytes:
    """Render a document for hashing: keys sorted, no spaces, numbers in their shortest form."""
    return msgspec.json.encode(document, order="sorted")


def digest_of(canonical_bytes: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(canonical_bytes).hexdigest()


class Shelf(Generic[Spec]):
    """All versions of one kind of entry, decoded once."""

    def __init__(self, kind: Kind, singular: str, spec_type: type[Spec], versions: Iterable[Version]) -> None:
        """Sort the versions of each key, oldest first."""
        self.kind = kind
        self._singular = singular
        self._versions: dict[str, list[Version]] = {}
        self._pinned: dict[tuple[str, int], Pinned[Spec]] = {}
        for entry in sorted(versions, key=lambda entry: (entry.key, entry.version)):
            self._versions.setdefault(entry.key, []).append(entry)
            self._pinned[entry.key, entry.version] = Pinned(
                key=entry.key,
                version=entry.version,
                digest=entry.digest,
                spec=msgspec.json.decode(entry.spec, type=spec_type),
            )

    @property
    def keys(self) -> list[str]:
        """All keys, sorted."""
        return list(self._versions)

    def versions(self, key: str) -> list[Version]:
        """All versions of a key, oldest first. Raises `UnknownKey`."""
        try:
            return self._versions[key]
        except KeyError:
            raise self._unknown(key) from None

    def version(self, key: str, number: int | None) -> Version:
        """One version of a key, the newest unless numbered. Raises `UnknownKey`."""
        versions = self.versions(key)
        if number is None:
            return versions[-1]
        for entry in versions:
            if entry.version == number:
                return entry
        numbers = ", ".join(str(entry.version) for entry in versions)
        detail = f"{key} has no version {number}; its versions: {numbers}"
        raise UnknownKey(self._singular, key, (), Fault(f"/{self._singular}/version", detail))

    def pinned(self, key: str, number: int | None) -> Pinned[Spec]:
        """One version of a key as the planner wants it. Raises `UnknownKey`."""
        return self._pinned[key, self.version(key, number).version]

    def _unknown(self, key: str) -> UnknownKey:
        nearest = nearest_keys(key, self._versions)
        detail = f"there is no {self._singular} {key!r} in the catalog; the nearest: {', '.join(nearest)}"
        return UnknownKey(self._singular, key, nearest, Fault(f"/{self._singular}", detail))


def nearest_keys(key: str, keys: Iterable[str]) -> tuple[str, ...]:
    """Three keys that look most like one that doesn't exist, best first, whatever the case.

    A key that contains the one asked for is nearer than any that only looks like it.
    """
    wanted = key.casefold()
    by_folded = {known.casefold(): known for known in keys}
    close = difflib.get_close_matches(wanted, by_folded, n=len(by_folded), cutoff=0.0)
    close.sort(key=lambda folded: wanted not in folded)
    return tuple(by_folded[folded] for folded in close[:3])


class Catalog:
    """One consistent reading of all kinds, at one revision."""

    def __init__(self, revision: int, versions: Iterable[Version]) -> None:
        """Put every version on its shelf."""
        entries = list(versions)
        self.revision = revision
        self.gpus = Shelf("gpus", "gpu", Gpu, (entry for entry in entries if entry.kind == "gpus"))
        self.models = Shelf("models", "model", Model, (entry for entry in entries if entry.kind == "models"))
        self.engines = Shelf("engines", "engine", Engine, (entry for entry in entries if entry.kind == "engines"))
        self.workloads = Shelf(
            "workloads", "workload", NamedWorkload, (entry for entry in entries if entry.kind == "workloads")
        )
