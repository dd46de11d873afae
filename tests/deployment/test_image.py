"""The image: built by the Dockerfile's steps, and run as nobody with everything but /tmp read-only."""

import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.deployment.debian_postgresql import PASSWORD, debian_postgresql, free_port
from tests.deployment.image import Image, build, top

# Building it installs a whole environment over the network: minutes on a slow line.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Build the image where its user can read it and, /tmp being all that is writable, can't change it."""
    folder = Path(tempfile.mkdtemp(prefix="headcount-image-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield build(folder)
    finally:
        shutil.rmtree(folder)


def run(image: Image, command: list[str], environment: dict[str, str], port: int = 8750) -> tuple[int, str]:
    """Run a command in the image; answer its exit status and what it printed."""
    process = image.start(command, environment, port=port)
    printed, _ = process.communicate(timeout=60)
    return process.returncode, printed


def test_the_wheel_holds_the_migrations_the_catalog_and_the_mark_that_it_is_typed(image: Image) -> None:
    (wheel,) = (image.folder / "src/dist").glob("headcount-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert "service/py.typed" in names
    for source, inside in (("migrations", "service/migrations"), ("service/catalog/data", "service/catalog/data")):
        files = {path.relative_to(top / source) for path in (top / source).rglob("*") if path.is_file()}
        wanted = {f"{inside}/{path}" for path in files if "__pycache__" not in path.parts}
        assert wanted
        assert wanted <= names


def test_the_wheel_holds_nothing_that_only_tests_or_builds_need(image: Image) -> None:
    (wheel,) = (image.folder / "src/dist").glob("headcount-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {"service", "headcount-0.1.0.dist-info"}


def test_everything_but_tmp_is_read_only_in_it(image: Image) -> None:
    mounts = [line.split() for line in run(image, ["cat", "/proc/self/mountinfo"], {})[1].splitlines()]
    # Of two mounts in one place the later one is what is there.
    options = {mount[4]: mount[5].split(",") for mount in mounts}
    assert [place for place in options if "ro" not in options[place]] == ["/tmp"]  # noqa: S108
    assert "Read-only file system" in run(image, ["touch", "/var/tmp/it"], {})[1]  # noqa: S108


def test_it_runs_as_a_user_without_a_name_groups_or_capabilities(image: Image) -> None:
    status = dict(line.split(":\t", 1) for line in run(image, ["cat", "/proc/self/status"], {})[1].splitlines())
    assert status["Uid"].split() == ["8750"] * 4
    assert status["Gid"].split() == ["8750"] * 4
    assert status["Groups"].strip() == ""
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"


def test_it_migrates_serves_answers_and_stops(image: Image) -> None:
    with debian_postgresql() as dsn:
        environment = {"HEADCOUNT_DATABASE_URL": dsn, "PGPASSWORD": PASSWORD}
        status, printed = run(image, ["headcount", "migrate"], environment)
        assert status == 0, printed
        port = free_port()
        service = image.start(image.command, environment, port=port)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
                assert when_it_listens(client).status_code == 200
                planned = client.post(
                    "/v1/plans",
                    json={
                        "model": "meta-llama/Llama-3.1-8B-Instruct",
                        "gpu": "h100-sxm-80gb",
                        "levers": {"max_model_len": 8192},
                        "workload": {"kind": "mean", "tokens": 2300},
                    },
                )
            assert planned.status_code == 200, planned.text
            assert planned.json()["users"]["worst_case"] == 53
            assert planned.json()["users"]["paged"] == 191
            assert run(image, image.healthcheck, {}, port) == (0, "")
        finally:
            service.terminate()
            printed, _ = service.communicate(timeout=30)
            # Here, so that what it printed is shown beside what failed above.
            assert service.returncode == 0, printed


def test_its_health_check_fails_when_nothing_serves(image: Image) -> None:
    status, printed = run(image, image.healthcheck, {}, free_port())
    assert status == 1
    assert "Connection refused" in printed


def when_it_listens(client: httpx.Client) -> httpx.Response:
    """Ask /livez until something answers."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return client.get("/livez")
        except httpx.ConnectError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
