"""A 6-UPRU robot as a design sees it: trajectories of its platform, limits on its legs, joints and conditioning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from core.dynamics.base_parameters import reduce_to_base
from core.errors import InputError, KinematicsError
from core.excitation.excited_robot import pull_back_by_differences
from core.excitation.limits import DesignLimits
from core.excitation.motion_check import MotionReport, check_motion
from core.excitation.nonlinear_limits import Gradients, NonlinearLimits, Shortfall, TorqueLimits
from core.excitation.trajectory import Motion, TrajectorySamples
from core.models import JointLimits
from core.models.six_upru import COORDINATE_UNITS, SixUPRU
from core.models.upru_geometry import Conditioning

Array = NDArray[np.float64]

_SHORTEST = 0.1
"""m; the least that a limit on one side counts as, when margins are made shares of it."""
_GUARD = 0.004
"""Share of half a range, or of a limit, that a search keeps off on its coarse grid."""
_REACH = 0.25
"""How far random probes go from home: a share of the platform's size, and radians."""


class ExcitedPlatform:
    """A 6-UPRU robot whose trajectories are those of its platform's pose.

    ``DesignLimits.joints`` are limits of the legs: lengths, speeds, accelerations, and sensor forces as torque.
    """

    joints_move_alone = False

    def __init__(self, model: SixUPRU) -> None:
        self.model = model
        self._base = reduce_to_base(model)

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return self.model.coordinate_names

    @property
    def coordinate_units(self) -> tuple[str, ...]:
        return COORDINATE_UNITS

    @property
    def n_rows(self) -> int:
        return self.model.n_joints

    @property
    def base_names(self) -> tuple[str, ...]:
        return self._base.base_names

    def probes(self, count: int) -> Motion:
        random = np.random.default_rng(0)
        reach = _REACH * np.array([self.model.size] * 3 + [1.0] * 3)
        q, qd, qdd = random.uniform(-1.0, 1.0, (3, count, 6)) * reach
        return self.model.home + q, qd, qdd

    def base_regressor(self, motion: Motion) -> Array:
        return self.model.base_regressor(*motion)

    def pull_back(self, motion: Motion, weights: Array) -> Motion:
        return self.model.regressor_adjoint(*motion, weights)

    def coordinate_limits(self, limits: DesignLimits) -> JointLimits:
        return JointLimits.unlimited(6)

    def nonlinear_limits(self, limits: DesignLimits) -> tuple[NonlinearLimits, ...]:
        self._refuse_what_is_for_arms(limits)
        poses = np.stack([limits.start, limits.end])
        found: list[NonlinearLimits] = [
            group
            for group in (LegLimits(self.model, limits.joints, poses), PostureLimits(self.model, limits, poses))
            if group.labels
        ]
        if np.isfinite(limits.joints.torque).any():
            forces = TorqueLimits(
                lambda motion: self.model.inverse_dynamics(*motion),
                lambda motion, multipliers: pull_back_by_differences(
                    lambda moved: self.model.inverse_dynamics(*moved), motion, multipliers
                ),
                limits.joints.torque,
                self.model.joint_names,
                ("N",) * 6,
                poses,
            )
            found.append(forces)
        return tuple(found)

    def check(self, samples: TrajectorySamples, limits: DesignLimits) -> MotionReport:
        joints = {name: getattr(limits.joints, name) for name in limits.joints.names()}
        model = replace(
            self.model.with_limits(**joints), joint_angle_limit=limits.joint_angle, condition_limit=limits.condition
        )
        return check_motion(samples, model, in_motion=limits.in_motion)

    def digest(self) -> str:
        return self.model.digest()

    def _refuse_what_is_for_arms(self, limits: DesignLimits) -> None:
        if limits.workspace.limits_anything:
            raise InputError(
                f"{self.name}: box, floor and self_collision are limits of an arm; a platform is kept by its legs' "
                "position limits, joint_angle and condition",
                code="limits-invalid",
            )
        if np.isfinite(limits.joints.jerk).any():
            raise InputError(
                f"{self.name}: designs do not limit the jerk of legs; leave it out, and check the result's jerk",
                code="limits-invalid",
            )


class LegLimits(NonlinearLimits):
    """Lengths, speeds and accelerations of the legs; margins are shares of half the allowed range.

    A length that is limited on one side only has margins as shares of that limit.

    Parameters
    ----------
    poses : (K, 6) that are given, at rest: half of what they leave is kept where that is less than the guard.
    """

    kind = "leg"

    def __init__(self, model: SixUPRU, limits: JointLimits, poses: Array) -> None:
        self._model = model
        symmetric = (("speed", limits.velocity, "m/s"), ("acceleration", limits.acceleration, "m/s²"))
        bounds = [("length", limits.position_lower, limits.position_upper, "m")]
        bounds += [(kind, -bound, bound, unit) for kind, bound, unit in symmetric]
        lower, upper = (np.concatenate([bound[side] for bound in bounds]) for side in (1, 2))
        either = np.concatenate([upper, lower])
        limited = np.isfinite(either)
        both = np.tile(np.isfinite(lower) & np.isfinite(upper), 2)
        with np.errstate(invalid="ignore"):  # infinite on both sides; not looked at
            half = np.tile(0.5 * (upper - lower), 2)
        self._bound = either[limited]
        self._scale = np.where(both, half, np.maximum(np.abs(either), _SHORTEST))[limited]
        self._sign = np.repeat([1.0, -1.0], lower.size)[limited]
        self._signal = np.tile(np.arange(lower.size), 2)[limited]
        names = [(kind, j, unit) for kind, _, _, unit in bounds for j in range(6)]
        self._names = [names[i] for i in self._signal]
        self.labels = tuple(f"{kind} of leg {j + 1} ({model.joint_names[j]})" for kind, j, _ in self._names)
        still = np.zeros_like(poses)
        self.guard = np.clip(0.5 * self.margins((poses, still, still)).min(axis=0, initial=1.0), 0.0, _GUARD)

    def margins(self, motion: Motion) -> Array:
        try:
            signals = np.hstack(self._model.joint_motion(*motion))
        except KinematicsError:  # no pose of a robot that works
            return np.full((len(motion[0]), len(self.labels)), -1.0)
        return np.asarray(self._sign * (self._bound - signals[:, self._signal]) / self._scale)

    def gradients(self, motion: Motion) -> tuple[Array, Array, Array]:
        """Return the gradients of all margins, each (N, C, 6).

        With J the legs' Jacobian in q, d ld/dqd = d ldd/dqdd = J, and d ldd/dqd = 2 d ld/dq.
        """
        by_q = self._model.leg_slopes(*motion)
        by_qd, by_qdd = np.zeros_like(by_q), np.zeros_like(by_q)
        jacobian = by_q[:, :6]
        by_qd[:, 6:12], by_qd[:, 12:] = jacobian, 2.0 * by_q[:, 6:12]
        by_qdd[:, 12:] = jacobian
        share = (-self._sign / self._scale)[:, None]
        of_q, of_qd, of_qdd = (share * slope[:, self._signal] for slope in (by_q, by_qd, by_qdd))
        return of_q, of_qd, of_qdd

    def pull_back(self, motion: Motion, multipliers: Array) -> Motion:
        by_q, by_qd, by_qdd = (np.einsum("kc,kcj->kj", multipliers, s) for s in self.gradients(motion))
        return by_q, by_qd, by_qdd

    def shortfall(self, column: int, margin: float) -> Shortfall:
        _, leg, unit = self._names[column]
        excess = max(-margin, 0.0) * float(self._scale[column])
        text = f"{self.labels[column]}, {excess:.4g} {unit} more than allowed"
        return Shortfall(text, excess, {"joint": leg + 1})


class PostureLimits(NonlinearLimits):
    """Angles of the universal joints and conditioning of the Jacobian; margins are shares of the limit.

    Parameters
    ----------
    poses : as of ``LegLimits``.
    """

    kind = "posture"

    def __init__(self, model: SixUPRU, limits: DesignLimits, poses: Array) -> None:
        self._model = model
        self._angle, self._condition = limits.joint_angle, limits.condition
        ends, axes = ("lower", "upper"), ("first", "second")
        angles = [
            f"angle of the {end} joint of leg {leg + 1} ({model.joint_names[leg]}) about its {axis} axis"
            for leg in range(6)
            for end in ends
            for axis in axes
        ]
        self.labels = tuple(angles if np.isfinite(self._angle) else [])
        if np.isfinite(self._condition):
            self.labels += ("condition number of the Jacobian",)
        self._known: tuple[Array, tuple[Array, Conditioning | None]] | None = None
        still = np.zeros_like(poses)
        self.guard = np.clip(0.5 * self.margins((poses, still, still)).min(axis=0, initial=1.0), 0.0, _GUARD)

    def margins(self, motion: Motion) -> Array:
        try:
            angles, conditioning = self._posture(motion[0])
        except KinematicsError:  # no pose of a robot that works
            return np.full((len(motion[0]), len(self.labels)), -1.0)
        parts = [np.empty((len(motion[0]), 0))]
        if np.isfinite(self._angle):
            parts.append(1.0 - np.abs(angles) / self._angle)
        if conditioning is not None:
            parts.append(1.0 - conditioning.number[:, None] / self._condition)
        return np.hstack(parts)

    def _posture(self, q: Array) -> tuple[Array, Conditioning | None]:
        """Return the angles (N, 24), and the conditioning if it is limited; remembered, since slopes are asked next."""
        if self._known is None or self._known[0] is not q:
            limited = np.isfinite(self._condition)
            angles = self._model.joint_angles(q).reshape(len(q), 24)
            self._known = q, (angles, self._model.conditioning(q) if limited else None)
        return self._known[1]

    def gradients(self, motion: Motion) -> Gradients:
        return self._slopes(motion[0]), None, None

    def pull_back(self, motion: Motion, multipliers: Array) -> Motion:
        still = np.zeros_like(motion[0])
        return np.einsum("kc,kcj->kj", multipliers, self._slopes(motion[0])), still, still.copy()

    def _slopes(self, q: Array) -> Array:
        """Return the margins' derivatives (N, C, 6) in q."""
        angles, conditioning = self._posture(q)
        slopes, changes = self._model.posture_slopes(q)
        parts = [np.empty((len(q), 0, 6))]
        if np.isfinite(self._angle):
            parts.append(-np.sign(angles)[:, :, None] * slopes.reshape(len(q), 24, 6) / self._angle)
        if conditioning is not None:
            parts.append(-conditioning.slopes(changes)[:, None] / self._condition)
        return np.concatenate(parts, axis=1)

    def shortfall(self, column: int, margin: float) -> Shortfall:
        label = self.labels[column]
        if label.startswith("angle"):
            excess = max(-margin, 0.0) * self._angle
            return Shortfall(f"{label}, {excess:.4g} rad more than allowed", excess, {"joint": column // 4 + 1})
        excess = max(-margin, 0.0) * self._condition
        return Shortfall(f"{label}, {excess:.4g} above its limit", excess, {})
