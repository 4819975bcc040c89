"""``kill -9`` of the service in the middle of a motion: the robot stops, nothing is lost, nothing resumes."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.excitation import catalogue
from core.recordings import read
from drivers.virtual.process import VirtualUR10e
from service.client import Client

pytestmark = pytest.mark.timeout(600)  # s, with the wait for others of its kind

ROBOT = "cell1"
KEY = "only-for-this-test-0123456789"


@contextmanager
def running_service(folder: Path, robot_host: str) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    config = folder / "dynid.toml"
    config.write_text(
        f'data_dir = "{folder / "data"}"\nport = 0\napi_key = "{KEY}"\n[robots.{ROBOT}]\n'
        f'driver = "universal_robots"\nhost = "{robot_host}"\nmodel = "ur10e"\nvirtual = true\nmotion_enabled = true\n'
    )
    with (folder / "service.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "serve", "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            with process.stdout, Client(json.loads(process.stdout.readline())["url"], KEY) as client:
                until(client.ready, "the service is ready", 60.0)
                yield process, client
        finally:
            process.terminate()
            process.wait(20.0)


def until(condition: Callable[[], Any], what: str, seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return value


@pytest.mark.timeout(150)
def test_robot_stops_and_the_recording_is_kept(tmp_path: Path, loopback_host: str) -> None:
    with VirtualUR10e(loopback_host, seed=3):
        with running_service(tmp_path, loopback_host) as (process, client):
            definition = catalogue("ur10e_excitation").definition()
            trajectory = client.post("/trajectories", {"name": "t", "robot": ROBOT, "definition": definition})
            lease = client.post(f"/robots/{ROBOT}/lease", {"holder": "test", "seconds": 60})["token"]
            client.post(f"/robots/{ROBOT}/permit", lease=lease)
            play = {
                "kind": "play",
                "robot": ROBOT,
                "trajectory_id": trajectory["id"],
                "approach": {"speed": 1.0, "acceleration": 2.0},
            }
            job = client.post("/jobs", play, lease=lease)
            until(lambda: client.get(f"/jobs/{job['id']}")["phase"] == "play", "the motion plays", 60.0)
            until(lambda: speed(client) > 0.1, "the robot moves", 20.0)
            last_seen = client.get(f"/robots/{ROBOT}/state")["sample"]["controller_time"]
            os.kill(process.pid, signal.SIGKILL)
            process.wait(10.0)
        with running_service(tmp_path, loopback_host) as (_, client):
            until(lambda: streaming(client), "the robot streams again", 20.0)
            assert speed(client) < 1e-2, "motion resumed by itself"
            state = client.get(f"/robots/{ROBOT}/state")
            assert state["permit"]["state"] == "disarmed"
            interrupted = client.get(f"/jobs/{job['id']}")
            assert interrupted["state"] == "interrupted"
            assert interrupted["error"]["detail"]
            (recording,) = client.get("/recordings")["items"]
            assert recording["state"] in {"complete", "salvaged"}, recording
            assert recording["reason"]
            path = next((tmp_path / "data" / "recordings").rglob("*.mcap"))
            assert hashlib.sha256(path.read_bytes()).hexdigest() == recording["sha256"]
            kept = read(path, "mcap")
            assert kept.t.size == recording["samples"]
            assert kept.t[-1] >= last_seen - 0.2, "more than 200 ms of the recording were lost"
            assert not list((tmp_path / "data").rglob("*.partial"))


def streaming(client: Client) -> bool:
    return bool(client.get(f"/robots/{ROBOT}/state")["device"]["connection"] == "streaming")


def speed(client: Client) -> float:
    sample = client.get(f"/robots/{ROBOT}/state")["sample"]
    return 0.0 if sample is None else max(abs(v) for v in sample["signals"]["qd"])
