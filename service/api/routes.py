"""All routes of the service."""

from collections.abc import Iterable

from litestar import HttpMethod, Response, route
from litestar.handlers import HTTPRouteHandler

from service.api import documents, estimates, health, models, observations, plans, pools
from service.api.catalog import catalog_routes


def route_handlers() -> list[HTTPRouteHandler]:
    """Every handler that the OpenAPI document describes, each with its `Operation`."""
    return [
        plans.record_plan,
        plans.read_plan,
        plans.list_plans,
        estimates.post_estimate,
        estimates.get_estimate,
        pools.compare,
        observations.record_observation,
        observations.read_observation,
        observations.list_observations,
        models.read_config,
        *catalog_routes(),
        health.livez,
        health.readyz,
        health.build,
        documents.openapi,
        documents.docs,
        documents.problems,
        documents.problem,
    ]


def options_handlers(handlers: Iterable[HTTPRouteHandler]) -> list[HTTPRouteHandler]:
    """An OPTIONS handler for every path.

    Litestar makes its own, which for a path of two handlers names only the first one's methods.
    """
    methods: dict[str, set[str]] = {}
    for handler in handlers:
        for path in handler.paths:
            methods.setdefault(path, {HttpMethod.OPTIONS.value}).update(
                HttpMethod(method).value for method in handler.http_methods
            )
    return [_options(path, ", ".join(sorted(allowed))) for path, allowed in methods.items()]


def _options(path: str, allowed: str) -> HTTPRouteHandler:
    @route(path, http_method=HttpMethod.OPTIONS, status_code=204)
    async def options() -> Response[None]:
        return Response(None, status_code=204, headers={"Allow": allowed})

    return options
