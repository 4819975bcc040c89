"""``dynid calibrate`` on a robot that is not as it was identified: what its profile says is done about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from core.excitation import catalogue as motion
from core.models import catalogue
from core.pipelines.identify import identify
from core.recordings import Recording
from drivers.virtual.process import VirtualUR10e
from service.client import Client
from service.storage import Database, audit, results, trajectories

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
[robots.cell.calibration.whole]
trajectory = "excitation"
approach = {{ speed = 0.8, acceleration = 1.0 }}
time_limit = 240.0
reidentify = {{ trajectory = "validation", max_relative_residual = 0.5 }}
"""


def of_another_robot() -> dict[str, object]:
    """Return a result of a robot that has other friction than the virtual one."""
    model, s = catalogue("ur10e"), motion("ur10e_excitation").sample(0.002)
    assert model.drive_gains is not None
    noise = np.random.default_rng(0).normal(0.0, 0.3, s.q.shape)
    torque = model.inverse_dynamics(s.q, s.qd, s.qdd) + 2.0 * np.sign(s.qd) + 3.0 * s.qd + noise
    made = Recording("made up", s.t, s.q, s.qd, current=torque / model.drive_gains)
    return identify(model, [made], gains=model.drive_gains).to_document()


@pytest.fixture
def service(tmp_path: Path, virtual_ur10e: VirtualUR10e) -> Iterator[tuple[Path, str, Database]]:
    """A running service: its settings, its address, its database."""
    settings = tmp_path / "dynid.toml"
    settings.write_text(SETTINGS.format(host=virtual_ur10e.host), encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-m", "service.cli", "serve", "--config", str(settings)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "DYNID_API_KEY": KEY},
    ) as process:
        database = Database(f"sqlite:///{tmp_path / 'data' / 'dynid.sqlite3'}")
        try:
            assert process.stdout is not None
            yield settings, json.loads(process.stdout.readline())["url"], database
        finally:
            database.close()
            process.terminate()
            process.wait(20.0)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_changed_robot_is_identified_again(service: tuple[Path, str, Database], tmp_path: Path) -> None:
    settings, url, database = service
    with database.session() as session:
        row = results.create(
            session,
            robot="cell",
            recording_ids=[],
            settings={"gains": "configured", "friction": "coulomb_viscous"},
            document=of_another_robot(),
        )
        results.set_validation(session, row.id, {"passed": True})
        old = results.activate(session, row.id).id
        for name in ("excitation", "validation"):
            ready_made = motion(f"ur10e_{name}")
            trajectories.create(
                session,
                name=name,
                definition=ready_made.definition(),
                n_joints=6,
                duration=ready_made.duration,
            )
    out = tmp_path / "calibration.json"
    command = [sys.executable, "-m", "service.cli", "calibrate", "--robot", "cell", "--profile", "whole"]
    ended = subprocess.run(
        [*command, "--config", str(settings), "--url", url, "--json", str(out)],
        capture_output=True,
        text=True,
        timeout=360,
        check=False,
        env={**os.environ, "DYNID_API_KEY": KEY},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    document = json.loads(out.read_text(encoding="utf-8"))
    assert (document["outcome"], document["result_id"], document["reasons"]) == ("reidentified", old, [])
    assert "friction" in {change["cause"] for change in document["drift"]["changes"]}
    with Client(url, KEY) as client:
        assert client.get(f"/results/{document['new_result_id']}")["state"] == "active"
        assert client.get(f"/results/{old}")["state"] == "superseded"
    with database.reading() as session:
        assert audit.first_broken(session) is None
