"""Forces and their regressor of a 6-UPRU robot, many samples on one core, against Pinocchio on its opened tree.

Pinocchio closes no loops in inverse dynamics. The usual way around is taken: cut the legs off the platform, let
it compute the generalised forces of the tree, and lead them back by virtual work, G^T tau = J^T f, with G the
tree's rates for the platform's. The tree's motion and G are given to it for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.comparison import Comparison, best_time
from core import models
from core.dynamics import upru_kinematics
from core.dynamics.base_parameters import random_states
from core.models import SixUPRU

SAMPLES = 500
REPEATS = 60  # of a millisecond each
TASKS = ("6-UPRU inverse dynamics", "6-UPRU regressor, 6 x 29")
Array = np.ndarray


def run() -> Iterator[Comparison]:
    robot = models.catalogue("upru6")
    assert isinstance(robot, SixUPRU)
    states = random_states(robot, SAMPLES, 0)
    ours = (lambda: robot.motor_force(*states), lambda: robot.regressor(*states))
    results = [compute() for compute in ours]  # compiles, too
    times = [best_time(compute, items=SAMPLES, repeats=REPEATS) for compute in ours]
    try:
        import pinocchio
    except ImportError:
        for task, time in zip(TASKS, times, strict=True):
            yield Comparison(task, time, None, "Pinocchio (not installed)", None)
    else:
        peer, tree = f"Pinocchio {pinocchio.__version__}", _OpenedTree(pinocchio, robot, states)
        for task, time, result, other in zip(TASKS, times, results, (tree.forces, tree.regressors), strict=True):
            difference = float(np.abs(result - other()).max())
            theirs = best_time(other, items=SAMPLES, repeats=5)
            yield Comparison(task, time, theirs, peer, difference, "tree in a Python loop, led back by virtual work")
    lengths = robot.leg_lengths(states[0])
    yield Comparison(
        "6-UPRU pose from leg lengths",
        best_time(lambda: robot.forward_kinematics(lengths), items=SAMPLES, repeats=REPEATS),
        None,
        "",
        None,
        "each from the home pose",
    )


class _Motion(NamedTuple):
    """Of the tree, per sample: positions, rates, accelerations (N, 30), G (N, 30, 6), J^-T (N, 6, 6)."""

    q: Array
    v: Array
    a: Array
    rates: Array
    back: Array


class _OpenedTree:
    """Six legs of four joints (universal, sliding, revolute) and the platform, each from the base."""

    def __init__(self, pinocchio: Any, robot: SixUPRU, states: tuple[Array, Array, Array]) -> None:
        self.pinocchio, self.robot = pinocchio, robot
        self.motion = _tree_motion(robot, states)
        self.legs = _leg_states(robot, *states)
        self.model = self._build()
        self.data = self.model.createData()
        self.parameters = self._parameter_map()
        for joint, ten in enumerate((self.parameters @ robot.parameters).reshape(26, 10), start=1):
            if ten.any():
                ten[0] = ten[0] or 1.0  # of the cylinder: does nothing, as its end stands still
                self.model.inertias[joint] = pinocchio.Inertia.FromDynamicParameters(ten)

    def forces(self) -> Array:
        """Return motor forces (N, 6)."""
        q, v, a, rates, back = self.motion
        out = np.empty((len(q), 6))
        for k in range(len(q)):
            out[k] = back[k] @ (rates[k].T @ self.pinocchio.rnea(self.model, self.data, q[k], v[k], a[k]))
        return out

    def regressors(self) -> Array:
        """Return the regressor (N, 6, 29) of the forces at the sensors."""
        q, v, a, rates, back = self.motion
        out = np.empty((len(q), 6, 29))
        for k in range(len(q)):
            tree = self.pinocchio.computeJointTorqueRegressor(self.model, self.data, q[k], v[k], a[k])
            out[k] = back[k] @ (rates[k].T @ (tree @ self.parameters))
        n = self.legs[..., 3:6]
        out[..., 9] -= np.sum(n * (self.legs[..., 12:15] - self.robot.gravity), axis=2)  # the push rods' own
        out[..., 10] += np.sum(n * self.legs[..., 9:12], axis=2)
        return out

    def _build(self) -> Any:
        pinocchio, robot = self.pinocchio, self.robot
        model = pinocchio.Model()
        model.gravity.linear = robot.gravity
        home = _leg_states(robot, *(signal[None] for signal in (robot.home, np.zeros(6), np.zeros(6))))[0]
        for i in range(6):
            n, x = home[i, 3:6], robot.base_axes[i]
            y = np.cross(x, n) / np.linalg.norm(np.cross(x, n))
            first = np.column_stack([x, y, np.cross(x, y)])
            second = first.T @ np.column_stack([np.cross(y, n), y, n])
            joints = (
                (pinocchio.JointModelRX(), pinocchio.SE3(first, robot.base_joints[i])),
                (pinocchio.JointModelRY(), pinocchio.SE3(second, np.zeros(3))),
                (pinocchio.JointModelPZ(), pinocchio.SE3.Identity()),
                (pinocchio.JointModelRZ(), pinocchio.SE3.Identity()),
            )
            parent = 0
            for number, (joint, placement) in enumerate(joints):
                parent = model.addJoint(parent, joint, placement, f"leg{i}-{number}")
        parent = model.addJoint(0, pinocchio.JointModelTranslation(), pinocchio.SE3.Identity(), "place")
        model.addJoint(parent, pinocchio.JointModelSphericalZYX(), pinocchio.SE3.Identity(), "turn")
        return model

    def _parameter_map(self) -> Array:
        """Return (10 bodies, 29): the ten inertial parameters m mx my mz Ixx Ixy Iyy Ixz Iyz Izz of every body.

        L4 is on the second joint of a leg and gets all that only resists turning, L2 and L3 are on the third, L1
        on the fourth.
        """
        result = np.zeros((26, 10, 29))
        m, mz, across, axial = [0], [3], [4, 6], [9]
        for leg in range(0, 24, 4):
            cylinder, rod, upper = result[leg + 1], result[leg + 2], result[leg + 3]
            cylinder[mz, 11] = 1.0
            cylinder[axial, 2] = 1.0
            cylinder[across, 3] = cylinder[across, 12] = 1.0
            rod[m, 7] = rod[m, 9] = 1.0
            rod[mz, 8] = rod[mz, 10] = -1.0
            upper[m, 4] = upper[axial, 0] = 1.0
            upper[mz, 5] = -1.0
            upper[across, 1] = upper[across, 6] = 1.0
        platform = result[25]
        platform[range(4), range(13, 17)] = 1.0
        entries = (4, 5, 7, 6, 8, 9)  # where xx xy xz yy yz zz stand among the ten
        platform[entries, range(17, 23)] = 1.0
        platform[entries, range(23, 29)] = -1.0
        for row in (4, 6, 9):
            platform[row, [23, 26, 28]] += 1.0
        return result.reshape(260, 29)


def _tree_motion(robot: SixUPRU, states: tuple[Array, Array, Array]) -> _Motion:
    q, qd, qdd = states
    legs = _leg_states(robot, *states)
    angles = robot.joint_angles(q)[:, :, 0]
    positions = np.concatenate([angles, legs[..., 15:16], np.zeros_like(legs[..., :1])], axis=2)
    still = np.zeros_like(q)
    units = [_tree_rates(robot, _leg_states(robot, q, still + unit, still)) for unit in np.eye(6)]
    rates = np.concatenate([np.stack(units, axis=2), np.tile(np.eye(6), (len(q), 1, 1))], axis=1)
    n, bend = legs[..., 3:6], np.cross(legs[..., 3:6], legs[..., 9:12])
    turning = bend + legs[..., 19:20] * n + legs[..., 18:19] * legs[..., 6:9]
    accelerations = _tree(robot, legs, turning, legs[..., 17], legs[..., 21] - legs[..., 19])
    return _Motion(
        q=np.hstack([positions.reshape(len(q), 24), q]),
        v=np.hstack([_tree_rates(robot, legs), qd]),
        a=np.hstack([accelerations, qdd]),
        rates=rates,
        back=np.linalg.inv(rates[:, 2:24:4].transpose(0, 2, 1)),
    )


def _tree_rates(robot: SixUPRU, legs: Array) -> Array:
    turning = np.cross(legs[..., 3:6], legs[..., 6:9]) + legs[..., 18:19] * legs[..., 3:6]
    return _tree(robot, legs, turning, legs[..., 16], legs[..., 20] - legs[..., 18])


def _tree(robot: SixUPRU, legs: Array, turning: Array, sliding: Array, spinning: Array) -> Array:
    """Return values (N, 24) along the axes of the legs' joints."""
    second = np.cross(robot.base_axes, legs[..., 3:6])
    second /= np.linalg.norm(second, axis=-1, keepdims=True)
    along = [np.sum(turning * axis, axis=-1) for axis in (robot.base_axes, second)]
    return np.stack([*along, sliding, spinning], axis=-1).reshape(len(legs), 24)


def _leg_states(robot: SixUPRU, q: Array, qd: Array, qdd: Array) -> Array:
    out = np.empty((len(q), 6, upru_kinematics.LEG))
    upru_kinematics.leg_states(robot.arrays, q.copy(), qd, qdd, upru_kinematics.make_workspace(), out)
    return out
