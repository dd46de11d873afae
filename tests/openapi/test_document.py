"""The OpenAPI document: committed as the code makes it, clean for two linters, and complete."""

import json
import os
import subprocess
from pathlib import Path

import httpx
import pytest

from service.api.openapi import openapi_document, rendered
from service.api.routes import route_handlers
from tests.programs import need, skip

FOLDER = Path(__file__).parent
COMMITTED = FOLDER.parents[1] / "openapi" / "openapi.json"


def linter(name: str) -> str:
    need("node", debian="nodejs")
    program = FOLDER / "node_modules" / ".bin" / name
    if not program.exists():
        skip(f"{name} is not installed: `make test` installs it where there is npm (Debian package npm)")
    return str(program)


def lint(*command: str) -> subprocess.CompletedProcess[str]:
    # Redocly would look for a newer release of itself.
    environment = os.environ | {"REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "REDOCLY_TELEMETRY": "off"}
    return subprocess.run(
        command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=False, timeout=110
    )


def test_the_committed_document_is_what_the_code_makes() -> None:
    assert COMMITTED.read_text() == rendered(openapi_document(route_handlers())), "run `make openapi`"


def test_the_service_sends_the_committed_document(client: httpx.Client) -> None:
    assert client.get("/openapi.json").text == COMMITTED.read_text()


def test_spectral_finds_no_error() -> None:
    result = lint(linter("spectral"), "lint", str(COMMITTED), "--ruleset", "spectral.yaml", "--fail-severity", "warn")
    assert result.returncode == 0, result.stdout


def test_redocly_finds_no_error() -> None:
    result = lint(linter("redocly"), "lint", str(COMMITTED), "--config", "redocly.yaml")
    assert result.returncode == 0, result.stderr


def test_every_route_of_the_contract_so_far_is_described() -> None:
    described = {
        f"{verb.upper()} {path}" for path, verbs in json.loads(COMMITTED.read_text())["paths"].items() for verb in verbs
    }
    assert described >= {
        "POST /v1/plans",
        "GET /v1/plans",
        "GET /v1/plans/{plan}",
        "POST /v1/observations",
        "GET /v1/observations",
        "GET /v1/observations/{observation}",
        "POST /v1/estimates",
        "GET /v1/estimates",
        "POST /v1/pools",
        "GET /v1/gpus",
        "GET /v1/gpus/{key}",
        "GET /v1/gpus/{key}/versions",
        "GET /v1/gpus/{key}/versions/{number}",
        "GET /v1/models",
        "GET /v1/models/{owner}/{name}",
        "GET /v1/models/{owner}/{name}/versions",
        "GET /v1/models/{owner}/{name}/versions/{number}",
        "GET /v1/workloads",
        "GET /v1/workloads/{key}",
        "GET /v1/workloads/{key}/versions",
        "GET /v1/workloads/{key}/versions/{number}",
        "GET /livez",
        "GET /readyz",
        "GET /version",
        "GET /openapi.json",
        "GET /docs",
        "GET /problems/{slug}",
    }


def test_inputs_forbid_unknown_fields_and_bound_every_number() -> None:
    schemas = json.loads(COMMITTED.read_text())["components"]["schemas"]
    for name, schema in schemas.items():
        if not name.startswith("Asked"):
            continue
        assert schema["additionalProperties"] is False, name
        for field, described in schema["properties"].items():
            for choice in [described, *described.get("anyOf", ())]:
                if choice.get("type") in {"integer", "number"}:
                    assert {"minimum", "exclusiveMinimum"} & choice.keys(), (name, field)
                    assert "maximum" in choice, (name, field)


@pytest.mark.parametrize("path", ["/docs", "/problems"])
def test_pages_load_nothing_from_elsewhere(client: httpx.Client, path: str) -> None:
    page = client.get(path)
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" not in page.text
    assert 'src="http' not in page.text
    assert 'href="http' not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
