"""Fixtures that every test may use: one PostgreSQL and one running service per session, a database per need."""

from collections.abc import Iterator

import httpx
import hypothesis
import psycopg
import pytest

from service.store.migrations import migrate
from tests.servers import connect, throw_away_database, throw_away_server
from tests.services import running_service

# Two cores shared with servers: how long one example takes says nothing here.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The DSN of a throw-away PostgreSQL, with an empty database."""
    with throw_away_server() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def migrated(server: str) -> Iterator[str]:
    """The name of a database that is migrated and that nobody writes to: a template."""
    with throw_away_database(server) as dsn:
        migrate(dsn)
        yield dsn.rpartition("/")[2].partition("?")[0]


@pytest.fixture
def database(server: str, migrated: str) -> Iterator[str]:
    """The DSN of a migrated database of the test's own."""
    with throw_away_database(server, template=migrated) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def shared_database(server: str, migrated: str) -> Iterator[str]:
    """The DSN of the database that the shared service records in."""
    with throw_away_database(server, template=migrated) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def service_url(shared_database: str) -> Iterator[str]:
    """The address of a running service that tests share; they may record, and must not count on being alone."""
    with running_service(HEADCOUNT_DATABASE_URL=shared_database) as service:
        yield service.url


@pytest.fixture(scope="session")
def client(service_url: str) -> Iterator[httpx.Client]:
    """A client of the shared service."""
    with httpx.Client(base_url=service_url, timeout=30) as client:
        yield client


@pytest.fixture
def rows(shared_database: str) -> Iterator[psycopg.Connection]:
    """A session in the shared service's database."""
    with connect(shared_database) as connection:
        yield connection
