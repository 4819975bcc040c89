"""Shapes, load and compositions of friction recovered from a robot whose friction is known."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from core.dynamics.base_parameters import reduce_to_base
from core.errors import InputError, RecordingError
from core.excitation.trajectory import TrajectorySamples
from core.feedforward import build_table
from core.friction import friction_model
from core.models import SerialChain, catalogue
from core.pipelines.friction_shapes import DEFAULT_SEED, FrictionData
from core.pipelines.gear_orders import strongest_order
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.pipelines.left_out_errors import left_out_rms
from core.pipelines.torque_model import TorqueModel
from core.pipelines.training import prepared
from core.recordings import Recording
from core.signals.motion import JointMotion

TRUTH = "arctan(f4=6.0)+load(1, width=0.05)+hysteresis(plain)+warmup(time_constant=15.0)"
ARCTAN = (3.0, 2.0, 4.0, 0.5)
LOAD = (0.08,)
HYSTERESIS = (0.3, 0.3, 0.3, 0.3, 0.3, 0.3)
WARMUP = (-0.02, -0.02, -0.03)


@pytest.fixture(scope="module")
def arm() -> SerialChain:
    """The first three joints' worth of motion is enough to tell friction; six joints cost six times as much."""
    return catalogue("ur10e").with_drive_gains(None)


def record(
    model: SerialChain, friction: str, parameters: tuple[float, ...], seed: int, *, seconds: float = 40.0
) -> Recording:
    """Record measured torque of a motion with all joints' friction alike."""
    random = np.random.default_rng(seed)
    n = model.n_joints
    t = np.arange(0.0, seconds, 0.01)
    rate = 2.0 * np.pi * random.uniform(0.05, 0.4, (n, 5))
    size, phase = random.uniform(0.1, 0.4, (n, 5)), random.uniform(0.0, 6.0, (n, 5))
    angle = t[:, None, None] * rate + phase
    q = (size * np.sin(angle)).sum(axis=-1)
    qd = (size * rate * np.cos(angle)).sum(axis=-1)
    qdd = (-size * rate**2 * np.sin(angle)).sum(axis=-1)
    base = reduce_to_base(model)
    truth = TorqueModel(model, base, friction_model(friction, n))
    values = np.concatenate([base.project(model.parameters), np.tile(parameters, n)])
    torque = truth.torque(JointMotion(0.01, q, qd, qdd), values)
    return Recording(f"seed {seed}", t, q, qd, torque=torque + random.normal(0.0, 0.2, q.shape))


@pytest.fixture(scope="module")
def result(arm) -> Identification:
    parameters = ARCTAN + LOAD + HYSTERESIS + WARMUP
    train = [record(arm, TRUTH, parameters, seed) for seed in (1, 2)]
    held_out = [record(arm, TRUTH, parameters, 3)]
    return identify(arm, train, held_out, friction="arctan+load(1)+hysteresis(plain)+warmup", cross_validate=True)


def test_the_composition_is_recovered(result):
    """Torque noise of 0.2 N·m at 100 Hz leaves 0.09 behind a 10 Hz filter; unseen motion is hardly any worse."""
    assert result.validation.pooled["moving"].rms.max() < 0.13
    shapes = [joint.shapes for joint in result.friction.joints]
    assert np.median([s["arctan.f4"] for s in shapes]) == pytest.approx(6.0, rel=0.3)
    assert np.median([s["warmup.time_constant"] for s in shapes]) == pytest.approx(15.0, rel=0.5)
    loads = [value for name, value in zip(result.names, result.parameters_, strict=True) if name.startswith("k1_")]
    assert loads[1:3] == pytest.approx([0.08, 0.08], abs=0.01)
    assert result.friction.is_fitted


def test_left_out_recordings_are_scored(result):
    scores = result.summary()["cross_validation"]
    assert scores["scheme"] == "recording"
    assert list(scores["recordings"]) == ["seed 1", "seed 2"]
    assert scores["mean_rms_moving"] == pytest.approx(np.mean(scores["rms_moving"]))
    assert result.train.pooled["moving"].rms.mean() < scores["mean_rms_moving"] < 0.15


def test_shapes_and_scores_are_part_of_the_document(result):
    text = json.dumps(result.to_document(), allow_nan=False)
    again = Identification.from_document(json.loads(text))
    assert json.dumps(again.to_document(), allow_nan=False) == text
    assert again.friction == result.friction
    motion = np.random.default_rng(0).normal(0.0, 0.1, (3, 400, 6)).cumsum(axis=1)
    assert np.array_equal(again.predict(*motion, period=0.002), result.predict(*motion, period=0.002))


def test_a_feedforward_table_does_not_jump(result):
    t = np.arange(0.0, 4.0, 0.002)
    q = 0.3 * np.cos(2.0 * t)[:, None] * np.ones(6)
    qd = -0.6 * np.sin(2.0 * t)[:, None] * np.ones(6)
    qdd = -1.2 * np.cos(2.0 * t)[:, None] * np.ones(6)
    table = build_table(result, TrajectorySamples(0.002, t, q, qd, qdd), gains=np.ones(6))
    sharp = result.predict(q, qd, qdd, period=0.002)
    assert np.all(table.largest_step < 0.5 * np.abs(np.diff(sharp, axis=0)).max(axis=0))


def test_standing_torque_lies_between_what_friction_can_hold(result, arm):
    """A joint that stopped holds part of its friction: an RMS cannot say whether that is right, the bracket can."""
    recording = record(arm, TRUTH, ARCTAN + LOAD + HYSTERESIS + WARMUP, 4, seconds=10.0)
    rest = np.ones_like(recording.q) * recording.q[-1]
    lower_level = arm.inverse_dynamics(rest, 0.0 * rest, 0.0 * rest) + 0.5 + 2.5
    standing = Recording("rest", recording.t, rest, 0.0 * rest, torque=lower_level)
    beyond = replace(standing, torque=lower_level + 20.0)
    assert result.validate([standing]).standing_within_friction == pytest.approx(np.ones(6))
    assert result.validate([beyond]).standing_within_friction == pytest.approx(np.zeros(6))


@pytest.mark.parametrize(
    ("law", "parameters", "shape", "expected"),
    [
        ("power_viscous(alpha=0.5)", (3.0, 5.0, 0.2), "power_viscous.alpha", 0.5),
        ("stribeck(vs=0.15, d=2.0)", (3.0, 6.0, 2.0, 0.2), "stribeck.vs", 0.15),
        (
            "two_regime_cubic(threshold=0.4)",
            (4.0, 3.0, -5.0, 0.0, 0.0, 6.0, 0.0, 0.0),
            "two_regime_cubic.threshold",
            0.4,
        ),
    ],
)
def test_shapes_of_laws_are_recovered(arm, law, parameters, shape, expected):
    train = [record(arm, law, parameters, seed, seconds=30.0) for seed in (1, 2)]
    result = identify(arm, train, friction=law.partition("(")[0])
    found = [joint.shapes[shape] for joint in result.friction.joints]
    assert np.median(found) == pytest.approx(expected, rel=0.25)
    assert result.train.pooled["moving"].rms.max() < 0.13


def test_given_shapes_stay_as_they_are(arm):
    train = [record(arm, "arctan(f4=6.0)", ARCTAN, 1, seconds=20.0)]
    result = identify(arm, train, friction=["arctan(f4=3.0)"] + ["arctan"] * 5)
    assert result.friction.joints[0].shapes == {"arctan.f4": 3.0}
    assert result.friction.joints[1].shapes["arctan.f4"] != 3.0


def test_a_single_recording_is_scored_block_by_block(arm):
    train = [record(arm, "coulomb_viscous", (3.0, 5.0, 0.2), 1)]
    result = identify(arm, train, cross_validate=True)
    assert any("blocks of a single recording" in warning for warning in result.warnings)
    scores = result.summary()["cross_validation"]
    assert scores["scheme"] == "block"
    assert list(scores["recordings"]) == [f"seed 1 block {k}" for k in range(1, 6)]
    assert scores["mean_rms_moving"] < 0.15
    with pytest.raises(RecordingError, match="too short to be cut into 5 blocks"):
        identify(arm, [train[0].rows(1, 150)], cross_validate=True)


def test_auto_prefers_what_predicts_best(arm):
    """With Coulomb, viscous and load friction, more terms gain nothing on what was left out."""
    parameters = (3.0, 5.0, 0.2, 0.1)
    train = [record(arm, "coulomb_viscous+load(1, width=0.02)", parameters, seed, seconds=8.0) for seed in (1, 2)]
    result = identify(arm, train, friction="auto")
    assert all("load(2)" in text and "warmup" not in text for text in result.friction.composition)
    table = result.summary()["friction_selection"]
    assert table["scheme"] == "recording"
    rows = {row["friction"]: row for row in table["candidates"]}
    tried = {name: row["mean_rms_moving"] for name, row in rows.items()}
    verified = {name: row["verified_mean_rms_moving"] for name, row in rows.items() if row["verified_mean_rms_moving"]}
    score = result.summary()["cross_validation"]["mean_rms_moving"]
    assert score in verified.values()
    assert score < 0.5 * tried["coulomb_viscous"]
    for name, figure in verified.items():
        assert tried[name] is None or tried[name] == pytest.approx(figure, rel=0.1)
    told = identify(arm, train, friction="coulomb_viscous+load(1)", cross_validate=True)
    assert score < 1.05 * told.summary()["cross_validation"]["mean_rms_moving"]


def test_errors_on_what_was_left_out_are_those_of_cross_validation_where_no_shape_is_fitted(arm):
    train = [record(arm, "coulomb_viscous", (3.0, 5.0, 0.2), seed, seconds=10.0) for seed in (1, 2, 3)]
    found = identify(arm, train, cross_validate=True)
    data = training_set(found, train)
    estimated = left_out_rms(data, data.fit(found.friction), found.moving_threshold)
    expected = found.summary()["cross_validation"]["rms_moving"]
    assert estimated.shape == (3, 6)
    assert estimated.mean(axis=0) == pytest.approx(expected, rel=0.03)


def test_the_order_of_a_gear_is_found_in_the_residual(arm):
    truth = "coulomb_viscous+ripple(160)"
    train = [record(arm, truth, (3.0, 5.0, 0.2, 0.15, 0.1), seed, seconds=20.0) for seed in (1, 2)]
    plain = identify(arm, train)
    data = training_set(plain, train)
    fitted = data.fit(plain.friction)
    assert strongest_order(data, fitted) == 160
    rippling = data.fit(friction_model(truth, arm.n_joints))
    before, after = (left_out_rms(data, f, 0.02).mean() for f in (fitted, rippling))
    assert after < 0.95 * before


def test_a_search_for_shapes_can_be_had_again(arm):
    train = [record(arm, "stribeck(vs=0.15, d=2.0)", (3.0, 6.0, 2.0, 0.2), seed, seconds=5.0) for seed in (1, 2)]
    result, friction = identify(arm, train), friction_model("stribeck", arm.n_joints)
    seeds = (DEFAULT_SEED, DEFAULT_SEED, None)
    chosen, again, default = (training_set(result, train, seed).fit(friction).friction for seed in seeds)
    assert chosen == again == default


def training_set(result: Identification, train: list[Recording], seed: int | None = None) -> FrictionData:
    """Return the data that shapes are fitted to, as ``identify`` prepares them."""
    segments = [prepared(r, result.model, result.effort, result.signals).segments for r in train]
    return FrictionData(result.model, result.base, segments, random_state=seed)


def test_stop_margins_are_checked(arm):
    with pytest.raises(InputError, match="stop_margin must be auto or seconds"):
        identify(arm, [record(arm, "arctan", ARCTAN, 1, seconds=5.0)], stop_margin=-1.0)
