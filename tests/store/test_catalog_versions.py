"""New bundled data arrives as new versions, and a running service plans with them from then on."""

import time

import httpx
import msgspec
import pytest

from service.catalog.bundled import bundled_versions
from service.catalog.entries import Version, canonical, digest_of
from service.store import catalog_versions
from service.store.migrations import migrate
from tests.questions import REFERENCE
from tests.servers import connect
from tests.services import running_service


def with_a_smaller_h100() -> tuple[Version, ...]:
    """The bundled entries as a later release might ship them: one card reports 1 GiB less."""
    changed = []
    for entry in bundled_versions():
        if entry.key == "h100-sxm-80gb":
            spec = msgspec.json.decode(entry.spec)
            spec["reported_memory"]["bytes"]["value"] -= 2**30
            spec_bytes = canonical(spec)
            changed.append(msgspec.structs.replace(entry, spec=spec_bytes, digest=digest_of(spec_bytes)))
        else:
            changed.append(entry)
    return tuple(changed)


def test_changed_bundled_data_is_a_new_version_in_one_revision(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_versions, "bundled_versions", with_a_smaller_h100)
    assert migrate(database) == ["catalog: 1 bundled entry published"]
    assert migrate(database) == []
    with connect(database) as connection:
        versions = connection.execute(
            "SELECT version, revision FROM catalog_versions WHERE key = 'h100-sxm-80gb' ORDER BY version"
        ).fetchall()
    assert versions == [(1, 1), (2, 2)]


def test_going_back_to_a_release_brings_its_data_back_as_a_new_version(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(catalog_versions, "bundled_versions", with_a_smaller_h100)
        migrate(database)
    assert migrate(database) == ["catalog: 1 bundled entry published"]
    with connect(database) as connection:
        versions = connection.execute(
            "SELECT version, revision, digest FROM catalog_versions WHERE key = 'h100-sxm-80gb' ORDER BY version"
        ).fetchall()
    assert [row[:2] for row in versions] == [(1, 1), (2, 2), (3, 3)]
    assert versions[0][2] == versions[2][2] != versions[1][2]


def without_visible_memory() -> tuple[Version, ...]:
    """The bundled entries as before the catalog said what a process sees of a card."""
    changed = []
    for entry in bundled_versions():
        spec = msgspec.json.decode(entry.spec)
        spec.pop("visible_memory", None)
        spec_bytes = canonical(spec)
        changed.append(msgspec.structs.replace(entry, spec=spec_bytes, digest=digest_of(spec_bytes)))
    return tuple(changed)


def test_versions_from_before_a_field_are_still_read(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr(catalog_versions, "bundled_versions", without_visible_memory)
        assert migrate(database) == ["catalog: 65 bundled entries published"]
    assert migrate(database) == ["catalog: 65 bundled entries published"]
    with running_service(HEADCOUNT_DATABASE_URL=database) as service:
        answers = [
            httpx.post(f"{service.url}/v1/plans", json=REFERENCE | {"gpu": {"key": "h100-sxm-80gb", "version": number}})
            for number in (2, 3)
        ]
        older_spec, newer_spec = (
            httpx.get(f"{service.url}/v1/gpus/h100-sxm-80gb/versions/{number}").json()["spec"] for number in (2, 3)
        )
    assert [answer.status_code for answer in answers] == [200, 200]
    assert newer_spec == older_spec | {"visible_memory": newer_spec["visible_memory"]} != older_spec


def test_a_plan_recorded_after_a_change_of_the_catalog_uses_it(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_service(HEADCOUNT_DATABASE_URL=database) as service:
        before = httpx.post(f"{service.url}/v1/plans", json=REFERENCE)
        monkeypatch.setattr(catalog_versions, "bundled_versions", with_a_smaller_h100)
        migrate(database)
        after = httpx.post(f"{service.url}/v1/plans", json=REFERENCE)
        pinned = httpx.post(f"{service.url}/v1/plans", json=REFERENCE | {"gpu": {"key": "h100-sxm-80gb", "version": 1}})
        estimate = httpx.post(f"{service.url}/v1/estimates", json=REFERENCE)
    assert before.json()["ladder"][0]["value"] == 85_520_809_984
    assert after.json()["ladder"][0]["value"] == 85_520_809_984 - 2**30
    assert after.json()["inputs"]["gpu"]["version"] == 2
    assert after.headers["headcount-catalog-revision"] == "2"
    assert pinned.content == before.content
    assert estimate.json()["ladder"] == after.json()["ladder"]


def test_a_model_published_meanwhile_is_known_to_every_worker(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    llama = next(entry for entry in bundled_versions() if entry.key == REFERENCE["model"])
    added = msgspec.structs.replace(llama, key="test/new-model")
    question = REFERENCE | {"model": "test/new-model"}
    with running_service("--workers", "2", HEADCOUNT_DATABASE_URL=database) as service:
        assert httpx.post(f"{service.url}/v1/plans", json=question).status_code == 422
        monkeypatch.setattr(catalog_versions, "bundled_versions", lambda: (*bundled_versions(), added))
        migrate(database)
        # Recorded questions know at once; estimates and reads after a second.
        assert {httpx.post(f"{service.url}/v1/plans", json=question).status_code for _ in range(10)} == {200}
        time.sleep(2.5)
        assert {httpx.post(f"{service.url}/v1/estimates", json=question).status_code for _ in range(10)} == {200}
        assert {httpx.get(f"{service.url}/v1/models/test/new-model").status_code for _ in range(10)} == {200}
