"""The application: wiring only. It may import everything, and only the command line imports it."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar
from litestar.di import Provide
from litestar.types import ASGIApp

from service.api.bodies import LIMIT
from service.api.envelope import Envelope
from service.api.headcount import Headcount
from service.api.openapi import openapi_document, rendered
from service.api.pages import description_page
from service.api.problems import exception_handlers
from service.api.routes import options_handlers, route_handlers
from service.catalog.bundled import bundled_versions
from service.catalog.entries import UNREAD, Catalog
from service.errors import SetUpError, StoreUnavailable
from service.settings import Settings, read_settings
from service.store import catalog_versions
from service.store.transactions import Database


def create_app(settings: Settings) -> ASGIApp:
    """Wire the service up. The database is connected when the application starts."""
    if settings.database_url is None:
        raise SetUpError("the application needs HEADCOUNT_DATABASE_URL; `headcount serve` sets it for the embedded one")
    database = Database(settings.database_url)

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        headcount = app.state.headcount = Headcount(database, await _catalog(database))
        following = asyncio.create_task(headcount.follow())
        yield
        following.cancel()
        await database.close()

    handlers = route_handlers()
    document = openapi_document(handlers)
    description, page = rendered(document), description_page(document)

    def headcount() -> Headcount:
        state: Headcount = app.state.headcount
        return state

    app = Litestar(
        # OPTIONS comes first: Litestar adds its own to a path that has none yet when the path's first handler comes.
        route_handlers=[*options_handlers(handlers), *handlers],
        dependencies={
            "headcount": Provide(headcount, sync_to_thread=False),
            "description": Provide(lambda: description, sync_to_thread=False),
            "description_page": Provide(lambda: page, sync_to_thread=False),
        },
        exception_handlers=exception_handlers(),
        lifespan=[lifespan],
        request_max_body_size=LIMIT,
        openapi_config=None,
        logging_config=None,
    )
    return Envelope(app)


async def _catalog(database: Database) -> Catalog:
    """Read the catalog. A worker that starts while PostgreSQL is away estimates from the bundled one meanwhile."""
    try:
        return await database.transaction(catalog_versions.load)
    except StoreUnavailable:
        return Catalog(UNREAD, bundled_versions())


def application() -> ASGIApp:
    """Make the application from the environment: what a server process calls."""
    return create_app(read_settings(os.environ))
