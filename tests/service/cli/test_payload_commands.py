"""``dynid drive-gains`` and ``dynid payload`` on files of an arm with and without a payload."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from core.errors import InputError
from core.models import catalogue
from core.recordings import Recording, write
from service.cli import app

MASS, COM = 4.0, (0.05, -0.08, 0.1)
ERRORS = np.array([1.1, 0.95, 1.05, 0.9, 1.02, 1.0])
"""Gains over those of the catalogue."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    chain = catalogue("ur10e")
    random = np.random.default_rng(0)
    t = np.arange(2000) / 100.0
    rate, phase, size = random.uniform(0.4, 2.5, (6, 4)), random.uniform(0.0, 6.0, (6, 4)), 0.4
    angle = t[:, None, None] * rate + phase
    q, qd, qdd = (size * wave.sum(axis=2) for wave in (np.sin(angle), rate * np.cos(angle), -(rate**2) * np.sin(angle)))
    for name, robot in (("without", chain), ("with", chain.with_payload(MASS, COM))):
        torque = robot.inverse_dynamics(q, qd, qdd) + 3.0 * np.sign(qd) + 2.0 * qd + random.normal(0.0, 0.2, q.shape)
        recording = Recording(name, t, q, qd, current=torque / (chain.drive_gains * ERRORS))
        write(recording, folder / f"{name}.npz", "npz")
    return folder


def run(*words: str | Path) -> str:
    answer = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_drive_gains_from_files(folder: Path) -> None:
    common = ["drive-gains", "--model", "ur10e", "--format", "npz", "--friction", "coulomb_viscous"]
    files = ["--without", folder / "without.npz", "--with", folder / "with.npz"]
    found = folder / "gains.json"
    text = run(*common, *files, "--payload-mass", "4", "--payload-com", *map(str, COM), "--json", found)
    assert "2 shoulder_lift" in text
    assert "the nominal gains of" in text
    document = json.loads(found.read_text())
    truth = np.array(document["nominal"]) * ERRORS
    assert np.array(document["gains"][:5]) == pytest.approx(truth[:5], rel=0.02)
    assert np.all(np.abs(document["gains"] - truth) < 4.0 * np.array(document["std"]))
    assert document["payload"]["mz"] == pytest.approx(0.4)
    with pytest.raises(InputError, match="needs a positive mass"):
        run(*common, *files, "--payload-mass", "0")
    assert CliRunner().invoke(app, [*map(str, (*common, *files))]).exit_code == 2


def test_a_payload_from_files(folder: Path) -> None:
    gains = [f"{value:.6f}" for value in catalogue("ur10e").drive_gains * ERRORS]
    found = folder / "payload.json"
    words = ["payload", "--model", "ur10e", "--format", "npz", "--gains", *gains, "--friction", "coulomb_viscous"]
    run(*words, "--unloaded", folder / "without.npz", "--loaded", folder / "with.npz", "--json", found)
    document = json.loads(found.read_text())
    assert document["mass"] == pytest.approx(MASS, rel=0.01)
    assert document["centre"] == pytest.approx(COM, abs=0.01)
