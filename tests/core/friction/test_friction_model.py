"""Friction by name, joint by joint."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import InputError
from core.friction import LAWS, friction_model
from core.signals.motion import JointMotion


@pytest.fixture
def motion() -> JointMotion:
    qd = np.column_stack([np.linspace(-1.0, 1.0, 2001), np.linspace(0.5, -0.5, 2001)])
    return JointMotion(0.01, np.zeros_like(qd), qd, np.zeros_like(qd))


def test_coulomb_viscous(motion):
    friction = friction_model("coulomb_viscous", 2)
    assert friction.names == ("fc1", "fv1", "b1", "fc2", "fv2", "b2")
    torque = friction.torque(motion, np.array([2.0, 3.0, 0.5, 1.0, 0.0, -1.0]))
    qd = motion.qd
    assert torque[:, 0] == pytest.approx(2.0 * np.sign(qd[:, 0]) + 3.0 * qd[:, 0] + 0.5)
    assert torque[:, 1] == pytest.approx(np.sign(qd[:, 1]) - 1.0)


def test_the_sign_of_zero_is_zero(motion):
    columns = friction_model("coulomb_viscous", 2).columns(motion)[0]
    assert columns[1000, 0] == 0.0


def test_smooth_friction_does_not_jump_and_ends_where_the_sign_does(motion):
    friction = friction_model("coulomb_viscous", 2)
    sharp, smooth = (friction.columns(motion, smooth=s)[0][:, 0] for s in (False, True))
    assert np.abs(np.diff(smooth)).max() < 0.06
    fast = np.abs(motion.qd[:, 0]) > 0.1
    assert smooth[fast] == pytest.approx(sharp[fast], abs=1e-4)


@pytest.mark.parametrize("name", LAWS)
def test_slopes_of_every_law_are_those_of_its_smooth_columns(name):
    law = LAWS[name]()
    qd = np.array([-2.1, -0.4, -0.13, -0.011, 1e-4, 0.02, 0.17, 0.31, 1.7])
    h = 1e-7
    above, below = (law.columns(qd + step, sign_width=0.05) for step in (h, -h))
    assert law.slopes(qd, sign_width=0.05) == pytest.approx((above - below) / (2.0 * h), rel=1e-5, abs=1e-5)
    assert np.isfinite(law.slopes(np.zeros(1), sign_width=0.05)).all()


@pytest.mark.parametrize("name", LAWS)
def test_a_narrow_smooth_sign_is_the_sign(name):
    law, qd = LAWS[name](), np.array([-1.0, -0.1, 0.1, 1.0])
    assert law.columns(qd, sign_width=1e-4) == pytest.approx(law.columns(qd, sign_width=0.0))


def test_specifications_round_trip_and_differ_by_joint():
    friction = friction_model(["coulomb_viscous", "coulomb_viscous"], 2)
    assert friction_model(friction.specification, 2) == friction


def test_what_a_sensor_carries_may_have_no_friction_or_an_offset_alone():
    still = np.zeros((3, 2))
    friction = friction_model(["none", "offset"], 2)
    assert friction.names == ("b2",)
    motion = JointMotion(0.01, still, still + 1.0, still)
    assert friction.torque(motion, np.array([4.0])) == pytest.approx(np.array([[0.0, 4.0]] * 3))
    assert friction_model("none", 2).torque(motion, np.empty(0)) == pytest.approx(still)


@pytest.mark.parametrize(
    ("specification", "message"),
    [
        ("arctic", "unknown law 'arctic'; there are coulomb_viscous"),
        ("coulomb_viscous+glue", "unknown term 'glue'"),
        ("", "unknown law ''"),
        ("coulomb_viscous+glue+glue", "a term is repeated"),
        (["coulomb_viscous"], "for 1 joints, the robot has 2"),
    ],
)
def test_what_is_unknown_is_refused(specification, message):
    with pytest.raises(InputError, match=message):
        friction_model(specification, 2)


def test_joint_and_parameter_counts_have_to_fit(motion):
    with pytest.raises(InputError, match="friction of 3 joints meets a motion of 2"):
        friction_model("coulomb_viscous", 3).columns(motion)
    with pytest.raises(InputError, match=r"shape \(5,\), expected \(6,\)"):
        friction_model("coulomb_viscous", 2).torque(motion, np.zeros(5))
