"""Runs migrations over a connection that the caller opened, under a lock that only one migration can hold."""

import time

from alembic import context
from sqlalchemy import Connection, text

from service.errors import SetUpError
from service.store.tables import metadata

# Any number will do, as long as no other program on this database uses it.
_LOCK = 0x68656164636F756E
_WAIT_SECONDS = 60


def _locked(connection: Connection) -> None:
    """Take the session-level lock, or give up after a while.

    Not a transaction-level one: it would be lost where a step has to run outside a transaction.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    while not connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": _LOCK}).scalar_one():
        if time.monotonic() > deadline:
            raise SetUpError(f"another migration has been running for {_WAIT_SECONDS} s; try again when it is done")
        time.sleep(0.2)


def _run(connection: Connection) -> None:
    _locked(connection)
    try:
        # A migration that waits for a lock makes everybody behind it wait as well.
        connection.execute(text("SET lock_timeout = '5s'"))
        connection.commit()
        context.configure(
            connection=connection, target_metadata=metadata, transaction_per_migration=True, compare_type=True
        )
        with context.begin_transaction():
            context.run_migrations()
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _LOCK})
        connection.commit()


_run(context.config.attributes["connection"])
