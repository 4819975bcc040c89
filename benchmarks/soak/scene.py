"""The robots, the service and its material: a table to poll and a recording to identify."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from core.excitation import catalogue as motion
from core.models import catalogue as model_named
from core.recordings.mcap_log import McapSampleWriter
from core.streaming.samples import sample_dtype
from drivers.virtual.process import VirtualComanR5, VirtualUR10e
from service.client import Client
from service.storage import Database, RecordingState, feedforward, recordings, results, trajectories

RATES = {"coman": 1000.0, "ur": 500.0}
UNIT = 1
GAINS = (11.976, 11.976, 9.839, 10.763, 10.76, 11.33)  # N·m/A
START_SECONDS, STOP_SECONDS = 90.0, 20.0

_SETTINGS = """
data_dir = {folder}
port = 0
workers = 1
api_key = "{key}"
disk_floor_bytes = 0

[robots.coman]
driver = "vendor_socket"
layout = "coman_r5"
rate_hz = 1000.0
host = "{coman}"
model = "coman_r5"
virtual = true

[robots.ur]
driver = "universal_robots"
host = "{ur}"
model = "ur10e"
virtual = true

[modbus]
port = 0
units = {{ ur = {unit} }}
"""


@dataclass
class Scene:
    """What runs: the service with its addresses, and the two virtual robots by name; ``key`` is a viewer's."""

    client: Client
    key: str
    http: tuple[str, int]
    modbus: tuple[str, int]
    robots: dict[str, VirtualComanR5 | VirtualUR10e]
    database: Database
    data_dir: Path


@contextmanager
def scene(folder: Path, coman: str, ur: str) -> Iterator[Scene]:
    """Start robots at the loopback addresses ``coman`` and ``ur`` and a service in ``folder``, until both stream."""
    with ExitStack() as stack:
        robots: dict[str, VirtualComanR5 | VirtualUR10e] = {
            "coman": VirtualComanR5(coman, seed=1),
            "ur": VirtualUR10e(ur, seed=1),
        }
        starting = stack.enter_context(ThreadPoolExecutor(2)).map(stack.enter_context, robots.values())
        key = secrets.token_urlsafe(24)
        settings = _SETTINGS.format(folder=json.dumps(str(folder / "data")), key=key, coman=coman, ur=ur, unit=UNIT)
        http, modbus = stack.enter_context(_service(folder, settings))
        list(starting)
        client = stack.enter_context(Client(f"http://{http[0]}:{http[1]}", key))
        database = Database(f"sqlite:///{folder / 'data' / 'dynid.sqlite3'}")
        stack.callback(database.close)
        reader = client.post("/keys", {"name": "poller", "role": "viewer", "robots": ["ur"]})["key"]
        yield Scene(client, reader, http, modbus, robots, database, folder / "data")


@contextmanager
def _service(folder: Path, settings: str) -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    """Run ``dynid serve``; yields where it serves HTTP and Modbus."""
    config, log = folder / "dynid.toml", folder / "service.log"
    config.write_text(settings, encoding="utf-8")
    config.chmod(0o600)
    with (
        log.open("w", encoding="utf-8") as log_file,
        subprocess.Popen(
            [sys.executable, "-m", "service.cli", "serve", "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=log_file,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        ) as process,
    ):
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            text = log.read_text(encoding="utf-8")
            if not line:
                raise RuntimeError(f"the service did not start:\n{text}")
            url = urlsplit(json.loads(line)["url"])
            said = re.search(r"Modbus is served on (\S+) port (\d+)", text)
            assert url.hostname is not None
            assert url.port is not None
            assert said is not None
            yield (url.hostname, url.port), (said[1], int(said[2]))
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def add_table(database: Database, robot: str, samples: int = 6000) -> None:
    """Store a feedforward table of twelve seconds; its numbers are of no interest."""
    torque = np.zeros((samples, 6), "<f4").tobytes()
    with database.session() as session:
        result = results.create(session, robot=robot, recording_ids=[], settings={}, document={})
        results.set_validation(session, result.id, {"passed": True, "reasons": [], "report": {}})
        definition = motion("ur10e_excitation").definition()
        trajectory = trajectories.create(session, name="soak", definition=definition, n_joints=6, duration=12.0)
        feedforward.create(
            session,
            result_id=result.id,
            trajectory_id=trajectory.id,
            cycle_time=0.002,
            samples=samples,
            n_joints=6,
            crc32=zlib.crc32(torque),
            digest=f"{zlib.crc32(torque):064x}",
            torque=torque,
            current=None,
            document={},
        )


def add_recording(scene: Scene, robot: str) -> str:
    """Store a computed recording of the ready-made excitation at 500 Hz and return its identifier."""
    model = model_named("ur10e")
    s = motion("ur10e_excitation").sample(1.0 / RATES["ur"])
    torque = model.inverse_dynamics(s.q, s.qd, s.qdd) + 10.0 * np.sign(s.qd) + 12.0 * s.qd
    noise = np.random.default_rng(1).normal(0.0, 0.2, torque.shape)
    block = np.zeros(s.t.size, sample_dtype(6))
    block["sequence"] = 1 + np.arange(s.t.size)
    block["controller_time"] = s.t
    block["torque"] = np.nan
    block["q"], block["qd"], block["current"] = s.q, s.qd, (torque + noise) / GAINS
    with scene.database.session() as session:
        row = recordings.create(session, robot=robot)
    writer = McapSampleWriter.create(recordings.file_of(scene.data_dir, row), 6, robot=robot)
    writer.write(block)
    stored = writer.finish()
    with scene.database.session() as session:
        recordings.finish(
            session,
            row.id,
            RecordingState.COMPLETE,
            sha256=stored.sha256,
            size=stored.bytes,
            samples=stored.samples,
            lost=stored.lost,
            lapped=stored.lapped,
        )
    return row.id
