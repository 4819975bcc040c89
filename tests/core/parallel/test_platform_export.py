"""A platform with identified parameters as a model file: loaded again, it is the same robot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import InputError, ModelError
from core.export import export
from core.export.platform_toml import platform_toml
from core.models import SixUPRU, load
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.pipelines.leg_drives import identify_drives
from core.recordings import Recording

AXIAL = ["Ia1", "Ia2+Ia3+Ia4"]


@pytest.fixture(scope="module")
def forces(upru: SixUPRU, fourier: Any) -> Identification:
    return identify(upru.with_drive_gains(None), [recorded(fourier)], friction="none", without=AXIAL)


def recorded(reference: Any) -> Recording:
    data, random = reference.data, np.random.default_rng(0)
    force = data["f_sensor"] + random.normal(0.0, 2.0, (1001, 6))
    return Recording("run", data["t"], data["l"], data["ld"], current=force / 250.0, torque=force)


def loaded(folder: Path, text: str) -> SixUPRU:
    file = folder / "platform.toml"
    file.write_text(text, "utf-8")
    robot = load(file)
    assert isinstance(robot, SixUPRU)
    return robot


def test_forces_of_the_file_are_those_that_were_identified(tmp_path: Path, forces: Identification, cosine: Any) -> None:
    written = export(forces, "toml")
    robot = loaded(tmp_path, written.text)
    assert any("exactly as identified" in note for note in written.notes)
    assert f"# {written.notes[0]}" in written.text
    q, qd, qdd = cosine.states
    expected = forces.base.columns(forces.model.regressor(q, qd, qdd)) @ forces.parameters_
    np.testing.assert_allclose(robot.inverse_dynamics(q, qd, qdd), expected, atol=1e-8)
    np.testing.assert_allclose(expected, cosine.data["f_sensor"], atol=2.0)
    assert robot.parameters[0] == pytest.approx(0.0, abs=1e-9)  # left out


def test_all_else_is_the_robots_own(tmp_path: Path, upru: SixUPRU) -> None:
    full = replace(
        upru.with_drive_gains(np.linspace(240.0, 260.0, 6)).with_limits(
            velocity=0.5, acceleration=2.5, jerk=40.0, torque=2000.0, position_lower=0.8, position_upper=1.25
        ),
        joint_angle_limit=0.7,
        condition_limit=12.0,
        gravity=np.array([0.1, -0.2, -9.8]),
    )
    assert loaded(tmp_path, platform_toml(full)) == full
    assert loaded(tmp_path, platform_toml(upru)) == upru
    with pytest.raises(ModelError, match="legs differ in their limit of velocity"):
        platform_toml(full.with_limits(velocity=[0.5] * 5 + [0.4]))
    with pytest.raises(ModelError, match="on one side only"):
        platform_toml(full.with_limits(position_upper=np.inf))
    unknown = platform_toml(upru).replace('"Ia1" =', '"Ia7" =')
    with pytest.raises(ModelError, match="Ia1"):
        loaded(tmp_path, unknown)


def test_what_cannot_be_written_is_refused(forces: Identification, fourier: Any) -> None:
    with pytest.raises(ModelError, match="is for serial chains only"):
        export(forces, "urdf")
    drives = identify_drives(forces, [recorded(fourier)], friction="none")
    with pytest.raises(InputError, match="not in N") as refused:
        export(drives, "toml")
    assert refused.value.code == "unit-not-torque"
