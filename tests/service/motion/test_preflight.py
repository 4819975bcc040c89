"""The check before a motion: floor, box and self-collision along trajectory and approach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import MotionLimitError
from core.excitation import FourierQuintic, catalogue
from core.streaming.ring import RingWriter
from core.streaming.samples import sample_dtype
from service.motion.preflight import PreparedMotion, prepare_motion

NOWHERE: dict[str, Any] = {"floor": None, "box": None, "self_collision": None}
STRETCHED = np.array([np.pi / 2, 0.0, 0.0, 0.0, 0.0, 0.0])
"""The arm held out along y, 0.18 m above its base plane."""


class Channel:
    def report(self, fraction: float, message: str) -> None:
        assert 0.0 <= fraction <= 1.0
        assert message


def prepare(folder: Path, motion: Any, pose: np.ndarray, workspace: dict[str, Any]) -> PreparedMotion:
    sample = np.zeros(1, sample_dtype(6))
    sample["q"][0] = pose
    with RingWriter.create(folder / "ring", 6, 16) as ring:
        ring.push(sample)
        return prepare_motion(
            Channel(),  # type: ignore[arg-type]
            definition=motion.definition(),
            model="ur10e",
            period=0.002,
            approach=(0.5, 1.0),
            workspace=NOWHERE | workspace,
            ring=folder / "ring",
            n_joints=6,
            trajectory=folder / "trajectory.npz",
        )


def stay(pose: np.ndarray) -> FourierQuintic:
    return FourierQuintic(1.0, np.zeros((6, 1)), np.zeros((6, 1)), pose, pose)


@pytest.mark.parametrize("name", ["ur10e_excitation", "ur10e_validation"])
def test_ready_made_motions_keep_off_the_floor_and_themselves(tmp_path: Path, name: str) -> None:
    motion = catalogue(name)
    prepared = prepare(tmp_path, motion, motion.evaluate(np.zeros(1))[0][0], {"floor": 0.05, "self_collision": 0.05})
    assert prepared.trajectory.is_file()
    assert prepared.duration == motion.duration


def test_a_trajectory_below_the_floor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MotionLimitError, match="above the floor") as refused:
        prepare(tmp_path, stay(STRETCHED), STRETCHED, {"floor": 0.5})
    assert refused.value.context["kind"] == "workspace"
    assert not (tmp_path / "trajectory.npz").exists()


def test_an_approach_that_leaves_the_box_on_its_way_is_refused(tmp_path: Path) -> None:
    """Both ends are inside; between them the tool sweeps far out along -x."""
    box = ((-0.5, -2.0, -1.0), (0.5, 2.0, 2.0))
    assert prepare(tmp_path, stay(STRETCHED), STRETCHED, {"box": box}).n_joints == 6
    with pytest.raises(MotionLimitError, match="% along its way") as refused:
        prepare(tmp_path, stay(STRETCHED), STRETCHED * [-1.0, 1, 1, 1, 1, 1], {"box": box})
    assert refused.value.context["kind"] == "approach workspace"


def test_without_a_workspace_none_is_checked(tmp_path: Path) -> None:
    assert prepare(tmp_path, stay(STRETCHED), -STRETCHED, {}).n_joints == 6
