"""What each law and term does, by itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from core.friction import FRICTIONLESS, LAWS, TERMS, friction_model
from core.friction.hysteresis import THRESHOLDS, stop_states
from core.signals.motion import JointMotion

FULL = "arctan+load(2, drive)+hysteresis+warmup+ripple(202, load)+elasticity"


def swinging(period: float = 0.01, seconds: float = 6.0, amplitude: float = 0.5) -> JointMotion:
    t = np.arange(0.0, seconds, period)
    rate = 2.0
    q, qd = amplitude * np.cos(rate * t), -amplitude * rate * np.sin(rate * t)
    qdd = -amplitude * rate**2 * np.cos(rate * t)
    load = 20.0 + 30.0 * np.sin(q)
    return JointMotion(period, *(v[:, None] for v in (q, qd, qdd)), link_torque=load[:, None])


def columns(specification: str, motion: JointMotion, *, smooth: bool = False) -> dict[str, np.ndarray]:
    friction = friction_model(specification, 1)
    return dict(zip(friction.names, friction.columns(motion, smooth=smooth)[0].T, strict=True))


@pytest.mark.parametrize("law", LAWS)
def test_every_law_dissipates_against_the_motion(law):
    motion = swinging()
    found = columns(law, motion)
    assert all(np.all(np.isfinite(column)) for column in found.values())
    for name in friction_model(law, 1).nonnegative:
        assert np.all(found[name] * motion.qd[:, 0] >= 0.0)


def test_the_two_regimes_meet_at_the_threshold():
    qd = np.array([-0.3 - 1e-9, -0.3 + 1e-9, 0.3 - 1e-9, 0.3 + 1e-9])[:, None]
    motion = JointMotion(0.01, qd, qd, qd)
    torque = friction_model("two_regime_cubic(threshold=0.3)", 1).torque(motion, np.arange(1.0, 9.0))
    assert torque[0] == pytest.approx(torque[1], abs=1e-6)
    assert torque[2] == pytest.approx(torque[3], abs=1e-6)


def test_stribeck_sticks_harder_than_it_slides():
    qd = np.linspace(0.001, 1.0, 1000)[:, None]
    torque = friction_model("stribeck(vs=0.1, d=2)", 1).torque(JointMotion(0.01, qd, qd, qd), np.array([1, 3, 0, 0]))
    assert torque[0, 0] == pytest.approx(3.0, abs=1e-3)
    assert torque[-1, 0] == pytest.approx(1.0, abs=1e-3)


def test_load_has_the_sign_of_the_motion_and_drive_that_of_the_load():
    motion = swinging()
    found = columns("coulomb_viscous+load(2, drive, width=0.01)", motion)
    fast = np.abs(motion.qd[:, 0]) > 0.1
    load, direction = motion.link_torque[fast, 0], np.sign(motion.qd[fast, 0])
    assert found["k1_1"][fast] == pytest.approx(np.abs(load) * direction)
    assert found["k2_1"][fast] == pytest.approx(load**2 * direction)
    assert found["kd_1"][fast] == pytest.approx(load)


def test_what_needs_the_load_says_so():
    motion = replace(swinging(), link_torque=None)
    for term in ("load", "hysteresis(load)", "elasticity", "ripple(3, load)"):
        friction = friction_model(f"coulomb_viscous+{term}", 1)
        assert friction.needs_load
        with pytest.raises(InputError, match="without its link torque"):
            friction.columns(motion)


@given(st.lists(st.floats(-0.3, 0.3), min_size=2, max_size=30), st.sampled_from([-1.0, 0.0, 1.0]))
@settings(max_examples=50, deadline=None)
def test_stops_slide_at_their_thresholds_and_forget(turns, direction):
    q = np.concatenate([np.linspace(a, b, 20) for a, b in pairwise(turns)])
    states = stop_states(q, direction)
    assert np.all(np.abs(states) <= 1.0)
    travelled = np.append(q, q[-1] + np.linspace(0.0, 2.0 * THRESHOLDS[-1], 50))
    assert stop_states(travelled, direction)[-1] == pytest.approx(np.ones(THRESHOLDS.size), abs=1e-9)


def test_hysteresis_does_not_depend_on_the_rate_of_samples():
    slow, fast = (columns("coulomb_viscous+hysteresis", swinging(period)) for period in (0.01, 0.002))
    for name in ("h1_1", "h4_1", "h6_1"):
        assert fast[name][::5][: slow[name].size] == pytest.approx(slow[name], abs=0.02)


def test_a_recording_that_begins_in_motion_finds_its_stops_slid():
    motion = swinging()
    cut = JointMotion(motion.period, *(v[100:] for v in (motion.q, motion.qd, motion.qdd)))
    assert cut.qd[0, 0] < -0.5
    assert columns("coulomb_viscous+hysteresis", cut)["h6_1"][0] == pytest.approx(-1.0)
    standing = columns("coulomb_viscous+hysteresis", motion)
    assert standing["h6_1"][0] == 0.0


def test_warmth_is_gained_by_motion_and_lost_with_time():
    t = np.arange(0.0, 60.0, 0.01)
    qd = np.where(t < 20.0, 1.0, 1e-6)[:, None]
    warm = columns("coulomb_viscous+warmup(time_constant=10)", JointMotion(0.01, qd, qd, qd))
    assert set(warm) == {"fc1", "fv1", "b1", "fcw_1", "fvw_1"}
    heat = warm["fcw_1"]
    assert heat[1999] == pytest.approx(10.0 * (1.0 - np.exp(-2.0)), rel=1e-3)
    assert heat[2999] == pytest.approx(heat[1999] * np.exp(-1.0), rel=1e-3)


def test_ripple_has_the_orders_of_the_gear():
    motion = swinging()
    found = columns("coulomb_viscous+ripple(100, 202)", motion)
    assert found["rs202_1"] == pytest.approx(np.sin(202 * motion.q[:, 0]))
    assert found["rc100_1"] == pytest.approx(np.cos(100 * motion.q[:, 0]))


def test_elasticity_follows_the_rate_of_the_torque_and_at_low_speed_the_jerk():
    motion = swinging()
    found = columns("coulomb_viscous+elasticity(slow=0.2)", motion)
    rate = 30.0 * np.cos(motion.q[:, 0]) * motion.qd[:, 0]
    jerk = -4.0 * motion.qd[:, 0]
    inside = slice(1, -1)  # differences at the ends are one-sided
    assert found["e1_1"][inside] == pytest.approx(rate[inside], abs=0.02)
    assert found["e2_1"][inside] == pytest.approx((jerk / (1.0 + (motion.qd[:, 0] / 0.2) ** 2))[inside], abs=0.02)


@pytest.mark.parametrize("law", [law for law in LAWS if law not in FRICTIONLESS])
def test_smooth_friction_has_no_jump_at_a_reversal(law):
    """At the cycle of a controller: no step of the whole composition is much larger than those without reversal."""
    motion = swinging(period=0.002, seconds=4.0, amplitude=0.15)
    friction = friction_model(FULL.replace("arctan", law), 1)
    at = int(np.flatnonzero(np.diff(np.sign(motion.qd[:, 0])))[1])
    steps = {}
    for smooth in (True, False):
        found = friction.columns(motion, smooth=smooth)[0]
        size = np.maximum(np.abs(found).max(axis=0), 1e-9)
        steps[smooth] = np.abs(np.diff(found[at - 20 : at + 20], axis=0)).max(axis=0) / size
    assert steps[False][: len(friction.joints[0].law.parameter_names)].max() > 0.9
    assert steps[True].max() < 0.15


def test_the_bracket_holds_everything_that_a_standing_joint_can():
    motion = swinging()
    friction = friction_model("coulomb_viscous+load(1)+hysteresis", 1)
    parameters = np.concatenate([[2.0, 0.0, 0.5], [0.05], np.full(6, 0.2), np.full(6, 0.01)])
    lower, upper = friction.bracket(motion, parameters)
    load = np.abs(motion.link_torque)
    assert upper == pytest.approx(0.5 + 2.0 + 0.05 * load + 1.2 + 0.06 * load)
    assert 0.5 - lower == pytest.approx(upper - 0.5)


@pytest.mark.parametrize(
    ("specification", "message"),
    [
        ("arctan+load+load", "a term is repeated"),
        ("arctan+load(3)", "load takes 1"),
        ("arctan+load(1, 2)", "load takes 1"),
        ("arctan(f5=2)", "arctan has no shape 'f5'"),
        ("arctan(f4=-2)", "f4 must be positive"),
        ("arctan(f4=fast)", "'fast', which is no number"),
        ("arctan(steep)", "arctan has no option 'steep'"),
        ("arctan+ripple", "ripple needs the orders"),
        ("arctan+ripple(202, 202)", "ripple needs the orders"),
        ("arctan+ripple(-5)", "ripple needs the orders"),
        ("arctan+hysteresis(elastic)", "hysteresis takes load or plain"),
        ("arctan+hysteresis(width=1)", "hysteresis has no shape 'width'"),
        ("arctan(", "is no term"),
        ("load+arctan", "unknown law 'load'"),
        ("arctan+stribeck", "unknown term 'stribeck'"),
        ("offset+warmup", "offset has nothing that could warm up"),
    ],
)
def test_specifications_are_checked(specification, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        friction_model(specification, 1)


def test_specifications_round_trip_with_options_and_shapes():
    friction = friction_model([FULL, "stribeck(vs=1e-05)+hysteresis(plain)+ripple(101)", *LAWS], 2 + len(LAWS))
    assert friction_model(friction.specification, friction.n_joints) == friction
    fitted = replace(friction, joints=(friction.joints[0].with_shapes({"arctan.f4": 1.0 / 3.0, "load.width": 0.07}),))
    assert fitted.composition == ["arctan+load(2, drive)+hysteresis(load)+warmup+ripple(202, load)+elasticity"]
    again = friction_model(fitted.specification, 1)
    assert again == fitted
    assert set(again.joints[0].free) == {"warmup.time_constant", "elasticity.slow"}
    assert len(set(friction.names)) == len(friction.names)


def test_hysteresis_is_scaled_by_the_load_where_there_is_a_load_term():
    assert friction_model("arctan+load+hysteresis", 1).composition == ["arctan+load(2)+hysteresis(load)"]
    assert friction_model("arctan+hysteresis", 1).composition == ["arctan+hysteresis(plain)"]
    assert set(TERMS) == {"load", "hysteresis", "warmup", "ripple", "elasticity"}
