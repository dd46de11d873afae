"""What handlers share: the database and the catalog in memory."""

import asyncio
import logging
from functools import partial
from typing import NamedTuple

from service.api.off_loop import off_loop
from service.catalog.entries import Catalog
from service.catalog.planning import estimate, planned
from service.errors import StoreUnavailable, UnknownKey
from service.readers.question import AskedQuestion
from service.store import catalog_versions, plans
from service.store.plans import Asked, StoredPlan
from service.store.transactions import Database

_log = logging.getLogger("headcount")

_TRIES = 3

FOLLOWS_WITHIN = 1.0
"""Seconds that estimates may answer from an older catalog."""


class Recorded(NamedTuple):
    """A stored plan, and the catalog revision that its question was resolved with."""

    plan: StoredPlan
    catalog_revision: int


class Headcount:
    """The service's state in one worker process."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        """Keep the database and the catalog as it was at the start."""
        self.database = database
        self.catalog = catalog

    async def estimate(self, question: AskedQuestion, *, size: int) -> tuple[bytes, int]:
        """Answer a question of so many bytes; also says which catalog revision its names were resolved with."""
        catalog = self.catalog
        return await off_loop(size, estimate, question, catalog), catalog.revision

    async def record(self, question: AskedQuestion, asked: Asked, *, size: int) -> Recorded:
        """Plan and record a question with the catalog as it is at the time of the transaction.

        Raises `Refused` for a question that can't be answered, `StoreUnavailable` when nothing can be recorded.
        """
        for _ in range(_TRIES):
            catalog = self.catalog
            try:
                answered = await off_loop(size, planned, question, catalog)
            except UnknownKey:
                if await self.refresh():  # perhaps it has been added since
                    continue
                raise
            work = partial(plans.record, planned=answered, asked=asked, catalog_revision=catalog.revision)
            stored = await self.database.transaction(work)
            if stored is not None:
                return Recorded(stored, catalog.revision)
            await self.refresh()
        raise StoreUnavailable("the catalog changed faster than a plan could be recorded")

    async def refresh(self) -> bool:
        """Read the catalog again if it has moved; say whether it had."""
        if await self.database.transaction(catalog_versions.revision) == self.catalog.revision:
            return False
        self.catalog = await self.database.transaction(catalog_versions.load)
        return True

    async def follow(self) -> None:
        """Keep the catalog at most a second behind, for as long as the service runs."""
        while True:
            await asyncio.sleep(FOLLOWS_WITHIN)
            try:
                await self.refresh()
            except StoreUnavailable:
                continue
            except Exception:  # noqa: BLE001 - whatever it is, the next second may be better, and nobody else sees it
                _log.exception("the catalog can't be read")
