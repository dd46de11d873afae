"""The one way to a transaction: committed before its result exists, bounded in time, retried once.

A plug-in that commits while the response is sent can lose a write without anybody noticing; here the result of
`Database.transaction` is returned only after COMMIT has succeeded.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from service.errors import StoreUnavailable

Result = TypeVar("Result")

Work = Callable[[AsyncConnection], Awaitable[Result]]
"""What is done in a transaction. It may run twice, so it makes its ids before."""

_log = logging.getLogger("headcount")

ANSWER_WITHIN = 2.5
"""Seconds that a caller waits for PostgreSQL; a hung server must not hang the service."""

_CONNECT_ARGUMENTS = {
    "connect_timeout": 2,
    "application_name": "headcount",
    # A connection pooler in transaction mode mixes up prepared statements.
    "prepare_threshold": None,
    "keepalives_idle": 30,
}
_MAY_SUCCEED_AGAIN = frozenset({"40001", "40P01"})  # serialization failure, deadlock
# Not faults of the service: a standby after a failover, rights or tables that somebody took away.
_OF_THE_DATABASE = frozenset({"25006", "42501", "42P01"})


class Database:
    """A pool of connections to one PostgreSQL."""

    def __init__(self, url: str) -> None:
        """Prepare the pool; nothing is connected yet."""
        self._engine = create_async_engine(
            url,
            pool_size=5,
            max_overflow=0,
            pool_timeout=1.5,
            pool_recycle=1800,
            connect_args=_CONNECT_ARGUMENTS,
            hide_parameters=True,  # a question is the caller's business, not the log's
        )
        self._running: set[asyncio.Task[object]] = set()
        self._available = True

    async def transaction(self, work: Work[Result], *, within: float = ANSWER_WITHIN) -> Result:
        """Run `work` in a transaction and return its result after the commit.

        `work` may run twice (lost connection, deadlock), so it makes its ids before it is called. Raises
        `StoreUnavailable` when PostgreSQL can't be reached or doesn't answer in time.
        """
        task = asyncio.create_task(self._retried(work))
        self._running.add(task)
        task.add_done_callback(self._forget)
        # Not asyncio.timeout: a cancelled query waits for PostgreSQL to confirm, which a hung one never does.
        done, _ = await asyncio.wait({task}, timeout=within)
        if not done:
            task.cancel()
            self._tell(available=False, why=f"no answer within {within} s")
            raise StoreUnavailable(
                f"PostgreSQL did not answer within {within} s; what was to be recorded may have been, and asking again"
                " is safe"
            )
        return task.result()

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    def _forget(self, task: "asyncio.Task[Result]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # seen: a late failure of an abandoned transaction is no news

    async def _retried(self, work: Work[Result]) -> Result:
        try:
            try:
                result = await self._once(work)
            except DBAPIError as error:
                if not _worth_another_try(error):
                    raise
                result = await self._once(work)
        except (DBAPIError, PoolTimeout) as error:
            raise self._unavailable(error) from error
        self._tell(available=True)
        return result

    async def _once(self, work: Work[Result]) -> Result:
        async with self._engine.begin() as connection:
            return await work(connection)

    def _unavailable(self, error: DBAPIError | PoolTimeout) -> Exception:
        if isinstance(error, PoolTimeout):
            return StoreUnavailable("all connections to PostgreSQL are in use")
        state = getattr(error.orig, "sqlstate", None)
        if not isinstance(error, (OperationalError, InterfaceError)) and state not in _OF_THE_DATABASE:
            return error
        self._tell(available=False, why=str(error.orig))
        return StoreUnavailable("PostgreSQL can't be reached, or doesn't let the service work")

    def _tell(self, *, available: bool, why: str = "") -> None:
        """Log that PostgreSQL went away or came back, once each, however many requests notice."""
        if available and not self._available:
            _log.warning("PostgreSQL is available again")
        elif not available and self._available:
            _log.warning("PostgreSQL is not available: %s", " ".join(why.split()))
        self._available = available


def _worth_another_try(error: DBAPIError) -> bool:
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _MAY_SUCCEED_AGAIN
