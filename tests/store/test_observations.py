"""Observations in the database: recorded once whoever asks, whole or not at all, and read back as new reserves."""

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from service.api.offered import NAME as OFFER
from service.capacity.engine import Engine
from service.capacity.reserve_rules import Measured
from service.catalog.bundled import bundled_versions
from service.catalog.entries import Version
from service.catalog.observing import noted_of_stored
from service.errors import Refused
from service.readers.observation import AskedFields, AskedObservation, read_observation
from service.store import catalog_versions, observations, plans
from service.store.migrations import connected, migrate
from service.store.transactions import Database
from tests.fixed_catalog import ENGINE, figure, gpu, model, version
from tests.observations import of_generic
from tests.servers import connect
from tests.services import Service, running_service

GIB = 2**30


@pytest.fixture
def service(database: str) -> Iterator[Service]:
    with running_service("--workers", "2", HEADCOUNT_DATABASE_URL=database) as service:
        yield service


def test_the_same_start_up_from_many_at_once_is_recorded_once(service: Service, database: str) -> None:
    def send(_: int) -> httpx.Response:
        return httpx.post(f"{service.url}/v1/observations", json=of_generic(4001), timeout=30)

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(send, range(32)))
    assert sorted(answer.status_code for answer in answers) == [200] * 31 + [201]
    assert len({answer.content for answer in answers}) == 1
    with connect(database) as rows:
        assert rows.execute("SELECT count(*) FROM observations").fetchone() == (1,)
        assert rows.execute("SELECT count(*) FROM plans").fetchone() == (1,)
        assert rows.execute("SELECT count(*) FROM decisions").fetchone() == (32,)


def test_a_kill_in_between_leaves_no_plan_without_its_start_up(database: str) -> None:
    def send(client: httpx.Client, number: int) -> int | None:
        try:
            return client.post("/v1/observations", json=of_generic(number)).status_code
        except httpx.HTTPError:
            return None

    sent, answered = 0, 0
    for kill in range(3):
        with (
            running_service(HEADCOUNT_DATABASE_URL=database) as service,
            httpx.Client(base_url=service.url, timeout=30) as client,
            ThreadPoolExecutor(8) as threads,
        ):
            waiting = [threads.submit(send, client, 5000 + 1000 * kill + number) for number in range(400)]
            time.sleep(0.3 + 0.1 * kill)
            service.process.kill()
            service.process.wait()
            statuses = [one.result() for one in waiting]
            sent, answered = sent + len(statuses), answered + statuses.count(201)
    with connect(database) as rows:
        (stored,) = rows.execute("SELECT count(*) FROM observations").fetchone() or (0,)
        assert sent > stored >= answered > 0
        assert rows.execute(
            "SELECT count(*) FROM plans WHERE NOT EXISTS (SELECT FROM observations WHERE plan = plans.id)"
            " OR NOT EXISTS (SELECT FROM decisions WHERE plan = plans.id)"
        ).fetchone() == (0,)


def test_a_start_up_that_was_recorded_long_after_its_request_is_offered_too(service: Service, database: str) -> None:
    asked = of_generic(4100)
    plan = httpx.post(f"{service.url}/v1/plans", json=asked["question"], timeout=30).json()["plan"]
    # One that the service knows, so that it looks for newer ones only.
    known = of_generic(4101)
    assert httpx.post(f"{service.url}/v1/observations", json=known, timeout=30).status_code == 201
    wait_for_offer(service, known["question"])
    given = msgspec.convert(asked["fields"], AskedFields)
    reading = read_observation(AskedObservation(plan=plan, fields=given))
    requested = datetime.now(UTC) - timedelta(hours=1)

    async def record(connection: AsyncConnection) -> None:
        stored = await plans.read_whole(connection, identity=plan)
        catalog = await catalog_versions.load(connection)
        noted = noted_of_stored(stored.question, stored.answer, reading, catalog, requested)
        await observations.record(connection, noted)

    async def recorded() -> None:
        opened = Database(database)
        await opened.transaction(record, within=30)
        await opened.close()

    asyncio.run(recorded())
    wait_for_offer(service, asked["question"])


def wait_for_offer(service: Service, question: dict[str, Any]) -> None:
    """Both workers offer what start-ups kept back, in a few seconds."""
    deadline, offers = time.monotonic() + 10, 0
    while offers < 20:  # in a row: of two workers one alone would hardly answer all
        answer = httpx.post(f"{service.url}/v1/estimates", json=question, timeout=30)
        offers = offers + 1 if OFFER in answer.headers else 0
        assert time.monotonic() < deadline


# What an engine learns. Every figure is made up: a step takes 6 B x 2,048 tokens x (4,096 + 16,384) channels.
STEP = 6 * 2048 * 20_480
MEMORY = 85_520_809_984
WEIGHTS = 16_060_522_496


def row(ranks: tuple[int, int], best: int, **kind: object) -> dict[str, object]:
    amounts = {"low": best - 10, "best": best, "high": best + 10}
    return {"tensor_parallel": ranks, "logs": 0, "source": "made up for tests", **amounts, **kind}


RULE = {
    "kind": "measured",
    "channel_bytes": figure(6.0),
    "overheads": [row((1, 1), GIB), row((2, 64), 2 * GIB)],
}

LEARNING = ENGINE | {
    "reserve_bytes": None,
    "reserve_rule": RULE,
    "memory": "visible",
    "max_num_batched_tokens": figure({"tiers": [[0, 2048]], "small_too": []}),
    "max_num_seqs": figure({"tiers": [[0, 256]], "small_too": []}),
}

ADDED = (
    version("engines", "test@1", LEARNING),
    version("gpus", "test-card", gpu(MEMORY)),
    version(
        "models",
        "test/learnt",
        model(
            32,
            8,
            [(8_030_261_248, "bf16")],
            layers=figure(32),
            hidden_size=figure(4096),
            feed_forward_width=figure(16_384),
            vocab_size=figure(32_000),
        ),
    ),
)


def with_the_added(*changed: Version) -> tuple[Version, ...]:
    return (*bundled_versions(), *(changed or ADDED))


@pytest.fixture
def learning(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database whose catalog has an engine, a card and a model with made-up figures, as a release would ship them."""
    monkeypatch.setattr(catalog_versions, "bundled_versions", with_the_added)
    migrate(database)
    return database


def start_up(overhead: int, ranks: int = 1, **fields: object) -> dict[str, Any]:
    """A start-up that kept back so much beside the step: 0.9 of the memory less weights, cache and all of that.

    The norms and the like are no part of these weights: two ranks hold half each.
    """
    step = 6 * 2048 * (4096 + 16_384 // ranks)
    weights = WEIGHTS // ranks
    cache = MEMORY * 9 // 10 - weights - step - overhead
    levers = {"max_model_len": 8192, "tensor_parallel": ranks}
    return {
        "question": {"model": "test/learnt", "gpu": "test-card", "engine": "test@1", "levers": levers},
        "fields": {"weights": weights, "kv_cache": cache} | fields,
    }


def record(service: Service, *start_ups: dict[str, Any]) -> list[dict[str, Any]]:
    sent = [httpx.post(f"{service.url}/v1/observations", json=one, timeout=30) for one in start_ups]
    assert {one.status_code for one in sent} == {201}, [one.text for one in sent]
    return [one.json() for one in sent]


def fit(database: str, *arguments: str, status: int = 0) -> str:
    """Run the command and return what it prints."""
    command = [sys.executable, "-m", "service.cli.main", "engines", "fit", *arguments]
    result = subprocess.run(
        command, env={"HEADCOUNT_DATABASE_URL": database}, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == status, result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout + result.stderr


def versions(database: str) -> list[tuple[int, str, str]]:
    with connect(database) as rows:
        return rows.execute(
            "SELECT version, author, note FROM catalog_versions WHERE key = 'test@1' ORDER BY version"
        ).fetchall()


def newest(database: str) -> Measured:
    with connect(database) as rows:
        found = rows.execute(
            "SELECT spec FROM catalog_versions WHERE key = 'test@1' ORDER BY version DESC LIMIT 1"
        ).fetchone()
    assert found is not None
    rule = msgspec.json.decode(found[0], type=Engine).reserve_rule
    assert isinstance(rule, Measured)
    return rule


def test_nothing_recorded_is_nothing_to_fit(learning: str) -> None:
    assert "there is nothing to fit" in fit(learning)
    assert "there is no engine 'nope' in the catalog" in fit(learning, "nope", status=2)


def test_a_proposal_shows_each_row_before_and_after_and_writes_nothing(learning: str) -> None:
    with running_service(HEADCOUNT_DATABASE_URL=learning) as service:
        record(service, *(start_up(overhead) for overhead in (2 * GIB, 3 * GIB, 5 * GIB)))
    printed = fit(learning)
    # Middle 3 GiB; 2 and 5 with a margin of 0.5 / sqrt(3) = 0.29 GiB.
    (line,) = [line for line in printed.splitlines() if line.startswith("any deployment")]
    assert line.split("  ")[0] == "any deployment"
    assert "1-1  " in line
    assert " 0 -> 3 " in line
    assert re.findall(r"[\d.]+ GiB -> [\d.]+ GiB", line) == [
        "1.00 GiB -> 3.00 GiB",
        "1.00 GiB -> 1.71 GiB",
        "1.00 GiB -> 5.29 GiB",
    ]
    assert versions(learning) == [(1, "headcount", "bundled with the release")]


def test_an_approved_proposal_is_the_newest_version_and_is_planned_with(learning: str) -> None:
    with running_service(HEADCOUNT_DATABASE_URL=learning) as service:
        recorded = record(service, *(start_up(overhead) for overhead in (2 * GIB, 3 * GIB, 4 * GIB)))
        assert "test@1: version 2 is the newest, by alice" in fit(learning, "test@1", "--approve", "--author", "alice")
        answer = httpx.post(f"{service.url}/v1/plans", json=start_up(0)["question"]).json()
    assert answer["inputs"]["engine"]["version"] == 2
    assert answer["ladder"][3]["value"] == STEP + 3 * GIB
    names = ", ".join(sorted(one["observation"] for one in recorded))
    assert versions(learning)[1:] == [(2, "alice", f"refitted from 3 start-ups: {names}")]


def test_a_row_that_no_start_up_is_of_stays_as_it_is(learning: str) -> None:
    with running_service(HEADCOUNT_DATABASE_URL=learning) as service:
        record(service, start_up(7 * GIB, ranks=2))
    fit(learning, "--approve", "--author", "alice")
    alone, shared = newest(learning).overheads
    assert msgspec.to_builtins(alone) == row((1, 1), GIB) | {"tensor_parallel": (1, 1)}
    assert (shared.best, shared.logs) == (7 * GIB, 1)


def test_a_start_up_that_is_told_of_two_plans_counts_once(learning: str) -> None:
    again = start_up(2 * GIB)
    again["question"]["targets"] = {"users": 7}
    with running_service(HEADCOUNT_DATABASE_URL=learning) as service:
        record(service, start_up(2 * GIB), again)
    assert " 0 -> 1 " in fit(learning)


def test_approving_the_same_again_adds_nothing(learning: str) -> None:
    with running_service(HEADCOUNT_DATABASE_URL=learning) as service:
        record(service, start_up(2 * GIB))
    for _ in range(2):
        assert "version 2 is the newest" in fit(learning, "--approve", "--author", "alice")
    assert len(versions(learning)) == 2


def test_who_approved_the_same_first_is_whose_version_it_is(learning: str) -> None:
    with running_service(HEADCOUNT_DATABASE_URL=learning) as service:
        record(service, start_up(2 * GIB))
    with connected(learning) as connection:
        catalog = catalog_versions.load_now(connection)
    pinned = catalog.engines.pinned("test@1", None)
    changed = msgspec.structs.replace(pinned.spec, notes="another")
    with connected(learning) as connection:
        told = [
            catalog_versions.publish_engine(
                connection, "test@1", changed, instead_of=pinned.digest, author=author, note="n", now=datetime.now(UTC)
            )
            for author in ("bob", "alice")
        ]
    assert told == [(2, "bob"), (2, "bob")]


def test_what_an_operator_approved_outlives_the_next_migration(learning: str) -> None:
    with running_service(HEADCOUNT_DATABASE_URL=learning) as service:
        record(service, start_up(2 * GIB))
    fit(learning, "--approve", "--author", "alice")
    assert migrate(learning) == []
    assert [author for _, author, _ in versions(learning)] == ["headcount", "alice"]


def test_a_release_with_new_data_of_the_engine_says_whose_version_it_comes_before(
    learning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_service(HEADCOUNT_DATABASE_URL=learning) as service:
        record(service, start_up(2 * GIB))
    fit(learning, "--approve", "--author", "alice")
    corrected = LEARNING | {"reserve_rule": RULE | {"channel_bytes": figure(7.0)}}
    later = with_the_added(version("engines", "test@1", corrected), *ADDED[1:])
    monkeypatch.setattr(catalog_versions, "bundled_versions", lambda: later)
    assert migrate(learning) == [
        "catalog: 1 bundled entry published",
        "catalog: test@1: this release's data comes before version 2 by alice",
    ]
    assert [author for _, author, _ in versions(learning)] == ["headcount", "alice", "headcount"]
    assert migrate(learning) == []


def test_a_correction_of_the_weights_leaves_the_cache_that_was_seen(
    learning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = start_up(2 * GIB)
    question = seen["question"]
    model = msgspec.json.decode(ADDED[2].spec)
    (part,) = model["weights"]["value"]
    heavier = model["weights"] | {"value": [part | {"parameters": part["parameters"] + GIB // 2}]}
    corrected = version("models", "test/learnt", model | {"weights": heavier})
    with running_service(HEADCOUNT_DATABASE_URL=learning) as service:
        record(service, seen)
        before = httpx.post(f"{service.url}/v1/plans", json=question | {"reserve": "observed"}).json()
        monkeypatch.setattr(catalog_versions, "bundled_versions", lambda: with_the_added(*ADDED[:2], corrected))
        assert migrate(learning) == ["catalog: 1 bundled entry published"]
        after = httpx.post(f"{service.url}/v1/plans", json=question | {"reserve": "observed"}).json()
        deadline = time.monotonic() + 10
        while not (offer := httpx.post(f"{service.url}/v1/plans", json=question).headers.get(OFFER, "")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    # Step 3 has a gibibyte more, step 4 one less, and step 5 is the cache that was printed both times.
    weights, reserve, cache = WEIGHTS, STEP + 2 * GIB, seen["fields"]["kv_cache"]
    assert [rung["value"] for rung in before["ladder"][2:5]] == [weights, reserve, cache]
    assert [rung["value"] for rung in after["ladder"][2:5]] == [weights + GIB, reserve - GIB, cache]
    assert f"best={reserve - GIB}," in offer


def test_a_start_up_that_does_not_say_what_was_kept_back_teaches_nothing(learning: str) -> None:
    by_hand = start_up(2 * GIB)
    by_hand["question"]["levers"]["kv_cache_memory_bytes"] = 10 * GIB
    staged = start_up(2 * GIB)
    staged["question"]["levers"]["pipeline_parallel"] = 2
    with running_service(HEADCOUNT_DATABASE_URL=learning) as service:
        record(service, start_up(2 * GIB, weights=None), by_hand, start_up(0, outcome="failed", kv_cache=None), staged)
        assert "there is nothing to fit" in fit(learning)
        record(service, start_up(2 * GIB))
    assert "4 more start-ups don't say what a rank kept back" in fit(learning)


def test_an_overhead_below_zero_is_pointed_out(learning: str) -> None:
    with running_service(HEADCOUNT_DATABASE_URL=learning) as service:
        record(service, start_up(-GIB // 2, kv_cache=MEMORY * 9 // 10 - WEIGHTS - STEP // 2))
    assert "Below zero: less was kept back than the step alone takes." in fit(learning)


@pytest.mark.parametrize(
    "arguments",
    [("--approve",), ("--author", "alice"), ("--approve", "--author", " "), ("--approve", "--author", "a\nb")],
)
def test_an_approval_says_whose_it_is(learning: str, arguments: tuple[str, ...]) -> None:
    assert fit(learning, *arguments, status=2).startswith("headcount: --author: ")


def test_nobody_approves_as_the_release(learning: str) -> None:
    with running_service(HEADCOUNT_DATABASE_URL=learning) as service:
        record(service, start_up(2 * GIB))
    assert "author: headcount is who publishes what a release ships" in fit(
        learning, "--approve", "--author", "headcount", status=2
    )
    assert len(versions(learning)) == 1


def test_a_proposal_that_is_older_than_the_newest_version_is_refused(learning: str) -> None:
    other = msgspec.convert(LEARNING | {"notes": "another"}, Engine)
    with connected(learning) as connection, pytest.raises(Refused, match="has changed meanwhile"):
        catalog_versions.publish_engine(
            connection, "test@1", other, instead_of="0" * 64, author="a", note="n", now=datetime.now(UTC)
        )
