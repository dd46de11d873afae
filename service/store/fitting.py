"""Refitting engines from what is stored, and publishing what an operator approves, in one transaction each."""

from datetime import UTC, datetime

from service.catalog.fitting import Fit, Proposal, fit
from service.store import catalog_versions, observations
from service.store.migrations import connected


def fits(url: str, engine: str | None) -> list[Fit]:
    """Propose new overheads for one engine, or for every one of which anything was observed.

    Raises `Refused` for an engine that isn't in the catalog, `SetUpError` where the database can't be used.
    """
    with connected(url) as connection:
        catalog = catalog_versions.load_now(connection)
        if engine is not None:
            catalog.engines.pinned(engine, None)
        keys = observations.observed_engines(connection) if engine is None else [engine]
        start_ups = {key: observations.start_ups(connection, key) for key in keys}
    return [fit(key, told, catalog) for key, told in start_ups.items()]


def approve(url: str, proposal: Proposal, author: str) -> tuple[int, str]:
    """Publish a proposal as the newest version of its engine; returns its number, and whose it is.

    Another operator may have published the very same before.
    """
    count = len(proposal.observations)
    note = f"refitted from {count} start-up{'s' if count > 1 else ''}: {', '.join(proposal.observations)}"
    with connected(url) as connection:
        published = catalog_versions.publish_engine(
            connection,
            proposal.key,
            proposal.spec,
            instead_of=proposal.digest,
            author=author,
            note=note,
            now=datetime.now(UTC),
        )
        connection.commit()
    return published
