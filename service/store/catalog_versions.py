"""Catalog versions in PostgreSQL: loading all of them, and adding the ones that a release ships."""

from datetime import datetime, timedelta

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncConnection

from service.catalog.bundled import bundled_versions
from service.catalog.entries import Catalog, Version
from service.errors import StoreUnavailable
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
    """Read the newest catalog revision. Raises `StoreUnavailable` when the row that holds it is gone."""
    found = (await connection.execute(select(catalog_head.c.revision))).scalar_one_or_none()
    if found is None:
        raise StoreUnavailable("the database holds no catalog: run `headcount migrate`")
    return int(found)


async def load(connection: AsyncConnection) -> Catalog:
    """Read all versions at one revision.

    The head is read first: a write between the two reads adds versions of a later revision, which are left out.
    """
    head = await revision(connection)
    rows = await connection.execute(select(*_COLUMNS).where(catalog_versions.c.revision <= head))
    return Catalog(head, [Version(**row) for row in rows.mappings()])


def publish_bundled(connection: Connection, *, now: datetime) -> int:
    """Add every bundled entry that isn't the newest version of its key yet, all in one new revision.

    Returns how many were added. Takes the lock on the head, so two callers at once publish once.
    """
    head = connection.execute(select(catalog_head).with_for_update()).one()
    newest = {
        (row.kind, row.key): row
        for row in connection.execute(
            select(
                catalog_versions.c.kind,
                catalog_versions.c.key,
                catalog_versions.c.version,
                catalog_versions.c.digest,
            )
            .ext(distinct_on(catalog_versions.c.kind, catalog_versions.c.key))
            .order_by(catalog_versions.c.kind, catalog_versions.c.key, catalog_versions.c.version.desc())
        )
    }
    # Going back to an older release's data is a new version too: this release answers with what it ships.
    missing = [
        entry
        for entry in bundled_versions()
        if (entry.kind, entry.key) not in newest or entry.digest != newest[entry.kind, entry.key].digest
    ]
    if not missing:
        return 0
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
    return len(rows)
