"""One soak: everything at once for a while, then conditional requests as fast as they are answered."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.soak.pollers import SETTLE, Heard, Load, poll
from benchmarks.soak.scene import GAINS, RATES, START_SECONDS, UNIT, Scene, add_recording, add_table, scene

HTTP_CLIENTS, HTTP_RATE = 50, 10.0  # Hz
MODBUS_CLIENTS, MODBUS_RATE = 10, 50.0
FLOOD_CLIENTS, FLOOD_SECONDS = 8, 3.0
FRICTION = "arctan+load+hysteresis"


@dataclass
class Soaked:
    """What came of it.

    ``recorded`` are the results of the record jobs; ``left_out`` is what each virtual controller itself left out, which
    is lost before it is sent; ``identified`` counts identifications, ``flood`` is without one; ``load`` the machine's
    load average before and after.
    """

    http: Heard
    modbus: Heard
    flood: Heard
    recorded: dict[str, dict[str, Any]]
    left_out: dict[str, int]
    identified: int
    load: tuple[float, float]


def soak(
    folder: Path, hosts: tuple[str, str], seconds: float, *, friction: str = FRICTION, warm_up: bool = True
) -> Soaked:
    """Soak a service in ``folder`` with robots at two loopback addresses.

    ``friction`` is what the identifications go for. The first one of a service imports and compiles for some seconds;
    ``warm_up`` keeps that out.
    """
    with scene(folder, *hosts) as s:
        before = os.getloadavg()[0]
        add_table(s.database, "ur")
        recording = add_recording(s, "ur")
        if warm_up:
            _identify(s, recording, friction)
        deadline = time.monotonic() + START_SECONDS
        while not s.client.ready():
            if time.monotonic() > deadline:
                raise RuntimeError("the service does not become ready")
            time.sleep(0.2)
        at_start = {name: _left_out(s, name) for name in RATES}
        over = threading.Event()
        with ThreadPoolExecutor(4) as threads:
            recording_jobs = {name: threads.submit(_record, s, name, seconds + SETTLE) for name in RATES}
            identifying = threads.submit(_identify_until, s, recording, friction, over)
            heard = poll(_load(s, seconds))
            over.set()
            recorded = {name: job.result() for name, job in recording_jobs.items()}
            identified = identifying.result()
        left_out = {name: _left_out(s, name) - count for name, count in at_start.items()}
        flood = poll(_flood(s))["http"]
        return Soaked(
            heard["http"], heard["modbus"], flood, recorded, left_out, identified, (before, os.getloadavg()[0])
        )


def _load(s: Scene, seconds: float) -> Load:
    return Load(
        http=s.http,
        path="/api/v1/robots/ur/feedforward-table?format=binary",
        key=s.key,
        http_clients=HTTP_CLIENTS,
        http_rate=HTTP_RATE,
        modbus=s.modbus,
        unit=UNIT,
        modbus_clients=MODBUS_CLIENTS,
        modbus_rate=MODBUS_RATE,
        seconds=seconds,
    )


def _flood(s: Scene) -> Load:
    path = "/api/v1/robots/ur/feedforward-table?format=binary"
    return Load(http=s.http, path=path, key=s.key, http_clients=FLOOD_CLIENTS, http_rate=0.0, seconds=FLOOD_SECONDS)


def _left_out(s: Scene, robot: str) -> int:
    """Return how many samples the virtual controller did not send, or never computed."""
    statistics = s.robots[robot].request("statistics")
    return sum(int(value) for name, value in statistics.items() if "skipped" in name or "dropped" in name)


def _record(s: Scene, robot: str, seconds: float) -> dict[str, Any]:
    return s.client.run_job({"kind": "record", "robot": robot, "duration": seconds}, timeout=seconds + 60.0, poll=1.0)


def _identify(s: Scene, recording: str, friction: str) -> None:
    request = {"kind": "identify", "robot": "ur", "recordings": [recording], "gains": GAINS, "friction": friction}
    s.client.run_job(request, timeout=180.0, poll=0.5)


def _identify_until(s: Scene, recording: str, friction: str, over: threading.Event) -> int:
    count = 0
    while not over.is_set():
        _identify(s, recording, friction)
        count += 1
    return count
