"""Catalog versions in PostgreSQL: loading all of them, and adding the ones that a release ships."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.catalog.bundled import bundled_versions
from service.catalog.entries import Catalog, Version
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


async def revision(connection: AsyncConnection) -> int:
    """Read the newest catalog revision."""
    return int((await connection.execute(select(catalog_head.c.revision))).scalar_one())


async def load(connection: AsyncConnection) -> Catalog:
    """Read all versions at one revision.

    The head is read first: a write between the two reads adds versions of a later revision, which are left out.
    """
    head = await revision(connection)
    rows = await connection.execute(select(*_COLUMNS).where(catalog_versions.c.revision <= head))
    return Catalog(head, [Version(**row) for row in rows.mappings()])


def publish_bundled(connection: Connection, *, now: datetime) -> list[str]:
    """Add every bundled entry that isn't the newest version of its key yet, all in one new revision.

    Returns a line per entry added. Takes the lock on the head, so two callers at once publish once.
    """
    head = connection.execute(select(catalog_head).with_for_update()).one()
    newest = {
        (row.kind, row.key): row
        for row in connection.execute(
            select(
                catalog_versions.c.kind,
                catalog_versions.c.key,
                func.max(catalog_versions.c.version).label("version"),
                func.array_agg(catalog_versions.c.digest).label("digests"),
            ).group_by(catalog_versions.c.kind, catalog_versions.c.key)
        )
    }
    # A digest that any version of the key already had isn't news: an older release must not undo a newer one.
    missing = [
        entry
        for entry in bundled_versions()
        if (entry.kind, entry.key) not in newest or entry.digest not in newest[entry.kind, entry.key].digests
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
            "author": "headcount",
            "at": at,
        }
        for entry in missing
    ]
    connection.execute(insert(catalog_versions), rows)
    connection.execute(update(catalog_head).values(revision=head.revision + 1, at=at))
    return [f"{row['kind']}/{row['key']} version {row['version']}" for row in rows]


def utc_now() -> datetime:
    """The clock, in UTC."""
    return datetime.now(UTC)
