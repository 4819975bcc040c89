"""What the log of a running service says, and what it never does."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx

from service.logs import JsonLines, about

API = "/api/v1"


def test_lines_bear_their_ids_and_no_secret(start_service: Any) -> None:
    with start_service(DYNID_LOG_FORMAT="json", DYNID_LOG_LEVEL="debug") as running:
        with running.client() as client:
            secrets = [client.headers["authorization"].removeprefix("Bearer "), "a-wrong-key-0123456789"]
            secrets.append(client.post(f"{API}/keys", json={"name": "plc", "role": "viewer"}).json()["key"])
            lease = client.post(f"{API}/robots/cell/lease", json={"holder": "me"}, headers={"X-Request-ID": "take-it"})
            secrets.append(lease.json()["token"])
            client.delete(f"{API}/robots/cell/lease", headers={"Lease-Token": secrets[-1]})
            job = client.post(f"{API}/jobs", json={"kind": "record", "robot": "cell", "duration": 1}).json()["id"]
            while client.get(f"{API}/jobs/{job}").json()["ended_at"] is None:
                pass
        wrong = {"Authorization": f"Bearer {secrets[1]}"}
        assert httpx.get(f"{running.url}{API}/robots/cell", headers=wrong, trust_env=False).status_code == 401
    text = running.log.read_text(encoding="utf-8")
    assert not [secret for secret in secrets if secret in text]
    lines = [json.loads(line) for line in text.splitlines()]
    granted = next(line for line in lines if "lease 1 of cell granted" in line["message"])
    assert (granted["request"], granted["robot"], granted["level"]) == ("take-it", "cell", "info")
    of_job = [line for line in lines if line.get("job") == job]
    assert {line["robot"] for line in of_job} == {"cell"}
    asked = next(line for line in lines if line["message"] == f"POST {API}/jobs: 202")
    assert {line["request"] for line in of_job} == {asked["request"]}
    assert all(line["robot"] == "cell" for line in lines if line["logger"] == "service.devices.cell")


def test_a_traceback_stays_in_its_line() -> None:
    error = ValueError("a\nb")
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "n %d", (1,), (ValueError, error, None))
    with about(request="r", robot=None), about(job="j"):
        line = JsonLines().format(record)
    assert "\n" not in line
    document = json.loads(line)
    assert (document["message"], document["request"], document["job"]) == ("n 1", "r", "j")
    assert "robot" not in document
    assert "ValueError: a" in document["exception"]
