"""A PLC has a robot calibrated: the robot moves, and the answer says whether it is as it was identified."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pymodbus.client import ModbusTcpClient

from core.excitation import FourierQuintic
from core.models import catalogue
from core.pipelines.identify import identify
from core.recordings import Recording
from drivers.virtual.process import VirtualUR10e
from service.client import Client, ServiceError
from service.modbus.register_map import MAILBOX, Answer, Command
from service.storage import Database, audit, results, trajectories

UNIT = 1
KEY = "a key for the tests only"
SETTINGS = """
data_dir = "data"
runtime_dir = "run"
port = 0
workers = 1
[robots.cell]
driver = "universal_robots"
host = "{host}"
model = "ur10e"
virtual = true
motion_enabled = true
settle_time = 0.1
calibration.short = {{ trajectory = "sway", approach = {{ speed = 1.0, acceleration = 2.0 }}, time_limit = 60.0 }}
[modbus]
port = 0
units = {{ cell = 1 }}
commands = ["start_calibration"]
calibrations = {{ cell = "short" }}
"""
HOME = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])


def identified() -> dict[str, object]:
    """Return a result of a robot that has other friction than the virtual one."""
    model = catalogue("ur10e")
    t = np.arange(3000) / 100.0
    phase = t[:, None] * np.array([0.9, 1.1, 1.3, 1.7, 1.9, 2.3]) + np.arange(6.0)
    rate = np.array([0.9, 1.1, 1.3, 1.7, 1.9, 2.3])
    q, qd, qdd = HOME + 0.6 * np.sin(phase), 0.6 * rate * np.cos(phase), -0.6 * rate**2 * np.sin(phase)
    noise = np.random.default_rng(0).normal(0.0, 0.3, q.shape)
    torque = model.inverse_dynamics(q, qd, qdd) + 2.0 * np.sign(qd) + 3.0 * qd + noise
    made = Recording("made up", t, q, qd, current=torque / model.drive_gains)
    return identify(model, [made], gains=model.drive_gains).to_document()


@pytest.fixture
def service(tmp_path: Path, virtual_ur10e: VirtualUR10e) -> Iterator[tuple[str, int, Database]]:
    """A service with a result in force and a stored motion: its address, its Modbus port, its database."""
    settings, log = tmp_path / "dynid.toml", tmp_path / "service.log"
    settings.write_text(SETTINGS.format(host=virtual_ur10e.host), encoding="utf-8")
    with (
        log.open("w", encoding="utf-8") as log_file,
        subprocess.Popen(
            [sys.executable, "-m", "service.cli", "serve", "--config", str(settings)],
            stdout=subprocess.PIPE,
            stderr=log_file,
            text=True,
            env={**os.environ, "DYNID_API_KEY": KEY},
        ) as process,
    ):
        database = Database(f"sqlite:///{tmp_path / 'data' / 'dynid.sqlite3'}")
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            random = np.random.default_rng(4)
            motion = FourierQuintic(3.0, *random.normal(0.0, 0.08, (2, 6, 2)), HOME, HOME)
            with database.session() as session:
                row = results.create(session, robot="cell", recording_ids=[], settings={}, document=identified())
                results.set_validation(session, row.id, {"passed": True})
                results.activate(session, row.id)
                trajectories.create(session, name="sway", definition=motion.definition(), n_joints=6, duration=3.0)
            served = re.search(r"Modbus is served on \S+ port (\d+)", log.read_text(encoding="utf-8"))
            assert served is not None
            yield ready["url"], int(served[1]), database
        finally:
            database.close()
            process.terminate()
            process.wait(20.0)


def test_a_plc_starts_a_calibration(service: tuple[str, int, Database]) -> None:
    url, port, database = service
    with Client(url, KEY) as rest, ModbusTcpClient("127.0.0.1", port=port, timeout=5.0, retries=0) as client:
        deadline = time.monotonic() + 30.0
        while rest.get("/robots/cell")["status"]["connection"] != "streaming":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        words = MAILBOX.encode({"command": Command.START_CALIBRATION, "argument": 0, "request": 1})
        assert not client.write_registers(MAILBOX.start, words[:4], device_id=UNIT).isError()
        answer = Answer.PENDING
        while answer is Answer.PENDING:
            assert time.monotonic() < deadline + 60.0
            time.sleep(0.1)
            seen = client.read_holding_registers(MAILBOX.start, count=MAILBOX.registers, device_id=UNIT)
            answer = Answer(int(MAILBOX.decode(seen.registers, "answer")))
        (job,) = rest.get("/calibrations", robot="cell")["items"]
        assert answer is Answer.FLAGGED, job
        assert job["result"]["outcome"] == "flagged"
        assert job["result"]["recording_id"]
        with database.reading() as session:
            asked = [row.details["stage"] for row in audit.find(session, robot="cell", limit=2)]
            assert audit.first_broken(session) is None
        assert asked == ["done", "asked"]
        with rest.lease("cell", holder="a test") as lease, pytest.raises(ServiceError, match="disarmed"):
            rest.calibrate("cell", "short", lease=lease)
