"""Trajectory files: what is played is what was meant, and what cannot be is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivers.trajectory import PlayableTrajectory, TrajectoryFileError


def arrays(period: float = 0.01, n_joints: int = 2) -> dict[str, Any]:
    t = np.arange(0.0, 1.0 + period / 2, period)
    w = np.arange(1.0, n_joints + 1.0)
    return {"t": t, "q": np.sin(t[:, None] * w), "qd": w * np.cos(t[:, None] * w)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "motion.npz"


def test_poses_between_samples_follow_the_curve(path: Path) -> None:
    np.savez(path, **arrays(), note=np.array("other arrays are ignored"))
    trajectory = PlayableTrajectory.load(path, 2)
    assert trajectory.period == pytest.approx(0.01)
    assert trajectory.duration == pytest.approx(1.0)
    for time in (0.0, 0.0123, 0.5, 0.777, 1.0):
        np.testing.assert_allclose(trajectory.pose(time), np.sin([time, 2 * time]), atol=1e-8)
    np.testing.assert_array_equal(trajectory.pose(-1.0), trajectory.q[0])
    np.testing.assert_array_equal(trajectory.pose(9.0), trajectory.q[-1])
    joint, speed = trajectory.fastest
    assert joint == 1
    assert speed == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"qd": None}, "qd is not a file in the archive; needed are t, q and qd"),
        ({"q": np.zeros((101, 3))}, r"q, qd have shapes \(101,\), \(101, 3\)"),
        ({"t": np.linspace(0.0, 1.0, 101) ** 2}, "not uniform"),
        ({"t": np.zeros(101)}, "not uniform"),
        ({"q": np.full((101, 2), np.nan)}, "not finite"),
        ({"q": np.array([object()])}, "not a trajectory file"),
        ({"t": np.array(["a"])}, "not a trajectory file"),
    ],
)
def test_files_that_cannot_be_played_are_refused(path: Path, change: dict[str, Any], problem: str) -> None:
    content = {name: value for name, value in (arrays() | change).items() if value is not None}
    np.savez(path, **content)
    with pytest.raises(TrajectoryFileError, match=problem):
        PlayableTrajectory.load(path, 2)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn", b"t,q\n0,0\n"])
def test_foreign_files_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(TrajectoryFileError, match="not a trajectory file"):
        PlayableTrajectory.load(path, 2)


def test_a_missing_file_is_refused(path: Path) -> None:
    with pytest.raises(TrajectoryFileError, match="No such file"):
        PlayableTrajectory.load(path, 2)
