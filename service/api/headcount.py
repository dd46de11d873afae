"""What handlers share: the database and the catalog in memory."""

import asyncio
from functools import partial
from typing import NamedTuple

from service.catalog.entries import Catalog
from service.catalog.planning import planned
from service.errors import StoreUnavailable
from service.readers.question import AskedQuestion
from service.store import catalog_versions, plans
from service.store.plans import Asked, StoredPlan
from service.store.transactions import Database

_TRIES = 3


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

    async def record(self, question: AskedQuestion, asked: Asked) -> Recorded:
        """Plan and record a question with the catalog as it is at the time of the transaction.

        Raises `Refused` for a question that can't be answered, `StoreUnavailable` when nothing can be recorded.
        """
        for _ in range(_TRIES):
            catalog = self.catalog
            answered = await asyncio.to_thread(planned, question, catalog)
            work = partial(plans.record, planned=answered, asked=asked, catalog_revision=catalog.revision)
            stored = await self.database.transaction(work)
            if stored is not None:
                return Recorded(stored, catalog.revision)
            self.catalog = await self.database.transaction(catalog_versions.load)
        raise StoreUnavailable("the catalog changed faster than a plan could be recorded")
