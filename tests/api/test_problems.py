"""What is refused, and how: RFC 9457 problems everywhere, 404 and 405 included."""

import socket
from urllib.parse import urlsplit

import httpx
import pytest

from service.api.problem_types import PROBLEM_TYPES
from tests.questions import REFERENCE

MIB = 2**20


def problem(response: httpx.Response) -> tuple[int, str, list[str | None]]:
    """The status, type and pointers of a problem, after checking what every problem has."""
    document = response.json()
    slug = document["type"].removeprefix("/problems/")
    assert response.headers["content-type"] == "application/problem+json"
    assert document["status"] == response.status_code == PROBLEM_TYPES[slug].status
    assert document["title"] == PROBLEM_TYPES[slug].title
    assert document["detail"]
    assert document["instance"].startswith("urn:uuid:")
    return response.status_code, slug, [error.get("pointer") for error in document.get("errors", [])]


def asking(client: httpx.Client, body: str | bytes, **headers: str) -> tuple[int, str, list[str | None]]:
    return problem(client.post("/v1/plans", content=body, headers=headers))


def test_an_unknown_model_offers_the_three_nearest_keys(client: httpx.Client) -> None:
    response = client.post("/v1/plans", json=REFERENCE | {"model": "meta-llama/Llama-3.1-8B-instruct"})
    assert problem(response) == (422, "unknown-model", ["#/model"])
    assert response.json()["nearest"] == [
        "meta-llama/Llama-3.1-8B-Instruct",
        "meta-llama/Llama-3.1-70B-Instruct",
        "meta-llama/Llama-3.3-70B-Instruct",
    ]


def test_an_unknown_gpu_or_engine_is_named(client: httpx.Client) -> None:
    assert problem(client.post("/v1/plans", json=REFERENCE | {"gpu": "h100"}))[:2] == (422, "unknown-gpu")
    assert problem(client.post("/v1/plans", json=REFERENCE | {"engine": "vllm@9.9"}))[:2] == (422, "unknown-engine")


def test_a_model_that_can_not_be_planned_is_refused_with_the_reason(client: httpx.Client) -> None:
    response = client.post("/v1/plans", json=REFERENCE | {"model": "mistralai/Devstral-2-123B-Instruct-2512"})
    assert problem(response) == (422, "not-planned-yet", ["#/model"])
    assert response.json()["detail"] == (
        "what the weights of mistralai/Devstral-2-123B-Instruct-2512 take isn't known: give kv_cache_memory_bytes"
    )


def test_an_illegal_combination_is_refused_with_the_legal_ones(client: httpx.Client) -> None:
    response = client.post("/v1/plans", json=REFERENCE | {"levers": {"max_model_len": 8192, "tensor_parallel": 3}})
    assert problem(response) == (422, "unsupported-combination", ["#/levers/tensor_parallel"])
    assert response.json()["detail"].endswith("legal sizes: 1, 2, 4, 8, 16, 32")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", (400, "malformed-json", ["#"])),
        ("{", (400, "malformed-json", ["#"])),
        ('{"model": "a", "model": "a"}', (400, "malformed-json", ["#/model"])),
        ('{"model": "a", "risk": NaN}', (400, "malformed-json", ["#/risk"])),
        ('{"model": "a", "gpu": "b", "risk": 1e999}', (422, "validation", ["#/risk"])),
        ('{"model": 1, "gpu": "b", "risk": 2, "x": 3}', (422, "validation", ["#/model", "#/risk", "#/x"])),
        (
            '{"model": "a", "gpu": "b", "risk": 2, "x": 3, "levers": {"kv_heads": 0}}',
            (422, "validation", ["#/risk", "#/x", "#/levers/kv_heads"]),
        ),
        ('{"labels": {"a": "\\u0000"}}', (400, "malformed-json", ["#/labels/a"])),
        ("[]", (422, "validation", ["#"])),
        ('{"model": "a", "gpu": "b", "colour": 1}', (422, "validation", ["#/colour"])),
        ('{"model": "a", "gpu": "b", "risk": "0.1"}', (422, "validation", ["#/risk"])),
    ],
)
def test_a_wrong_body_is_refused_with_a_pointer(
    client: httpx.Client, body: str, expected: tuple[int, str, list[str]]
) -> None:
    assert asking(client, body) == expected


def test_a_media_type_that_is_not_json_is_refused(client: httpx.Client) -> None:
    assert asking(client, "{}", **{"Content-Type": "text/plain"})[:2] == (415, "unsupported-media-type")
    assert asking(client, "{}", **{"Content-Type": "application/jsonp"})[:2] == (415, "unsupported-media-type")
    for accepted in ("application/json; charset=utf-8", "application/vnd.headcount+json", "APPLICATION/JSON"):
        assert asking(client, "{}", **{"Content-Type": accepted})[:2] == (422, "validation")


def test_a_compressed_body_is_refused(client: httpx.Client) -> None:
    assert asking(client, b"\x1f\x8b", **{"Content-Encoding": "gzip"})[:2] == (415, "unsupported-media-type")


def test_an_offer_to_upgrade_does_not_lose_the_body(client: httpx.Client) -> None:
    # What Java's HTTP client sends by default on a connection without TLS.
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABkAAQ"}
    response = client.post("/v1/estimates", json=REFERENCE, headers=offer)
    assert response.status_code == 200
    assert response.json()["users"]["worst_case"] == 53


def test_a_body_over_one_mebibyte_is_refused_and_the_limit_named(client: httpx.Client) -> None:
    response = client.post("/v1/plans", content=b" " * (MIB + 1))
    assert problem(response)[:2] == (413, "payload-too-large")
    assert "1 MiB (1,048,576 bytes)" in response.json()["detail"]
    assert asking(client, b" " * MIB)[:2] == (400, "malformed-json")


def test_a_chunked_body_over_one_mebibyte_is_refused_too(client: httpx.Client) -> None:
    response = client.post("/v1/plans", content=(b" " * 2**16 for _ in range(17)))
    assert problem(response)[:2] == (413, "payload-too-large")


@pytest.mark.parametrize("path", ["/", "/v2", "/v1/plan", "/v1/gpus/none", "/v1/models/a/b/c", "/problems/none"])
def test_an_address_that_is_not_there_is_a_problem(client: httpx.Client, path: str) -> None:
    assert problem(client.get(path))[:2] == (404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/plans", {"GET", "HEAD", "POST"}),
        ("PUT", "/v1/gpus", {"GET", "HEAD"}),
        ("PATCH", "/livez", {"GET", "HEAD"}),
        ("TRACE", "/v1/estimates", {"GET", "HEAD", "POST"}),
    ],
)
def test_a_method_that_is_not_allowed_is_a_problem_with_the_allowed_ones(
    client: httpx.Client, method: str, path: str, allowed: set[str]
) -> None:
    response = client.request(method, path)
    assert problem(response)[:2] == (405, "method-not-allowed")
    assert set(response.headers["allow"].split(", ")) - {"OPTIONS"} == allowed


@pytest.mark.parametrize("path", ["/v1/plans", "/v1/gpus", "/livez", "/openapi.json", "/problems/validation"])
def test_head_is_get_without_a_body(client: httpx.Client, path: str) -> None:
    head, get = client.head(path), client.get(path)
    assert head.status_code == get.status_code == 200
    assert head.content == b""
    assert head.headers["content-type"] == get.headers["content-type"]


@pytest.mark.parametrize("slug", PROBLEM_TYPES)
def test_every_problem_type_is_a_page(client: httpx.Client, slug: str) -> None:
    response = client.get(f"/problems/{slug}")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert f"HTTP status {PROBLEM_TYPES[slug].status}" in response.text


def test_every_response_has_a_request_id_and_a_wrong_one_is_replaced(client: httpx.Client) -> None:
    assert client.get("/nowhere", headers={"X-Request-Id": "abc-1"}).headers["x-request-id"] == "abc-1"
    made = client.get("/nowhere", headers={b"X-Request-Id": b"a b\xe9"}).headers["x-request-id"]
    assert len(made) == 36


def test_bytes_that_are_not_http_leave_the_service_standing(client: httpx.Client) -> None:
    address = urlsplit(str(client.base_url))
    assert address.hostname is not None
    assert address.port is not None
    for bytes_sent in (
        b"\x00\xff\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/plans?\xff HTTP/1.1\r\n\r\n",
    ):
        with socket.create_connection((address.hostname, address.port), timeout=5) as connection:
            connection.sendall(bytes_sent)
            status = connection.recv(1000).partition(b"\r\n")[0]
        assert b" 5" not in status
    assert client.get("/livez").status_code == 200


def test_a_percent_encoded_query_that_is_not_utf_8_is_named(client: httpx.Client) -> None:
    assert problem(client.get("/v1/plans?limit=%ff"))[:2] == (400, "invalid-parameters")
