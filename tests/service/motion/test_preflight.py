"""The check before a motion: floor, box and self-collision along trajectory and approach."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import InputError, MotionLimitError
from core.excitation import FourierQuintic, catalogue
from core.models import SixUPRU, resolve
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


def prepare(
    folder: Path,
    motion: Any,
    pose: np.ndarray,
    workspace: dict[str, Any],
    model: str = "ur10e",
    approach: tuple[float, float] = (0.5, 1.0),
) -> PreparedMotion:
    sample = np.zeros(1, sample_dtype(6))
    sample["q"][0] = pose
    with RingWriter.create(folder / "ring", 6, 16) as ring:
        ring.push(sample)
        return prepare_motion(
            Channel(),  # type: ignore[arg-type]
            definition=motion.definition(),
            model=model,
            period=0.002,
            approach=approach,
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


# --- a platform -------------------------------------------------------------------------------------

SLOWLY = (0.1, 0.5)  # m/s, m/s² of the leading leg


@pytest.fixture(scope="module")
def platform() -> SixUPRU:
    model = resolve("upru6")
    assert isinstance(model, SixUPRU)
    return model


def sway(platform: SixUPRU) -> FourierQuintic:
    """A platform that sways once along x, from home and back, by 3 cm."""
    coefficients = np.zeros((6, 1))
    coefficients[0] = 1.0
    return FourierQuintic(2.0, coefficients, np.zeros((6, 1)), platform.home, platform.home)


def test_what_a_plc_gets_of_a_platform_are_its_legs(tmp_path: Path, platform: SixUPRU) -> None:
    standing = platform.leg_lengths(platform.home + np.array([0.0, 0.0, -0.03, 0.0, 0.05, 0.0]))[0]
    prepared = prepare(tmp_path, sway(platform), standing, {}, "upru6", SLOWLY)
    with np.load(prepared.trajectory) as file:
        np.testing.assert_allclose(file["q"][0], platform.leg_lengths(platform.home)[0], atol=1e-12)
        np.testing.assert_allclose(np.gradient(file["q"], 0.002, axis=0)[1:-1], file["qd"][1:-1], atol=1e-4)
    assert prepared.model_digest == platform.digest()
    assert {"position", "speed", "acceleration", "joint angle", "conditioning"} < set(prepared.limit_use)
    assert 0.0 < max(prepared.limit_use["conditioning"]) < 1.0


@pytest.mark.parametrize(
    ("limits", "kind"),
    [
        ({"velocity": 0.01}, "speed"),
        ({"acceleration": 0.02}, "acceleration"),
        ({"joint_angle": 0.001}, "joint angle"),
        ({"condition": 1.5}, "conditioning"),
    ],
)
def test_a_platform_beyond_its_limits_is_refused(
    tmp_path: Path, platform: SixUPRU, limits: dict[str, float], kind: str
) -> None:
    file = write_model(tmp_path, **limits)
    with pytest.raises(MotionLimitError, match="Nothing was moved") as refused:
        prepare(tmp_path, sway(platform), platform.leg_lengths(platform.home)[0], {}, file, SLOWLY)
    assert refused.value.context["kind"] == kind
    assert not (tmp_path / "trajectory.npz").exists()


def test_an_approach_of_a_platform_is_looked_at_too(tmp_path: Path, platform: SixUPRU) -> None:
    home = platform.leg_lengths(platform.home)[0]
    with pytest.raises(MotionLimitError, match=r"exceeds the 0\.5 m/s of joint 1"):
        prepare(tmp_path, sway(platform), home, {}, "upru6", (0.6, 1.0))
    with pytest.raises(MotionLimitError, match=r"\(leg1\) stands at 1.3 m, beyond its position limit") as refused:
        prepare(tmp_path, sway(platform), np.full(6, 1.3), {}, "upru6", SLOWLY)
    assert refused.value.context["kind"] == "approach start"
    turned = platform.leg_lengths(platform.home + np.array([0.0, 0.0, 0.0, 0.0, 0.12, 0.0]))[0]
    narrow = write_model(tmp_path, joint_angle=0.1)
    with pytest.raises(MotionLimitError, match="the approach leaves the limit of joint angle 0 % along") as refused:
        prepare(tmp_path, sway(platform), turned, {}, narrow, SLOWLY)
    assert refused.value.context["kind"] == "approach joint angle"


def test_a_platform_has_no_workspace(tmp_path: Path, platform: SixUPRU) -> None:
    with pytest.raises(InputError, match="for an arm only"):
        prepare(tmp_path, sway(platform), platform.leg_lengths(platform.home)[0], {"floor": 0.0}, "upru6", SLOWLY)


def write_model(folder: Path, **limits: float) -> str:
    """Write the catalogue's platform with other limits, and return where."""
    text = resources.files("core.models").joinpath("catalogue/upru6.toml").read_text("utf-8")
    for key, value in limits.items():
        text = re.sub(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.MULTILINE)
    file = folder / "platform.toml"
    file.write_text(text, "utf-8")
    return str(file)
