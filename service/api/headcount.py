"""What handlers share: the database and the catalog in memory."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

from service.api.off_loop import LARGE, off_loop
from service.capacity.question import ObservedReserve
from service.catalog.entries import Catalog
from service.catalog.observing import Noted, noted_of_planned, noted_of_stored, placed
from service.catalog.offering import StartUps, offered, planned_weights, reserve_from, takes_the_engines_own
from service.catalog.planning import Estimated, Planned, compare_pools, estimate, planned
from service.catalog.resolve import resolve
from service.errors import Fault, NotStored, Refused, StoreUnavailable, UnknownKey
from service.readers.observation import AskedObservation, read_observation
from service.readers.question import AskedPools, AskedQuestion
from service.store import catalog_versions, observations, plans
from service.store.observations import StoredObservation
from service.store.plans import Asked, StoredPlan, WholePlan
from service.store.transactions import Database, Work

_log = logging.getLogger("headcount")

_TRIES = 3

FOLLOWS_WITHIN = 1.0
"""Seconds that estimates may answer from an older catalog, and that a new start-up may not be offered yet."""

_READ_AGAIN = timedelta(minutes=1)
"""How long before the newest known start-up another may have been recorded that wasn't there yet: no transaction takes
so long."""

Result = TypeVar("Result")


class Answered(NamedTuple):
    """An answer, the catalog revision that its question was resolved with, and the reserve that is offered beside."""

    answer: bytes
    catalog_revision: int
    offer: ObservedReserve | None


class Recorded(NamedTuple):
    """A stored plan, the catalog revision that its question was resolved with, and the reserve offered beside it."""

    plan: StoredPlan
    catalog_revision: int
    offer: ObservedReserve | None


class Headcount:
    """The service's state in one worker process."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        """Keep the database and the catalog as it was at the start."""
        self.database = database
        self.catalog = catalog
        self.start_ups = StartUps()
        self._learnt_to: datetime | None = None
        """When the newest known start-up was recorded, by the database's clock."""

    async def estimate(self, question: AskedQuestion, *, size: int) -> Answered:
        """Answer a question of so many bytes."""
        catalog = self.catalog
        observed = await self._observed_reserve(question, catalog, size)
        answered = await off_loop(size, estimate, question, catalog, observed)
        offer = await self._offer(question, answered)
        return Answered(answered.answer_bytes, catalog.revision, offer)

    async def pools(self, asked: AskedPools) -> tuple[bytes, int]:
        """Compare pools, as work on a large question whatever its size; also say which catalog revision it was."""
        catalog = self.catalog
        observed = await self._observed_reserve(asked.question, catalog, LARGE)
        return await off_loop(LARGE, compare_pools, asked, catalog, observed), catalog.revision

    async def record(self, question: AskedQuestion, asked: Asked, *, size: int) -> Recorded:
        """Plan and record a question with the catalog as it is at the time of the transaction.

        Raises `Refused` for a question that can't be answered, `StoreUnavailable` when nothing can be recorded.
        """
        offer: ObservedReserve | None = None

        async def prepared(catalog: Catalog) -> Work[StoredPlan | None]:
            nonlocal offer
            observed = await self._observed_reserve(question, catalog, size)
            answered = await off_loop(size, planned, question, catalog, observed)
            offer = await self._offer(question, answered)
            return partial(plans.record, planned=answered, asked=asked, catalog_revision=catalog.revision)

        plan, revision = await self._with_the_newest_catalog(prepared)
        return Recorded(plan, revision, offer)

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
        kept = await self.database.transaction(partial(observations.kept_back, question=about))
        return await off_loop(size, reserve_from, about, kept)

    async def _offer(self, asked: AskedQuestion, answered: Estimated | Planned) -> ObservedReserve | None:
        """What start-ups of the question's deployment kept back, where it leaves that to the engine.

        Of those in memory: estimates don't wait for PostgreSQL.
        """
        known = self.start_ups.of(answered.question) if takes_the_engines_own(asked) else []
        if not known:
            return None
        weights = planned_weights(answered.answer)
        return await off_loop(0, partial(offered, weights=weights), answered.question, known)

    async def learn(self) -> None:
        """Read start-ups that have been recorded since."""
        since = None if self._learnt_to is None else self._learnt_to - _READ_AGAIN
        told = await self.database.transaction(partial(observations.told, since=since))
        self.start_ups = self.start_ups.beside(told)
        self._learnt_to = max((one.at for one in told), default=self._learnt_to)

    async def refresh(self) -> bool:
        """Read the catalog again if it has moved; say whether it had."""
        if await self.database.transaction(catalog_versions.revision) == self.catalog.revision:
            return False
        self.catalog = await self.database.transaction(catalog_versions.load)
        return True

    async def follow(self) -> None:
        """Keep the catalog and the start-ups at most a second behind, for as long as the service runs."""
        while True:
            await asyncio.sleep(FOLLOWS_WITHIN)
            try:
                await self.refresh()
                await self.learn()
            except StoreUnavailable:
                continue
            except Exception:  # noqa: BLE001 - whatever it is, the next second may be better, and nobody else sees it
                _log.exception("the catalog or the start-ups can't be read")
