"""Catalog versions in PostgreSQL: loading all of them, and adding what a release ships or an operator approves."""

from datetime import datetime, timedelta

import msgspec
from sqlalchemy import ColumnElement, Connection, insert, select, update
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncConnection

from service.capacity.engine import Engine
from service.catalog.bundled import bundled_versions
from service.catalog.entries import Catalog, Version, canonical, digest_of
from service.errors import Fault, Refused, StoreUnavailable
from service.store.identifiers import uuid7
from service.store.tables import catalog_head, catalog_versions

_COLUMNS = (
    catalog_versions.c.kind,
    catalog_versions.c.key,
    catalog_versions.c.version,
    catalog_versions.c.revision,
    catalog_versions.c.spec,
    catalog_versions.c.digest,
    catalog_versions.c.source,
)


BUNDLED_BY = "headcount"
"""The author of what releases ship."""


class _Newest(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version of a key, without its figures."""

    kind: str
    key: str
    version: int
    digest: str
    source: str
    author: str


async def revision(connection: AsyncConnection) -> int:
    """Read the newest catalog revision. Raises `StoreUnavailable` when the row that holds it is gone."""
    found = (await connection.execute(select(catalog_head.c.revision))).scalar_one_or_none()
    if found is None:
        raise StoreUnavailable("the database holds no catalog: run `headcount migrate`")
    return int(found)


def load_now(connection: Connection) -> Catalog:
    """Read all versions at one revision, where nothing else is to be done meanwhile."""
    head = connection.execute(select(catalog_head.c.revision)).scalar_one()
    rows = connection.execute(select(*_COLUMNS).where(catalog_versions.c.revision <= head))
    return Catalog(head, [Version(**row) for row in rows.mappings()])


async def load(connection: AsyncConnection) -> Catalog:
    """Read all versions at one revision.

    The head is read first: a write between the two reads adds versions of a later revision, which are left out.
    """
    head = await revision(connection)
    rows = await connection.execute(select(*_COLUMNS).where(catalog_versions.c.revision <= head))
    return Catalog(head, [Version(**row) for row in rows.mappings()])


def publish_bundled(connection: Connection, *, now: datetime) -> list[str]:
    """Add every bundled entry that isn't the newest of what releases shipped of its key, all in one new revision.

    Returns a line for what was added, and one for each version of an operator that it comes before. Takes the lock on
    the head, so two callers at once publish once.
    """
    head = connection.execute(select(catalog_head).with_for_update()).one()
    newest = _newest(connection)
    # Not the newest of all: what an operator published on top of this release's data stays on top. Going back to an
    # older release's data is a new version too: this release answers with what it ships.
    shipped = _newest(connection, catalog_versions.c.author == BUNDLED_BY)
    missing = [
        entry
        for entry in bundled_versions()
        if (entry.kind, entry.key) not in shipped or entry.digest != shipped[entry.kind, entry.key].digest
    ]
    if not missing:
        return []
    at = max(now, head.at + timedelta(microseconds=1))
    rows = [
        {
            "id": uuid7(),
            "kind": entry.kind,
            "key": entry.key,
            "version": newest[entry.kind, entry.key].version + 1 if (entry.kind, entry.key) in newest else 1,
            "revision": head.revision + 1,
            "status": "active",
            "spec": entry.spec,
            "digest": entry.digest,
            "source": entry.source,
            "note": "bundled with the release",
            "author": BUNDLED_BY,
            "at": at,
        }
        for entry in missing
    ]
    connection.execute(insert(catalog_versions), rows)
    connection.execute(update(catalog_head).values(revision=head.revision + 1, at=at))
    before = (newest.get((entry.kind, entry.key)) for entry in missing)
    return [
        f"catalog: {len(rows)} bundled {'entry' if len(rows) == 1 else 'entries'} published",
        *(
            f"catalog: {one.key}: this release's data comes before version {one.version} by {one.author}"
            for one in before
            if one is not None and one.author != BUNDLED_BY
        ),
    ]


def publish_engine(
    connection: Connection, key: str, spec: Engine, *, instead_of: str, author: str, note: str, now: datetime
) -> tuple[int, str]:
    """Add a version of an engine that an operator approved; returns its number, and whose it is.

    `instead_of` is the digest of the version that it was made from. Where the newest is the very same as the new one,
    its number is returned, and who published that. Raises `Refused` where the newest is another by now, and for an
    author that is the release's.
    """
    if author == BUNDLED_BY:
        raise Refused(Fault("/author", f"{BUNDLED_BY} is who publishes what a release ships; say who approves this"))
    head = connection.execute(select(catalog_head).with_for_update()).one()
    newest = _newest(connection, catalog_versions.c.kind == "engines", catalog_versions.c.key == key).get(
        ("engines", key)
    )
    spec_bytes = canonical(spec)
    if newest is not None and newest.digest == digest_of(spec_bytes):
        return newest.version, newest.author
    if newest is None or newest.digest != instead_of:
        raise Refused(Fault("/engine", f"{key} has changed meanwhile: look at what is proposed now"))
    at = max(now, head.at + timedelta(microseconds=1))
    connection.execute(
        insert(catalog_versions).values(
            id=uuid7(),
            kind="engines",
            key=key,
            version=newest.version + 1,
            revision=head.revision + 1,
            status="active",
            spec=spec_bytes,
            digest=digest_of(spec_bytes),
            source=newest.source,
            note=note,
            author=author,
            at=at,
        )
    )
    connection.execute(update(catalog_head).values(revision=head.revision + 1, at=at))
    return newest.version + 1, author


def _newest(connection: Connection, *of: ColumnElement[bool]) -> dict[tuple[str, str], _Newest]:
    """The newest version of each key, among those of a kind."""
    query = (
        select(
            catalog_versions.c.kind,
            catalog_versions.c.key,
            catalog_versions.c.version,
            catalog_versions.c.digest,
            catalog_versions.c.source,
            catalog_versions.c.author,
        )
        .where(*of)
        .ext(distinct_on(catalog_versions.c.kind, catalog_versions.c.key))
        .order_by(catalog_versions.c.kind, catalog_versions.c.key, catalog_versions.c.version.desc())
    )
    found = (_Newest(**row) for row in connection.execute(query).mappings())
    return {(one.kind, one.key): one for one in found}
