"""What a design has to know of a robot: the seam between excitation and models.

Everything here that searches, judges and verifies sees a robot as an ``ExcitedRobot``. ``ExcitedArm`` is one for
every serial chain. A robot of another kind takes part by another implementation, which is all it needs:

- its coordinates q (N, n) are what the families make trajectories of, the joints of an arm or the pose of a
  platform; ``coordinate_limits`` are limits on them, linear in the coefficients;
- its observation matrix may have any number r of rows per sample (joint torques, leg forces);
- whatever else it has to keep to (legs' lengths and speeds, conditioning of a Jacobian) comes as
  ``nonlinear_limits``;
- gradients come from ``pull_back``: in reverse mode if there is one, else ``pull_back_by_differences``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from core.dynamics.base_parameters import reduce_to_base
from core.dynamics.regressor_adjoint import regressor_adjoint
from core.excitation.column_kernels import spread_columns, take_columns
from core.excitation.limits import DesignLimits
from core.excitation.motion_check import MotionReport, check_motion, units_of
from core.excitation.nonlinear_limits import NonlinearLimits, TorqueLimits, WorkspaceLimits
from core.excitation.trajectory import Motion, TrajectorySamples
from core.excitation.workspace import WorkspaceCheck
from core.models import JointLimits, SerialChain

Array = NDArray[np.float64]

_STEP = 1e-6


class ExcitedRobot(Protocol):
    """A robot whose parameters a motion shall excite."""

    @property
    def name(self) -> str: ...

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """Names (n,) of what a trajectory moves."""
        ...

    @property
    def coordinate_units(self) -> tuple[str, ...]:
        """Units (n,) of the coordinates: "rad" or "m"."""
        ...

    @property
    def n_rows(self) -> int:
        """Number r of rows that a sample has in the observation matrix."""
        ...

    @property
    def base_names(self) -> tuple[str, ...]:
        """Names (b,) of the base parameters."""
        ...

    @property
    def joints_move_alone(self) -> bool:
        """Whether the coordinates are the joints, row j of a sample is joint j, and friction depends on its rate."""
        ...

    def probes(self, count: int) -> Motion:
        """Return so many random samples of motion from all over what the robot can do, always the same."""
        ...

    def base_regressor(self, motion: Motion) -> Array:
        """Return the observation matrix (N, r, b) of the base parameters."""
        ...

    def pull_back(self, motion: Motion, weights: Array) -> Motion:
        """Return dJ/dq, dJ/dqd, dJ/dqdd, each (N, n), for ``weights`` (N, r, b), dJ over d base regressor."""
        ...

    def coordinate_limits(self, limits: DesignLimits) -> JointLimits:
        """Return what of the limits is on the coordinates and their derivatives themselves."""
        ...

    def nonlinear_limits(self, limits: DesignLimits) -> tuple[NonlinearLimits, ...]:
        """Return all limits that are not linear in the coordinates and their derivatives."""
        ...

    def check(self, samples: TrajectorySamples, limits: DesignLimits) -> MotionReport:
        """Return the margins to every limit of a motion as it would be played; raise MotionLimitError."""
        ...

    def digest(self) -> str:
        """Return what identifies the model (hex)."""
        ...


class ExcitedArm:
    """A serial chain; whether it has rotor inertias decides whether they are among the parameters."""

    joints_move_alone = True

    def __init__(self, model: SerialChain) -> None:
        self.model = model
        self._base = reduce_to_base(model)

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return self.model.joint_names

    @property
    def coordinate_units(self) -> tuple[str, ...]:
        return tuple(position for position, _ in units_of(self.model))

    @property
    def n_rows(self) -> int:
        return self.model.n_joints

    @property
    def base_names(self) -> tuple[str, ...]:
        return self._base.base_names

    def probes(self, count: int) -> Motion:
        q, qd, qdd = np.random.default_rng(0).uniform(-np.pi, np.pi, (3, count, self.model.n_joints))
        return q, qd, qdd

    def base_regressor(self, motion: Motion) -> Array:
        return take_columns(self.model.regressor(*motion), self._base.independent)

    def pull_back(self, motion: Motion, weights: Array) -> Motion:
        return self._adjoint(motion, spread_columns(weights, self._base.independent, self.model.n_parameters))

    def coordinate_limits(self, limits: DesignLimits) -> JointLimits:
        return limits.joints

    def nonlinear_limits(self, limits: DesignLimits) -> tuple[NonlinearLimits, ...]:
        found: list[NonlinearLimits] = []
        poses = np.stack([limits.start, limits.end])
        if np.isfinite(limits.joints.torque).any():
            found.append(
                TorqueLimits(
                    lambda motion: self.model.inverse_dynamics(*motion),
                    lambda motion, multipliers: self._adjoint(motion, multipliers[:, :, None] * self.model.parameters),
                    limits.joints.torque,
                    self.model.joint_names,
                    tuple(effort for _, effort in units_of(self.model)),
                    poses,
                )
            )
        if limits.workspace.limits_anything:
            found.append(WorkspaceLimits(WorkspaceCheck(limits.workspace, self.model), poses))
        return tuple(found)

    def check(self, samples: TrajectorySamples, limits: DesignLimits) -> MotionReport:
        joints = {name: getattr(limits.joints, name) for name in limits.joints.names()}
        return check_motion(samples, self.model.with_limits(**joints), limits.workspace, in_motion=limits.in_motion)

    def digest(self) -> str:
        return self.model.digest()

    def _adjoint(self, motion: Motion, full: Array) -> Motion:
        """Return dJ/dq, dJ/dqd, dJ/dqdd for dJ over d regressor (N, n, p)."""
        q, qd, qdd = (np.ascontiguousarray(signal) for signal in motion)  # one type to compile for
        out = np.empty_like(q), np.empty_like(q), np.empty_like(q)
        regressor_adjoint(self.model.arrays, q, qd, qdd, self.model.rotor_inertia is not None, full, *out)
        return out


def pull_back_by_differences(function: Callable[[Motion], Array], motion: Motion, weights: Array) -> Motion:
    """Return the derivatives of ``sum weights * function(motion)`` in q, qd, qdd, each (N, n), by differences.

    ``function`` judges samples one by one, so 3 n + 1 evaluations tell all of them, whatever their number. Differences
    are taken to one side: what that costs is far below what a search can tell.

    Parameters
    ----------
    weights : (N, ...), the shape that ``function`` returns.
    """
    shape = motion[0].shape
    out = np.empty(shape), np.empty(shape), np.empty(shape)
    flat = weights.reshape(shape[0], -1)
    here = np.einsum("kc,kc->k", flat, function(motion).reshape(flat.shape))
    for order in range(3):
        for j in range(shape[1]):
            there = function(_moved(motion, order, j, _STEP)).reshape(flat.shape)
            out[order][:, j] = (np.einsum("kc,kc->k", flat, there) - here) / _STEP
    return out


def _moved(motion: Motion, order: int, j: int, step: float) -> Motion:
    """Return the motion with coordinate j, or a derivative of it, changed by a step."""
    q, qd, qdd = (signal.copy() if k == order else signal for k, signal in enumerate(motion))
    (q, qd, qdd)[order][:, j] += step
    return q, qd, qdd
