"""Trajectories, jobs, recordings, results and tables over HTTP; what jobs would make is put there directly."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from core.excitation import catalogue
from service.storage import (
    Database,
    RecordingState,
    feedforward,
    new_id,
    recordings,
    results,
    trajectories,
)

API = "/api/v1"
DEFINITION = catalogue("ur10e_excitation").definition()
TORQUE = np.linspace(-1.0, 1.0, 12).astype("<f4").reshape(4, 3)
CONTENT = bytes(range(256)) * 4


@pytest.fixture
def database(service: Any) -> Iterator[Database]:
    database = service.database
    yield database
    database.close()


def make_robot_name() -> str:
    """Rows of a robot that no other test uses."""
    return new_id("robot").lower()


def follow(client: httpx.Client, job: str) -> list[dict[str, Any]]:
    """All updates of a job until its stream ends."""
    with client.stream("GET", f"{API}/jobs/{job}/events") as stream:
        return [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: ")]


# --- trajectories -----------------------------------------------------------------------------------------


def test_trajectory_is_stored_once_checked(client: httpx.Client) -> None:
    body = {"name": "first", "robot": "cell", "definition": json.loads(json.dumps(DEFINITION))}
    response = client.post(f"{API}/trajectories", json=body)
    assert response.status_code == 201
    stored = response.json()
    assert stored["n_joints"] == 6
    assert stored["duration"] == DEFINITION["period"]
    fetched = client.get(response.headers["location"])
    assert fetched.json() == stored
    assert fetched.json()["definition"] == body["definition"]
    listed = client.get(f"{API}/trajectories", params={"robot": "cell", "name": "first"}).json()["items"]
    assert [item["id"] for item in listed] == [stored["id"]]
    assert "definition" not in listed[0]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"definition": {**DEFINITION, "family": "spiral"}}, 422, "trajectory-family-unknown"),
        ({"definition": {**DEFINITION, "period": -1.0}}, 422, "input-invalid"),
        ({"definition": {"family": DEFINITION["family"]}}, 422, "input-invalid"),
        ({"definition": []}, 422, "request-invalid"),
        ({"robot": "other"}, 404, "robot-not-found"),
        ({"name": ""}, 422, "request-invalid"),
        ({"nmae": "x"}, 422, "request-invalid"),
    ],
)
def test_trajectory_that_is_none_is_refused(
    client: httpx.Client, expect_problem: Any, change: dict[str, Any], status: int, code: str
) -> None:
    body = {"name": "x", "definition": DEFINITION, **change}
    expect_problem(client.post(f"{API}/trajectories", json=body), status, code)


def test_numbers_that_json_does_not_know_are_refused(client: httpx.Client, expect_problem: Any) -> None:
    text = json.dumps({"name": "x", "definition": {**DEFINITION, "start": [float("nan")] * 6}})
    assert "NaN" in text
    headers = {"Content-Type": "application/json"}
    response = client.post(f"{API}/trajectories", content=text, headers=headers)
    assert response.status_code == 422
    expect_problem(response, 422, response.json()["code"])


# --- jobs -------------------------------------------------------------------------------------------------


def test_job_is_accepted_followed_and_says_why_it_failed(client: httpx.Client, expect_problem: Any) -> None:
    body = {"kind": "record", "robot": "cell", "duration": 1.0}
    headers = {"Idempotency-Key": new_id("key")}
    response = client.post(f"{API}/jobs", json=body, headers=headers)
    assert response.status_code == 202
    job = response.json()
    assert response.headers["location"] == f"{API}/jobs/{job['id']}"
    assert job["state"] in ("queued", "running")
    assert client.post(f"{API}/jobs", json=body, headers=headers).json()["id"] == job["id"]
    other = client.post(f"{API}/jobs", json={**body, "duration": 2.0}, headers=headers)
    expect_problem(other, 409, "idempotency-key-reused")
    assert client.get(f"{API}/jobs/{job['id']}").json()["state"] in ("queued", "running")
    updates = follow(client, job["id"])
    assert updates[-1]["state"] == "failed"
    assert updates[-1]["error"]["code"] == "not-streaming"
    assert [u["progress"] for u in updates] == sorted(u["progress"] for u in updates)
    fetched = client.get(f"{API}/jobs/{job['id']}").json()
    assert fetched["state"] == "failed"
    assert "127.250.250.1" in fetched["error"]["detail"]
    expect_problem(client.post(f"{API}/jobs/{job['id']}/cancel"), 409, "job-state-conflict")
    listed = client.get(f"{API}/jobs", params={"robot": "cell", "kind": "record", "state": ["failed", "running"]})
    assert job["id"] in [item["id"] for item in listed.json()["items"]]
    assert client.get(f"{API}/jobs", params={"robot": "cell", "state": "cancelled"}).json()["items"] == []
    assert [update["state"] for update in follow(client, job["id"])] == ["failed"]


def test_job_that_runs_can_be_cancelled(client: httpx.Client) -> None:
    job = client.post(f"{API}/jobs", json={"kind": "record", "robot": "fixed", "duration": 60.0}).json()
    assert client.post(f"{API}/jobs/{job['id']}/cancel").status_code == 200
    assert follow(client, job["id"])[-1]["state"] in ("cancelled", "failed")


@pytest.mark.parametrize(
    ("body", "status", "code", "pointer"),
    [
        ({"kind": "dance"}, 422, "request-invalid", "#"),
        ({"kind": "record", "robot": "cell"}, 422, "request-invalid", "#/duration"),
        ({"kind": "record", "robot": "cell", "duration": -1}, 422, "request-invalid", "#/duration"),
        ({"kind": "record", "robot": "cell", "duration": 1, "x": 1}, 422, "request-invalid", "#/x"),
        ({"kind": "record", "robot": "other", "duration": 1}, 404, "robot-not-found", None),
        (
            {"kind": "play", "robot": "cell", "trajectory_id": "x", "approach": {"speed": 0, "acceleration": 1}},
            422,
            "request-invalid",
            "#/approach/speed",
        ),
        (
            {"kind": "play", "robot": "cell", "trajectory_id": "x", "approach": None},
            409,
            "robot-disarmed",
            None,
        ),
    ],
)
def test_job_that_cannot_be_is_refused_before_it_is_one(
    client: httpx.Client, expect_problem: Any, body: Any, status: int, code: str, pointer: str | None
) -> None:
    problem = expect_problem(client.post(f"{API}/jobs", json=body), status, code)
    if pointer is not None:
        assert [error["pointer"] for error in problem["errors"]] == [pointer]


@pytest.mark.parametrize("kind", ["jobs", "recordings", "trajectories", "results", "feedforward-tables"])
def test_unknown_identifiers(client: httpx.Client, expect_problem: Any, kind: str) -> None:
    noun = {"trajectories": "trajectory"}.get(kind, kind.removesuffix("s"))
    expect_problem(client.get(f"{API}/{kind}/nothing"), 404, f"{noun}-not-found")


def test_unknown_identifiers_below_the_lists(client: httpx.Client, expect_problem: Any) -> None:
    expect_problem(client.get(f"{API}/jobs/nothing/events"), 404, "job-not-found")
    expect_problem(client.post(f"{API}/jobs/nothing/cancel"), 404, "job-not-found")
    expect_problem(client.get(f"{API}/recordings/nothing/mcap"), 404, "recording-not-found")
    expect_problem(client.post(f"{API}/results/nothing/promote"), 404, "result-not-found")
    expect_problem(client.post(f"{API}/robots/nothing/results/rollback"), 404, "robot-not-found")


# --- recordings -------------------------------------------------------------------------------------------


@pytest.fixture
def recording(service: Any, database: Database) -> str:
    """A finished recording, as its recorder would have left it."""
    with database.session() as session:
        row = recordings.create(session, robot=make_robot_name())
        path = recordings.file_of(service.data_dir, row)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CONTENT)
        session.flush()
        recordings.finish(
            session,
            row.id,
            RecordingState.COMPLETE,
            sha256=hashlib.sha256(CONTENT).hexdigest(),
            size=len(CONTENT),
            samples=10,
            lost=1,
            lapped=0,
        )
    return row.id


def test_recording_and_its_file(client: httpx.Client, recording: str) -> None:
    row = client.get(f"{API}/recordings/{recording}").json()
    assert (row["state"], row["samples"], row["lost"]) == ("complete", 10, 1)
    assert row["started_at"].endswith("Z")
    response = client.get(f"{API}/recordings/{recording}/mcap")
    assert response.content == CONTENT
    assert hashlib.sha256(response.content).hexdigest() == row["sha256"]
    assert response.headers["etag"] == f'"{row["sha256"]}"'
    assert f"{recording}.mcap" in response.headers["content-disposition"]


def test_file_in_ranges_and_not_again(client: httpx.Client, expect_problem: Any, recording: str) -> None:
    path = f"{API}/recordings/{recording}/mcap"
    whole = client.get(path)
    part = client.get(path, headers={"Range": "bytes=100-199", "If-Range": whole.headers["etag"]})
    assert part.status_code == 206
    assert part.content == CONTENT[100:200]
    assert part.headers["content-range"] == f"bytes 100-199/{len(CONTENT)}"
    changed = client.get(path, headers={"Range": "bytes=100-199", "If-Range": '"another"'})
    assert (changed.status_code, changed.content) == (200, CONTENT)
    assert client.get(path, headers={"If-None-Match": whole.headers["etag"]}).status_code == 304
    outside = client.get(path, headers={"Range": "bytes=5000-"})
    expect_problem(outside, 416, "range-not-satisfiable")
    assert outside.headers["content-range"] == f"bytes */{len(CONTENT)}"
    expect_problem(client.get(path, headers={"Range": "lines=1-2"}), 400, "range-malformed")


def test_file_that_is_not_finished_or_gone(
    service: Any, client: httpx.Client, expect_problem: Any, database: Database, recording: str
) -> None:
    with database.session() as session:
        unfinished = recordings.create(session, robot=make_robot_name()).id
    expect_problem(client.get(f"{API}/recordings/{unfinished}/mcap"), 409, "recording-not-finished")
    with database.session() as session:
        recordings.fail(session, unfinished, "test")
        path = recordings.file_of(service.data_dir, recordings.get(session, recording))
    path.unlink()
    expect_problem(client.get(f"{API}/recordings/{recording}/mcap"), 404, "recording-file-missing")


def test_lists_come_in_pages_newest_first(client: httpx.Client, database: Database, expect_problem: Any) -> None:
    robot = make_robot_name()
    with database.session() as session:
        made = [recordings.create(session, robot=robot).id for _ in range(5)]
        for identifier in made[:2]:
            session.flush()
            recordings.fail(session, identifier, "test")
    path, seen, before = f"{API}/recordings", [], None
    for _ in range(3):
        page = client.get(path, params={"robot": robot, "limit": 2, **({"before": before} if before else {})}).json()
        seen += [item["id"] for item in page["items"]]
        before = page["next"]
    assert seen == made[::-1]
    assert before is None
    failed = client.get(path, params={"robot": robot, "state": "failed"}).json()["items"]
    assert [item["id"] for item in failed] == made[1::-1]
    assert client.get(path, params={"robot": robot, "job_id": "none"}).json() == {"items": [], "next": None}
    for wrong in ({"limit": 0}, {"limit": 501}, {"state": "lost"}):
        expect_problem(client.get(path, params=wrong), 422, "request-invalid")


# --- results and tables -----------------------------------------------------------------------------------


def make_result(database: Database, robot: str, *, validated: bool = True) -> str:
    with database.session() as session:
        row = results.create(session, robot=robot, recording_ids=[], settings={}, document={"figures": [1.5]})
        if validated:
            results.set_validation(session, row.id, {"passed": True})
    return row.id


def test_promotion_and_roll_back(client: httpx.Client, expect_problem: Any, database: Database) -> None:
    candidate = make_result(database, "cell", validated=False)
    expect_problem(client.post(f"{API}/results/{candidate}/promote"), 409, "result-not-validated")
    expect_problem(client.post(f"{API}/robots/cell/results/rollback"), 409, "nothing-to-roll-back")
    first, second = make_result(database, "cell"), make_result(database, "cell")
    assert client.get(f"{API}/results/{first}").json()["document"] == {"figures": [1.5]}
    for result in (first, second):
        assert client.post(f"{API}/results/{result}/promote").json()["state"] == "active"
    expect_problem(client.post(f"{API}/results/{second}/promote"), 409, "result-state-conflict")
    assert client.get(f"{API}/results/{first}").json()["state"] == "superseded"
    assert client.get(f"{API}/robots/cell/state").json()["active_result"]["id"] == second
    assert client.post(f"{API}/robots/cell/results/rollback").json()["id"] == first
    active = client.get(f"{API}/results", params={"robot": "cell", "state": "active"}).json()["items"]
    assert [item["id"] for item in active] == [first]
    assert "document" not in active[0]


@pytest.fixture
def table(database: Database) -> str:
    robot = make_robot_name()
    result = make_result(database, robot)
    with database.session() as session:
        trajectory = trajectories.create(session, name="t", definition={"family": "x"}, n_joints=3, duration=0.006)
        row = feedforward.create(
            session,
            result_id=result,
            trajectory_id=trajectory.id,
            cycle_time=0.002,
            samples=4,
            n_joints=3,
            crc32=zlib.crc32(TORQUE.tobytes()),
            digest=hashlib.sha256(os.urandom(8)).hexdigest(),
            torque=TORQUE.tobytes(),
            current=None,
            document={"unit": "N·m"},
        )
    return row.id


def test_table_in_three_formats(client: httpx.Client, table: str) -> None:
    path = f"{API}/feedforward-tables/{table}"
    document = client.get(path).json()
    assert (document["version"], document["samples"], document["n_joints"]) == (1, 4, 3)
    np.testing.assert_array_equal(np.array(document["torque"], "<f4"), TORQUE)
    assert document["current"] is None
    for options in ({"headers": {"Accept": "text/csv"}}, {"params": {"format": "csv"}}):
        response = client.get(path, **options)
        assert response.headers["content-type"].startswith("text/csv")
        assert len(response.text.splitlines()) == 5
    for options in ({"headers": {"Accept": "application/octet-stream"}}, {"params": {"format": "binary"}}):
        response = client.get(path, **options)
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.headers["dynid-shape"] == "4,3"
        assert int(response.headers["dynid-crc32"]) == zlib.crc32(response.content) == document["crc32"]
        np.testing.assert_array_equal(np.frombuffer(response.content, "<f4").reshape(4, 3), TORQUE)


def test_pollers_are_told_that_nothing_changed(client: httpx.Client, expect_problem: Any, table: str) -> None:
    path = f"{API}/feedforward-tables/{table}"
    tags = set()
    for form in ("json", "csv", "binary"):
        etag = client.get(path, params={"format": form}).headers["etag"]
        tags.add(etag)
        again = client.get(path, params={"format": form}, headers={"If-None-Match": etag})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
        other = client.get(path, params={"format": form}, headers={"If-None-Match": '"older"'})
        assert other.status_code == 200
    assert len(tags) == 3
    expect_problem(client.get(path, headers={"Accept": "image/png"}), 406, "not-acceptable")
    expect_problem(client.get(path, params={"format": "xml"}), 422, "request-invalid")
    wanted = {"format": "binary", "quantity": "current"}
    expect_problem(client.get(path, params=wanted), 404, "table-without-current")


def test_tables_are_listed_without_their_numbers(client: httpx.Client, table: str) -> None:
    row = client.get(f"{API}/feedforward-tables/{table}").json()
    for key in ("robot", "result_id", "trajectory_id"):
        items = client.get(f"{API}/feedforward-tables", params={key: row[key]}).json()["items"]
        assert [item["id"] for item in items] == [table]
        assert "torque" not in items[0]


@pytest.mark.parametrize(
    "body",
    [
        {"name": "t", "definition": {"family": []}},
        {"name": "t", "definition": {"family": "fourier_quintic", "period": 10**400}},
        {"name": "t", "ready_made": "nothing"},
        {"name": "t"},
        {"name": "t", "ready_made": "ur10e_excitation", "definition": {"family": "fourier_quintic"}},
    ],
)
def test_what_is_no_trajectory_is_the_clients_fault(client: httpx.Client, body: dict[str, Any]) -> None:
    answer = client.post(f"{API}/trajectories", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"]


def test_half_a_surrogate_pair_is_the_clients_fault(client: httpx.Client) -> None:
    answer = client.post(
        f"{API}/trajectories",
        content=b'{"name": "t", "robot": "\\ud800", "ready_made": "ur10e_excitation"}',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code in (400, 404), answer.text
    assert answer.json()["code"] in ("text-invalid", "robot-not-found")


def test_a_ready_made_motion_is_stored_by_name(client: httpx.Client) -> None:
    stored = client.post(f"{API}/trajectories", json={"name": "t", "ready_made": "ur10e_excitation"}).json()
    assert stored["definition"]["family"] == "fourier_quintic"
    assert stored["n_joints"] == 6
