"""What fitted shapes of friction, and the load it grows with, owe to noise is in the uncertainty of a result."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from core.dynamics.base_parameters import reduce_to_base
from core.errors import InputError
from core.friction import FrictionModel, friction_model
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.pipelines.torque_model import TorqueModel
from core.recordings import Recording
from core.signals.motion import JointMotion

REPEATS = 4
NOISE = 3.0
PERIOD = 0.02
FRESH = 100.0 + PERIOD * np.arange(500)
"""Times of a motion that no recording holds."""
ARCTAN = friction_model("arctan(f4=6.0)", 6)


def coefficients(friction: FrictionModel) -> np.ndarray:
    """Values as large as those of a robot, smaller from joint to joint."""
    kinds = {"k1": 0.05, "k2": 1e-4, "h1": 0.2, "hl1": 1e-3}
    random = np.random.default_rng(3)
    sizes = [
        next((size for kind, size in kinds.items() if name.startswith(f"{kind}_")), 1.0) for name in friction.names
    ]
    joints = [int(name[-1]) for name in friction.names]
    return np.array([random.uniform(0.3, 1.0) * size * (9.0 - j) for size, j in zip(sizes, joints, strict=True)])


def torque(robot, friction: FrictionModel, states: tuple[np.ndarray, ...], period: float) -> np.ndarray:
    rigid = robot.model.inverse_dynamics(*states)
    return rigid + friction.torque(JointMotion(period, *states, link_torque=rigid), coefficients(friction))


def recordings(robot, repeat: int) -> list[Recording]:
    found = []
    for motion in (8, 9):
        t = 5.0 + 0.01 * np.arange(1200)
        states = robot.motion(t, motion)
        noise = NOISE * np.random.default_rng((motion, repeat)).normal(size=states[0].shape)
        current = (torque(robot, ARCTAN, states, 0.01) + noise) / robot.gains
        found.append(Recording(f"motion {motion}", t, *states[:2], current=current))
    return found


def test_the_band_holds_with_shapes_that_are_fitted(robot):
    states = robot.motion(FRESH, 70)
    moving = np.abs(states[1]) > 0.1
    truth = torque(robot, ARCTAN, states, PERIOD)
    inside, wider = [], []
    for repeat in range(REPEATS):
        fitted = identify(robot.model, recordings(robot, repeat), gains=robot.gains, friction="arctan")
        band = 1.96 * fitted.predict_std(*states, period=PERIOD)
        inside.append(np.abs(fitted.predict(*states, period=PERIOD) - truth)[moving] < band[moving])
        given = [f"arctan(f4={joint.shapes['arctan.f4']!r})" for joint in fitted.friction.joints]
        taken = identify(robot.model, recordings(robot, repeat), gains=robot.gains, friction=given)
        assert taken.shapes_ is None
        wider.append(np.mean(band) / np.mean(1.96 * taken.predict_std(*states, period=PERIOD)))
    assert 0.90 <= np.mean(inside) <= 0.99
    assert min(wider) > 1.02  # taking fitted shapes for given ones is too sure


@pytest.mark.parametrize("text", ["stribeck(vs=0.2, d=1.5)", "arctan(f4=6.0)+load(width=0.05)"])
def test_slopes_are_the_derivatives_of_the_torque(robot, text):
    friction = friction_model(text, 6)
    model = TorqueModel(robot.model, reduce_to_base(robot.model), friction)
    names = tuple(tuple(joint.shapes) for joint in friction.joints)
    motion = JointMotion(PERIOD, *robot.motion(FRESH, 70))
    parameters = np.append(model.base.project(robot.model.parameters), coefficients(friction))
    load = robot.model.inverse_dynamics(motion.q, motion.qd, motion.qdd)
    smooth = np.abs(load) > 0.1 * np.abs(load).max(axis=0)  # friction grows with the size of the load: it has a kink
    one_by_one = np.eye(parameters.size + sum(map(len, names)))
    std = np.stack([model.torque_std(motion, parameters, np.outer(unit, unit), names) for unit in one_by_one])
    for index, step in enumerate(1e-5 * np.maximum(np.abs(parameters), 1e-2)):
        ends = [
            model.torque(motion, parameters + sign * step * one_by_one[index, : parameters.size]) for sign in (1, -1)
        ]
        expected = np.abs(ends[0] - ends[1]) / (2.0 * step)
        assert std[index][smooth] == pytest.approx(expected[smooth], rel=2e-3, abs=2e-3)
    shape = friction.joints[2].shapes
    for offset, name in enumerate(names[2]):
        changed = [
            replace(friction, joints=tuple(j.with_shapes({name: shape[name] * factor}) for j in friction.joints))
            for factor in (np.exp(1e-3), np.exp(-1e-3))
        ]
        ends = [replace(model, friction=one).torque(motion, parameters)[:, 2] for one in changed]
        index = parameters.size + 2 * len(names[0]) + offset
        assert std[index, :, 2] == pytest.approx(np.abs(ends[0] - ends[1]) / 2e-3, rel=1e-2, abs=1e-3)


def test_it_is_kept_with_the_result_and_a_damaged_one_is_refused(robot):
    result = identify(robot.model, recordings(robot, 0), gains=robot.gains, friction="arctan")
    document = json.loads(json.dumps(result.to_document()))
    again = Identification.from_document(document)
    states = robot.motion(FRESH, 70)
    assert again.shape_names == (("arctan.f4",),) * 6
    assert again.predict_std(*states) == pytest.approx(result.predict_std(*states), rel=1e-12)
    for damage in ({"names": [["arctan.f5"]] * 6}, {"covariance": [[1.0]]}, {"cross": [[float("nan")] * 6] * 64}):
        with pytest.raises(InputError, match="damaged identification"):
            Identification.from_document({**document, "shapes": {**document["shapes"], **damage}})
