"""Settings, read once from the environment and frozen. A wrong one stops the start with a readable line."""

from collections.abc import Mapping

import msgspec
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from service.errors import SetUpError

_DRIVER = "postgresql+psycopg"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the environment decides. Without `database_url` the embedded PostgreSQL is used."""

    database_url: str | None


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read `HEADCOUNT_*`. Raises `SetUpError` for a setting that is wrong.

    Names that aren't known are left alone: Kubernetes sets HEADCOUNT_PORT and more beside a service of this name.
    """
    return Settings(database_url=_database_url(environment.get("HEADCOUNT_DATABASE_URL") or None))


def _database_url(written: str | None) -> str | None:
    if written is None:
        return None
    try:
        url = make_url(written)
    except (ArgumentError, ValueError) as error:  # the text may hold a password: it isn't repeated
        raise SetUpError(
            "HEADCOUNT_DATABASE_URL is not a URL; write postgresql://user:password@host:5432/database"
        ) from error
    if url.drivername not in {"postgresql", "postgres", _DRIVER}:
        raise SetUpError(f"HEADCOUNT_DATABASE_URL begins with {url.drivername}://; it must begin with postgresql://")
    return url.set(drivername=_DRIVER).render_as_string(hide_password=False)
