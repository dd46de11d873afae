"""docker-compose.yml, as docker-compose itself reads it. What the image does is in test_image.py."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import need

top = Path(__file__).parents[2]


def docker_compose_config(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `docker-compose config` with only these variables, in an empty folder: here, a .env may lie about."""
    program = need("docker-compose", debian="docker-compose")
    shutil.copy(top / "docker-compose.yml", folder)
    return subprocess.run(
        [program, "config"],
        cwd=folder,
        env={"PATH": os.defpath} | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Read the services with a password that would break an address if it stood in one."""
    folder = tmp_path_factory.mktemp("compose")
    done = docker_compose_config(folder, POSTGRES_PASSWORD="p@ss:w/rd")  # noqa: S106 -- a made-up one
    assert done.returncode == 0, done.stderr
    services: dict[str, Any] = yaml.safe_load(done.stdout)["services"]
    return services


def test_there_are_postgresql_18_a_migration_and_the_service(services: dict[str, Any]) -> None:
    assert set(services) == {"postgres", "migrate", "headcount"}
    assert services["postgres"]["image"] == "postgres:18"
    assert services["migrate"]["command"] == ["headcount", "migrate"]


def test_the_service_starts_after_the_migration_and_that_after_postgresql_answers(
    services: dict[str, Any],
) -> None:
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services["headcount"]["depends_on"] == {
        "postgres": {"condition": "service_healthy"},
        "migrate": {"condition": "service_completed_successfully"},
    }
    assert services["postgres"]["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]


@pytest.mark.parametrize("name", ["migrate", "headcount"])
def test_what_is_ours_can_write_to_tmp_alone_and_has_no_privilege(services: dict[str, Any], name: str) -> None:
    service = services[name]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]  # noqa: S108 -- the container's own
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_only_the_service_is_reachable_and_from_this_machine_alone(services: dict[str, Any]) -> None:
    assert services["headcount"]["ports"] == ["127.0.0.1:8750:8750/tcp"]
    assert "ports" not in services["postgres"]
    assert "ports" not in services["migrate"]


def test_the_password_does_not_stand_in_the_database_address(services: dict[str, Any]) -> None:
    environment = services["headcount"]["environment"]
    assert environment["HEADCOUNT_DATABASE_URL"] == "postgresql+psycopg://headcount@postgres/headcount"
    assert environment["PGPASSWORD"] == services["postgres"]["environment"]["POSTGRES_PASSWORD"] == "p@ss:w/rd"


def test_without_a_password_nothing_starts_and_the_message_says_where_to_write_one(tmp_path: Path) -> None:
    done = docker_compose_config(tmp_path)
    assert done.returncode != 0
    assert "write a password as POSTGRES_PASSWORD=... into .env" in done.stderr
