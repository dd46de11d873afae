"""Bringing a database to the schema of this release, and telling whether it is there."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, create_engine, inspect, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import NullPool

from service.errors import SetUpError
from service.store.catalog_versions import publish_bundled

OLDEST_SERVER = 15
"""The first major version of PostgreSQL that is supported."""


def migrations_folder() -> Path:
    """The migrations: inside the installed package, or beside it in a checkout."""
    package = Path(str(files("service")))
    installed = package / "migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


@cache
def _scripts() -> ScriptDirectory:
    # Read from disk, and /readyz asks for the head each time.
    return ScriptDirectory(str(migrations_folder()))


@cache
def head() -> str:
    """The schema revision that this release needs."""
    revision = _scripts().get_current_head()
    assert revision is not None  # there is at least one migration
    return revision


def migrate(url: str) -> list[str]:
    """Upgrade the schema and publish the bundled catalog; returns a line for each thing done.

    Raises `SetUpError` when the server can't be reached or is too old.
    """
    with connected(url) as connection:
        before = _revision(connection)
        configuration = Config()
        configuration.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
        configuration.attributes["connection"] = connection
        _check_known(before)
        command.upgrade(configuration, "head")
        after = _revision(connection)
        added = publish_bundled(connection, now=datetime.now(UTC))
        connection.commit()
    return [*([] if before == after else [f"schema: {before or 'empty'} -> {after}"]), *added]


def check_migrated(url: str) -> None:
    """Raise `SetUpError` unless the database can be reached and has this release's schema and a catalog."""
    with connected(url) as connection:
        current = _revision(connection)
        _check_known(current)
        if current != head():
            raise SetUpError(
                f"the database's schema is {current or 'empty'} and this release needs {head()}:"
                " run `headcount migrate`"
            )
        if not connection.execute(text("SELECT revision FROM catalog_head")).scalar_one():
            raise SetUpError("the database holds no catalog: run `headcount migrate`")


async def is_at_head(connection: AsyncConnection) -> bool:
    """Say whether the schema is the one that this release needs, and may be written to."""
    found = (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalars().all()
    read_only = (await connection.execute(text("SHOW transaction_read_only"))).scalar_one()
    return list(found) == [head()] and read_only == "off"


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Open one connection. Raises `SetUpError`, one readable line without the password, when that fails."""
    engine = _engine(url)
    try:
        with _opened(engine) as connection:
            yield connection
    except DBAPIError as error:
        reason = " ".join(str(error.orig).split())
        raise SetUpError(f"{_place(engine.url)} can't be used: {reason}") from error
    finally:
        engine.dispose()


def _opened(engine: Engine) -> Connection:
    try:
        connection = engine.connect()
    except DBAPIError:
        raise
    except (SQLAlchemyError, TypeError, ValueError) as error:  # an option of the URL that the driver doesn't know
        raise SetUpError(f"{_place(engine.url)} can't be used: check the options of HEADCOUNT_DATABASE_URL") from error
    major = int(connection.execute(text("SHOW server_version_num")).scalar_one()) // 10_000
    connection.rollback()
    if major < OLDEST_SERVER:
        connection.close()
        raise SetUpError(f"PostgreSQL {major} is too old: {OLDEST_SERVER} or newer is needed")
    return connection


def _engine(url: str) -> Engine:
    return create_engine(
        url,
        poolclass=NullPool,
        hide_parameters=True,
        connect_args={"connect_timeout": 5, "application_name": "headcount"},
    )


def _place(url: URL) -> str:
    """Where a database is, without user, password and options: any of them may be a secret."""
    host = url.host or "the local socket"
    return f"the database {url.database or ''} on {host}{f':{url.port}' if url.port else ''}"


def _check_known(revision: str | None) -> None:
    known = {script.revision for script in _scripts().walk_revisions()}
    if revision is not None and revision not in known:
        raise SetUpError(
            f"the database's schema is {revision}, which this release doesn't know: a newer release has migrated it;"
            " run that one"
        )


def _revision(connection: Connection) -> str | None:
    found = None
    if inspect(connection).has_table("alembic_version"):
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    connection.rollback()  # reading opened a transaction, and migrations want to open theirs
    return found
