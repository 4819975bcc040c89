"""The check before any motion names the first offending joint and time, and never clamps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.errors import InputError, MotionLimitError
from core.excitation import FourierQuintic, TrajectorySamples, catalogue, check_motion
from core.models import SerialChain
from core.models import catalogue as model_catalogue


@pytest.fixture(scope="module")
def ur10e() -> SerialChain:
    return model_catalogue("ur10e")


def one_joint_swing(joint: int, amplitude: float, period: float = 4.0) -> TrajectorySamples:
    """Swing one joint of six away from the upright pose and back."""
    start = np.array([0.0, -np.pi / 2, 0.0, -np.pi / 2, 0.0, 0.0])
    a = np.zeros((6, 2))
    a[joint] = [amplitude, -amplitude]
    return FourierQuintic(period, a, np.zeros((6, 2)), start, start).sample(0.002)


@pytest.mark.parametrize("name", ["ur10e_excitation", "ur10e_validation"])
def test_ready_made_trajectories_are_feasible(name: str, ur10e: SerialChain) -> None:
    report = check_motion(catalogue(name).sample(0.001), ur10e)
    assert {m.kind for m in report.margins} == {
        "position",
        "speed",
        "acceleration",
        "jerk",
        "predicted torque",
    }
    assert all(use <= 1.0 for m in report.margins for use in m.use)
    assert max(use for m in report.margins if m.kind == "speed" for use in m.use) > 0.3


@pytest.mark.parametrize("joint", range(6))
def test_first_offending_joint_and_time_are_named(joint: int, ur10e: SerialChain) -> None:
    samples = one_joint_swing(joint, 3.0)
    with pytest.raises(MotionLimitError) as refused:
        check_motion(samples, ur10e)
    context = refused.value.context
    assert context["joint"] == joint + 1
    kinds = {
        "position": (samples.q, ur10e.limits.position_upper),
        "speed": (samples.qd, ur10e.limits.velocity),
        "acceleration": (samples.qdd, ur10e.limits.acceleration),
    }
    value, limit = kinds[context["kind"]]
    first = samples.t[np.argmax(np.abs(value[:, joint]) > limit[joint])]
    assert context["time"] == pytest.approx(first)
    assert f"joint {joint + 1}" in refused.value.detail


def test_torque_is_predicted(ur10e: SerialChain) -> None:
    weak = replace(ur10e, limits=replace(ur10e.limits, torque=np.full(6, 20.0)))
    with pytest.raises(MotionLimitError) as refused:
        check_motion(one_joint_swing(1, 0.5), weak)
    assert refused.value.context["kind"] == "predicted torque"


def test_a_start_or_end_that_jerks_is_refused(ur10e: SerialChain) -> None:
    samples = one_joint_swing(0, 0.3)
    cut = slice(100, None)
    moving_start = TrajectorySamples(
        0.002, samples.t[cut] - samples.t[100], samples.q[cut], samples.qd[cut], samples.qdd[cut]
    )
    with pytest.raises(MotionLimitError, match="speed at the start"):
        check_motion(moving_start, ur10e)


def test_another_number_of_joints_is_refused(ur10e: SerialChain) -> None:
    zeros = np.zeros((3, 2))
    with pytest.raises(InputError, match="moves 2 joints"):
        check_motion(TrajectorySamples(0.1, np.array([0.0, 0.1, 0.2]), zeros, zeros, zeros), ur10e)
