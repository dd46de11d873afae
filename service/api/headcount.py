"""What handlers share: the database and the catalog in memory."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

from service.api.off_loop import off_loop
from service.capacity.question import ObservedReserve
from service.catalog.entries import Catalog
from service.catalog.observing import Noted, noted_of_planned, noted_of_stored, placed, reserve_from
from service.catalog.planning import estimate, planned
from service.catalog.resolve import resolve
from service.errors import Fault, NotStored, Refused, StoreUnavailable, UnknownKey
from service.readers.observation import AskedObservation, read_observation
from service.readers.question import AskedQuestion
from service.store import catalog_versions, observations, plans
from service.store.observations import StoredObservation
from service.store.plans import Asked, StoredPlan, WholePlan
from service.store.transactions import Database, Work

_log = logging.getLogger("headcount")

_TRIES = 3

FOLLOWS_WITHIN = 1.0
"""Seconds that estimates may answer from an older catalog."""


Result = TypeVar("Result")


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
        observed = await self._observed_reserve(question, catalog, size)
        return await off_loop(size, estimate, question, catalog, observed), catalog.revision

    async def record(self, question: AskedQuestion, asked: Asked, *, size: int) -> Recorded:
        """Plan and record a question with the catalog as it is at the time of the transaction.

        Raises `Refused` for a question that can't be answered, `StoreUnavailable` when nothing can be recorded.
        """

        async def prepared(catalog: Catalog) -> Work[StoredPlan | None]:
            observed = await self._observed_reserve(question, catalog, size)
            answered = await off_loop(size, planned, question, catalog, observed)
            return partial(plans.record, planned=answered, asked=asked, catalog_revision=catalog.revision)

        return Recorded(*await self._with_the_newest_catalog(prepared))

    async def observe(self, observed: AskedObservation, asked: Asked, *, size: int) -> StoredObservation:
        """Record a start-up beside the plan that it is of, and the plan where it comes as a question.

        Raises `Refused` for one that can't be read or contradicts the question, `StoreUnavailable` when nothing can be
        recorded.
        """
        reading = await off_loop(size, read_observation, observed)
        question = observed.question
        if question is None:
            whole = await self._plan(observed.plan or "")

            async def compared(catalog: Catalog) -> Work[StoredObservation | None]:
                found = await off_loop(size, noted_of_stored, whole.question, whole.answer, reading, catalog, asked.at)
                return partial(observations.record, noted=found)

            return (await self._with_the_newest_catalog(compared))[0]

        async def prepared(catalog: Catalog) -> Work[StoredObservation | None]:
            with placed("/question"):
                reserve = await self._observed_reserve(question, catalog, size)
                answered = await off_loop(size, planned, question, catalog, reserve)
                beside = partial(noted_of_planned, answered, reading=reading, catalog=catalog, at=asked.at)
                found = await off_loop(size, beside, answered.answer_bytes)

            def noted_beside(answer: bytes) -> Noted:
                return found if answer == answered.answer_bytes else beside(answer)

            return partial(
                observations.record_with_plan,
                planned=answered,
                asked=asked,
                catalog_revision=catalog.revision,
                noted_beside=noted_beside,
            )

        return (await self._with_the_newest_catalog(prepared))[0]

    async def _with_the_newest_catalog(
        self, prepare: Callable[[Catalog], Awaitable[Work[Result | None]]]
    ) -> tuple[Result, int]:
        """Prepare a transaction with the catalog in memory, run it, and do both again where the catalog has moved.

        Also says which revision it was.
        """
        for _ in range(_TRIES):
            catalog = self.catalog
            try:
                work = await prepare(catalog)
            except UnknownKey:
                if await self.refresh():  # perhaps it has been added since
                    continue
                raise
            result = await self.database.transaction(work)
            if result is not None:
                return result, catalog.revision
            await self.refresh()
        raise StoreUnavailable("the catalog changed faster than a plan could be recorded")

    async def _plan(self, identity: str) -> WholePlan:
        try:
            return await self.database.transaction(partial(plans.read_whole, identity=identity))
        except NotStored as error:
            raise Refused(Fault("/plan", str(error))) from error

    async def _observed_reserve(self, question: AskedQuestion, catalog: Catalog, size: int) -> ObservedReserve | None:
        """What start-ups of the question's deployment kept back, where it asks for that."""
        if question.reserve is None:
            return None
        bare = msgspec.structs.replace(question, reserve=None, workload=None, targets=None)
        about = await off_loop(size, resolve, bare, catalog)
        return reserve_from(about, await self.database.transaction(partial(observations.kept_back, question=about)))

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
