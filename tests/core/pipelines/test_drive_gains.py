"""Drive gains from a controller's own targets."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import IdentificationError
from core.pipelines.drive_gains import from_targets
from core.recordings import Recording, read

GAINS = np.array([12.0, 10.0, 8.0])


def recording(torque: np.ndarray, friction: float) -> Recording:
    """Two seconds at rest, then motion in which the controller adds friction, growing with ``qd**3``."""
    t = np.arange(1000) / 100.0
    qd = np.where(t[:, None] < 2.0, 0.0, np.sin(3.0 * t[:, None]) * np.ones(3))
    q = np.cumsum(qd, axis=0) / 100.0
    tau = torque + np.where(t[:, None] < 2.0, 0.0, 4.0 * np.cos(5.0 * t[:, None]))
    current = (tau + 2.0 * np.sign(qd) + 3.0 * qd + friction * qd**3) / GAINS
    return Recording("run", t, q, qd, target_torque=tau, target_current=current)


def test_rest_tells_the_gains_where_gravity_loads_a_joint():
    gains = from_targets([recording(np.array([30.0, -5.0, 0.0]), friction=8.0)])
    assert gains.values[:2] == pytest.approx(GAINS[:2])
    assert gains.sources == ("rest", "rest", None)
    with pytest.raises(IdentificationError, match="do not tell the drive gains of joints 3") as refusal:
        gains.complete()
    assert refusal.value.context["joints"] == [3]


def test_motion_tells_them_where_the_friction_that_the_controller_adds_is_simple():
    gains = from_targets([recording(np.array([30.0, -5.0, 0.0]), friction=0.0)])
    assert gains.complete() == pytest.approx(GAINS)
    assert gains.sources == ("rest", "rest", "motion")


def test_targets_have_to_be_there():
    bare = Recording("bare", np.arange(10.0), np.zeros((10, 3)), np.zeros((10, 3)))
    with pytest.raises(IdentificationError, match="bare: drive gains cannot be read from it"):
        from_targets([bare])


def test_recorded_arm(ur10e_data):
    paths = sorted((ur10e_data / "point_to_point").glob("*-p[123].csv"))
    gains = from_targets([read(path, "ur-log") for path in paths])
    assert gains.values[1:5] == pytest.approx([11.976, 9.839, 10.763, 10.76], rel=2e-3)
    assert gains.sources[0] is gains.sources[5] is None
