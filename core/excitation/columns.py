"""The columns whose condition a design improves: base parameters and, if wanted, joint friction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.excitation.column_kernels import add_own_slopes, put_own_columns, widen
from core.excitation.excited_platform import ExcitedPlatform
from core.excitation.excited_robot import ExcitedArm, ExcitedRobot
from core.excitation.trajectory import Motion
from core.friction import VelocityLaw, friction_model
from core.models import Mechanism, SerialChain, SixUPRU

Array = NDArray[np.float64]

_PROBES = 20


def excited_robot(robot: Mechanism | ExcitedRobot) -> ExcitedRobot:
    """Return a model of either kind as designs see it; what already is seen so is returned as it is."""
    if isinstance(robot, SerialChain):
        return ExcitedArm(robot)
    if isinstance(robot, SixUPRU):
        return ExcitedPlatform(robot)
    return cast(ExcitedRobot, robot)


class ObservationColumns:
    """The observation matrix of a motion, and what weights on it mean for the motion.

    Parameters
    ----------
    robot : a model, or a robot as designs see it. Rotor inertias count where they are
        among its parameters.
    friction : a velocity law of ``core.friction`` for all joints, or one per joint, adds the law's columns; shapes
        that are not given, as in ``arctan(f4=5)``, have their nominal values. None adds nothing.
    joint_weights : (r,) factors on the rows of each joint, such as one over the torque noise.

    Raises
    ------
    InputError
        The friction is unknown or depends on more than velocity, or the robot has no joint friction.
    """

    def __init__(
        self,
        robot: Mechanism | ExcitedRobot,
        friction: str | Sequence[str] | None = None,
        joint_weights: Array | None = None,
    ) -> None:
        self.robot = excited_robot(robot)
        self.joint_weights = None if joint_weights is None else _weights(joint_weights, self.robot)
        self._friction = _Friction(() if friction is None else _laws(friction, self.robot), len(self.robot.base_names))

    @property
    def n_joints(self) -> int:
        """Number n of coordinates that a trajectory moves."""
        return len(self.robot.coordinate_names)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names (p,): base parameters, then the friction parameters of joint 1, 2, ..."""
        return self.robot.base_names + self._friction.names

    @property
    def count(self) -> int:
        """Number of columns p."""
        return len(self.names)

    @cached_property
    def gravity_dependent(self) -> NDArray[np.bool_]:
        """Which of the columns (p,) a robot at rest feels."""
        q = self.robot.probes(_PROBES)[0]
        still = np.zeros_like(q)
        at_rest = np.abs(self.robot.base_regressor((q, still, still))).max(axis=(0, 1))
        friction = np.zeros(len(self._friction.names), dtype=bool)
        return np.concatenate([at_rest > 1e-9 * at_rest.max(), friction])

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        """Which columns (r, p) are not zero for every motion, row by row of a sample."""
        W = self.matrix(self.robot.probes(_PROBES)).reshape(_PROBES, -1, self.count)
        return np.asarray((W != 0.0).any(axis=0))

    def matrix(self, motion: Motion, sign_width: float = 0.0) -> Array:
        """Return W (N r, p), rows sample by sample; ``sign(qd)`` is ``tanh(qd / sign_width)`` if that is above 0."""
        base = self.robot.base_regressor(motion)
        out = self._friction.beside(base, motion[1], sign_width) if self._friction.names else base
        if self.joint_weights is not None:
            out = out * self.joint_weights[:, None]
        return out.reshape(-1, self.count)

    def pull_back(self, motion: Motion, weights: Array, sign_width: float) -> Motion:
        """Return dJ/dq, dJ/dqd, dJ/dqdd, each (N, n), for ``weights = dJ/dW`` (N r, p)."""
        weights = weights.reshape(len(motion[0]), -1, self.count)
        if self.joint_weights is not None:
            weights = weights * self.joint_weights[:, None]
        bars = self.robot.pull_back(motion, weights[:, :, : len(self.robot.base_names)])
        self._friction.add_pull_back(motion[1], weights, sign_width, bars[1])
        return bars


class _Friction:
    """Columns of velocity laws, one per joint, that follow ``first`` others. Joints of one law are handled at once."""

    def __init__(self, laws: Sequence[VelocityLaw], first: int) -> None:
        self.names = tuple(f"{name}{j}" for j, law in enumerate(laws, 1) for name in law.parameter_names)
        ends = first + np.cumsum([0, *(len(law.parameter_names) for law in laws)])
        self._groups: list[tuple[VelocityLaw, NDArray[np.intp], NDArray[np.intp]]] = []
        for law in dict.fromkeys(laws):
            joints = np.array([j for j, other in enumerate(laws) if other == law], dtype=np.intp)
            places = ends[joints][:, None] + np.arange(len(law.parameter_names))
            self._groups.append((law, joints, places))

    def beside(self, base: Array, qd: Array, sign_width: float) -> Array:
        """Return (N, n, p), friction columns at rates qd (N, n) to the right of a base regressor (N, n, b)."""
        out = widen(base, len(self.names))
        for law, joints, places in self._groups:
            put_own_columns(law.columns(qd[:, joints].ravel(), sign_width=sign_width), joints, places, out)
        return out

    def add_pull_back(self, qd: Array, weights: Array, sign_width: float, out: Array) -> None:
        """Add to out (N, n) what weights (N, n, p) on the columns mean for qd (N, n)."""
        for law, joints, places in self._groups:
            slopes = law.slopes(qd[:, joints].ravel(), sign_width=sign_width)
            add_own_slopes(weights, slopes, joints, places, out)


def _weights(weights: Array, robot: ExcitedRobot) -> Array:
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (robot.n_rows,) or not np.all(values > 0.0):
        raise InputError(f"joint_weights: {robot.n_rows} positive numbers are needed, got {values.tolist()}")
    return values


def _laws(friction: str | Sequence[str], robot: ExcitedRobot) -> tuple[VelocityLaw, ...]:
    if not robot.joints_move_alone:
        raise InputError(
            f"{robot.name} is not moved joint by joint, so its friction is no function of the rates of a trajectory; "
            "design for its base parameters alone",
            code="friction-invalid",
        )
    joints = friction_model(friction, len(robot.coordinate_names)).joints
    for joint in joints:
        if joint.terms:
            raise InputError(
                f"an excitation cannot be designed for friction {joint.composition!r}: the columns of "
                f"{', '.join(term.name for term in joint.terms)} depend on more than velocity; name the law alone, "
                f"{joint.law.name!r}",
                code="friction-invalid",
            )
    return tuple(joint.law for joint in joints)
