"""The running service over HTTP: access, health, robots, motion rights. Its robots cannot be reached."""

from __future__ import annotations

import itertools
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.api.sse import MOST_STREAMS

API = "/api/v1"


def events_of(response: httpx.Response) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


# --- access -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs"])
def test_open_paths_need_no_key(service: Any, path: str) -> None:
    with service.client(key=None) as client:
        assert client.get(path).status_code in (200, 503)


def test_documentation_needs_no_other_host(service: Any) -> None:
    with service.client(key=None) as client:
        page = client.get("/docs").text
        assets = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert len(assets) == 3
        assert all(client.get(asset).status_code == 200 for asset in assets)
        assert "http" not in page.replace("http-equiv", "")


@pytest.mark.parametrize("path", [f"{API}/robots", "/metrics", f"{API}/nowhere", "/docs/../api/v1/robots"])
@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic a key for the tests only", "Bearer"])
def test_all_others_do(service: Any, expect_problem: Any, path: str, header: str | None) -> None:
    with service.client(key=None) as client:
        headers = {} if header is None else {"Authorization": header}
        response = client.get(path, headers=headers)
    problem = expect_problem(response, 401, "unauthenticated")
    assert "Authorization: Bearer" in problem["detail"]
    assert response.headers["www-authenticate"].startswith("Bearer")


def test_no_work_is_done_for_a_stranger(service: Any, expect_problem: Any) -> None:
    with service.client(key=None) as client:
        expect_problem(client.post(f"{API}/robots/cell/stop", content=b" " * 100_000), 401, "unauthenticated")


def test_unknown_paths_methods_and_large_bodies(client: httpx.Client, expect_problem: Any) -> None:
    expect_problem(client.get(f"{API}/nowhere"), 404, "path-unknown")
    response = client.patch(f"{API}/robots")
    expect_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "GET"
    expect_problem(client.post(f"{API}/jobs", content=b" " * 70_000), 413, "body-too-large")
    as_json = {"Content-Type": "application/json"}
    expect_problem(client.post(f"{API}/jobs", content=b"{", headers=as_json), 400, "body-not-json")
    expect_problem(client.post(f"{API}/jobs", data={"kind": "record"}), 415, "media-type-unsupported")


# --- health -----------------------------------------------------------------------------------------------


def test_service_without_reachable_robots_is_alive_and_says_what_is_missing(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "alive"}
    for _ in range(100):  # until the hosts have tried and reported
        response = client.get("/readyz")
        checks = {check["name"]: check for check in response.json()["checks"]}
        if "disconnected" in (checks["robot cell"]["reason"] or ""):
            break
        time.sleep(0.1)
    assert response.status_code == 503
    assert not response.json()["ready"]
    assert checks["database"] == {"name": "database", "ready": True, "reason": None}
    assert checks["workers"]["ready"]
    assert not checks["robot cell"]["ready"]
    assert re.search(r"disconnected: 127\.250\.250\.1", checks["robot cell"]["reason"])


def test_metrics_follow_the_convention(client: httpx.Client) -> None:
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    text = response.text
    for line in (
        'dynid_samples_total{robot="cell"} 0.0',
        'dynid_samples_lost_total{robot="cell"} 0.0',
        'dynid_robot_streaming{robot="cell"} 0.0',
        'dynid_permit_state{robot="cell",state="disarmed"} 1.0',
        'dynid_permit_state{robot="cell",state="moving"} 0.0',
        'dynid_lease_held{robot="fixed"} 0.0',
        'dynid_jobs{state="running"} 0.0',
        'dynid_http_requests_total{method="GET",status="200"}',
        "process_resident_memory_bytes",
        "dynid_ring_head",
    ):
        assert line in text
    names = re.findall(r"^# TYPE (dynid_\w+) counter", text, re.MULTILINE)
    assert names
    assert all(name.endswith("_total") for name in names)


# --- robots -----------------------------------------------------------------------------------------------


def test_robots_are_listed_as_configured(client: httpx.Client, expect_problem: Any) -> None:
    robots = client.get(f"{API}/robots").json()
    assert [robot["name"] for robot in robots] == ["cell", "fixed"]
    cell = client.get(f"{API}/robots/cell").json()
    assert cell["virtual"] is True
    assert cell["motion_enabled"] is True
    assert cell["status"]["connection"] in ("starting", "disconnected")
    problem = expect_problem(client.get(f"{API}/robots/other"), 404, "robot-not-found")
    assert "cell, fixed" in problem["detail"]


def test_state_of_a_robot_that_is_not_there(client: httpx.Client) -> None:
    state = client.get(f"{API}/robots/cell/state").json()
    assert state["robot"] == "cell"
    assert state["sample"] is None
    assert state["permit"]["state"] == "disarmed"
    assert state["lease"] is None
    assert state["active_result"] is None
    assert state["latest_table"] is None


def test_stream_starts_with_the_status(client: httpx.Client, expect_problem: Any) -> None:
    with client.stream("GET", f"{API}/robots/cell/state/stream", params={"rate": 50}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        name, data = next(events_of(response))
    assert name == "status"
    assert data["device"]["robot"] == "cell"
    problem = expect_problem(client.get(f"{API}/robots/cell/state/stream", params={"rate": 51}), 422, "request-invalid")
    assert problem["errors"][0]["location"] == "query"
    assert problem["errors"][0]["pointer"] == "rate"


def test_stream_tells_a_lease_while_it_is_followed(client: httpx.Client) -> None:
    with client.stream("GET", f"{API}/robots/cell/state/stream") as response:
        events = events_of(response)
        next(events)
        lease = client.post(f"{API}/robots/cell/lease", json={"holder": "watched", "seconds": 5}).json()
        held = next(data for name, data in events if data.get("lease"))
        assert held["lease"]["holder"] == "watched"
        assert "token" not in json.dumps(held)
        client.delete(f"{API}/robots/cell/lease", headers={"Lease-Token": lease["token"]})
        assert next(data for name, data in events)["lease"] is None


# --- motion rights ----------------------------------------------------------------------------------------


@pytest.fixture
def lease(client: httpx.Client) -> Iterator[dict[str, Any]]:
    response = client.post(f"{API}/robots/cell/lease", json={"holder": "tests", "seconds": 30})
    assert response.status_code == 201
    grant = response.json()
    yield grant
    client.delete(f"{API}/robots/cell/lease", headers={"Lease-Token": grant["token"]})


def test_lease_has_one_holder_and_a_growing_number(
    client: httpx.Client, expect_problem: Any, lease: dict[str, Any]
) -> None:
    path, headers = f"{API}/robots/cell/lease", {"Lease-Token": lease["token"]}
    problem = expect_problem(client.post(path, json={"holder": "rival"}), 409, "lease-held")
    assert "tests" in problem["detail"]
    assert lease["token"] not in json.dumps(problem)
    renewed = client.put(path, json={"seconds": 60}, headers=headers).json()
    assert renewed["seconds_left"] == pytest.approx(60, abs=1)
    assert renewed["fencing"] == lease["fencing"]
    expect_problem(client.put(path, json={}, headers={"Lease-Token": "wrong"}), 409, "lease-invalid")
    expect_problem(client.delete(path), 409, "lease-required")
    assert client.get(f"{API}/robots/cell/state").json()["lease"]["holder"] == "tests"
    assert client.delete(path, headers=headers).status_code == 204
    again = client.post(path, json={"holder": "rival"}).json()
    assert again["fencing"] > lease["fencing"]
    assert again["seconds_left"] == pytest.approx(30, abs=1)
    client.delete(path, headers={"Lease-Token": again["token"]})


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "request-invalid"),
        ({"holder": ""}, "request-invalid"),
        ({"holder": "x", "secnds": 1}, "request-invalid"),
        ({"holder": "x", "seconds": 1e9}, "lease-seconds-out-of-range"),
    ],
)
def test_lease_that_cannot_be(client: httpx.Client, expect_problem: Any, body: Any, code: str) -> None:
    expect_problem(client.post(f"{API}/robots/cell/lease", json=body), 422, code)


def test_robot_that_is_not_there_cannot_be_armed(
    client: httpx.Client, expect_problem: Any, lease: dict[str, Any]
) -> None:
    path = f"{API}/robots/cell/permit"
    expect_problem(client.post(path), 409, "lease-required")
    expect_problem(client.post(path, headers={"Lease-Token": lease["token"]}), 409, "robot-not-streaming")
    assert client.delete(path).json()["state"] == "disarmed"


def test_robot_whose_settings_forbid_motion_cannot_be_armed(client: httpx.Client, expect_problem: Any) -> None:
    problem = expect_problem(client.post(f"{API}/robots/fixed/permit"), 409, "motion-disabled")
    assert "motion_enabled = true" in problem["detail"]


def test_fault_that_is_not_there_cannot_be_reset(
    client: httpx.Client, expect_problem: Any, lease: dict[str, Any]
) -> None:
    path = f"{API}/robots/cell/fault/reset"
    expect_problem(client.post(path), 409, "lease-required")
    expect_problem(client.post(path, headers={"Lease-Token": lease["token"]}), 409, "permit-transition")


def test_stop_asks_for_nothing_but_the_key(client: httpx.Client) -> None:
    """A controller that cannot be reached cannot be stopped, and the answer must not say that it was."""
    response = client.post(f"{API}/robots/cell/stop", json={"reason": "test"})
    if response.status_code == 200:
        assert response.json()["permit"]["state"] == "disarmed"
    else:
        assert response.status_code in (502, 503, 504)
        assert response.json()["code"] == "stop-unconfirmed"


# --- OpenAPI ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def openapi(service: Any) -> dict[str, Any]:
    with service.client(key=None) as client:
        document: dict[str, Any] = client.get("/openapi.json").json()
    return document


def operations(openapi: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_path_is_described(openapi: dict[str, Any]) -> None:
    assert openapi["openapi"].startswith("3.")
    assert openapi["components"]["securitySchemes"]["apiKey"]["scheme"] == "bearer"
    tags = {tag["name"] for tag in openapi["tags"]}
    names = []
    for name, operation in operations(openapi):
        names.append(operation["operationId"])
        assert operation["summary"], name
        assert operation["description"], name
        assert set(operation["tags"]) <= tags, name
        open_path = name.endswith(("/healthz", "/readyz"))
        assert ("security" in operation) is not open_path, name
        success = [r for status, r in operation["responses"].items() if status.startswith("2")]
        assert success, name
        assert all(
            r.get("content") or "204" in operation["responses"] or "206" in operation["responses"] for r in success
        )
    assert len(set(names)) == len(names)


def test_every_error_is_described_as_a_problem(openapi: dict[str, Any]) -> None:
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for name, operation in operations(openapi):
        errors = {status: r["content"] for status, r in operation["responses"].items() if status >= "400"}
        if name.endswith("/readyz"):
            errors.pop("503")
        assert "500" in errors, name
        assert all(content == problem for content in errors.values()), name
        if "/api/v1" in name:
            assert {"400", "401", "413", "422"} <= set(errors), name
        if "{" in name:
            assert "404" in errors, name
    assert "HTTPValidationError" not in openapi["components"]["schemas"]


def test_every_reference_resolves_and_nothing_is_left_over(openapi: dict[str, Any]) -> None:
    text = json.dumps(openapi)
    used = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert used == set(openapi["components"]["schemas"])


def test_every_route_that_is_promised_exists(openapi: dict[str, Any]) -> None:
    promised = {
        "/robots": "GET",
        "/robots/{robot}": "GET",
        "/robots/{robot}/status": "GET",
        "/robots/{robot}/feedforward-table": "GET",
        "/robots/{robot}/state": "GET",
        "/robots/{robot}/state/stream": "GET",
        "/robots/{robot}/wrench": "GET",
        "/robots/{robot}/wrench/stream": "GET",
        "/robots/{robot}/lease": "POST PUT DELETE",
        "/robots/{robot}/permit": "POST DELETE",
        "/robots/{robot}/stop": "POST",
        "/robots/{robot}/fault/reset": "POST",
        "/recordings": "GET",
        "/recordings/{recording_id}": "GET",
        "/recordings/{recording_id}/mcap": "GET",
        "/trajectories": "GET POST",
        "/trajectories/{trajectory_id}": "GET",
        "/jobs": "GET POST",
        "/calibrations": "GET POST",
        "/jobs/{job_id}": "GET",
        "/jobs/{job_id}/cancel": "POST",
        "/jobs/{job_id}/events": "GET",
        "/results": "GET",
        "/results/{result_id}": "GET",
        "/results/{result_id}/export": "GET",
        "/results/{result_id}/promote": "POST",
        "/robots/{robot}/results/rollback": "POST",
        "/keys": "GET POST",
        "/keys/{key_id}": "DELETE",
        "/audit": "GET",
        "/audit/check": "GET",
        "/feedforward-tables": "GET",
        "/feedforward-tables/{table_id}": "GET",
    }
    expected = {f"{m} {API}{path}" for path, methods in promised.items() for m in methods.split()}
    expected |= {"GET /healthz", "GET /readyz", "GET /metrics"}
    assert {name for name, _ in operations(openapi)} == expected


# --- connections ------------------------------------------------------------------------------------------


def test_clients_that_leave_a_stream_leave_nothing_behind(service: Any) -> None:
    """As many followers as are served come and go; the process holds no more open files than before."""
    descriptors = Path(f"/proc/{service.process.pid}/fd")

    def open_files() -> int:
        return len(list(descriptors.iterdir()))

    before = open_files()
    host, port = service.url.removeprefix("http://").split(":")
    request = (
        f"GET {API}/robots/cell/state/stream?rate=50 HTTP/1.1\r\nHost: x\r\n"
        "Authorization: Bearer a key for the tests only\r\n\r\n"
    )
    followers = []
    for _ in range(MOST_STREAMS):
        follower = socket.create_connection((host, int(port)), timeout=10)
        follower.sendall(request.encode())
        assert follower.recv(64).startswith(b"HTTP/1.1 200")
        followers.append(follower)
    assert open_files() >= before + MOST_STREAMS
    with service.client() as client:
        refused = client.get(f"{API}/robots/cell/state/stream")
    assert refused.status_code == 429
    assert refused.json()["code"] == "too-many-streams"
    for follower in followers:
        follower.close()
    for _ in itertools.repeat(None, 100):
        if open_files() <= before:
            break
        time.sleep(0.1)
    assert open_files() <= before
