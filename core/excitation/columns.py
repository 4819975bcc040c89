"""The columns whose condition a design improves: base parameters and, if wanted, joint friction."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from core.dynamics.base_parameters import BaseParameters, reduce_to_base
from core.dynamics.regressor_adjoint import regressor_adjoint
from core.errors import InputError
from core.models import SerialChain

Array = NDArray[np.float64]
Motion = tuple[Array, Array, Array]

FRICTION = ("coulomb_viscous",)
"""Friction models whose columns a criterion may have."""


class ObservationColumns:
    """The observation matrix of a motion, and what weights on it mean for the motion.

    Parameters
    ----------
    model : rotor inertias count where it has them among its parameters.
    friction : "coulomb_viscous" adds viscous, sign and offset columns of every joint; None adds nothing.
    joint_weights : (n,) factors on the rows of each joint, such as one over the torque noise.

    Raises
    ------
    InputError
        No columns are known for this friction model.
    """

    def __init__(self, model: SerialChain, friction: str | None = None, joint_weights: Array | None = None) -> None:
        if friction is not None and friction not in FRICTION:
            raise InputError(
                f"excitation cannot be designed for friction {friction!r}: its columns depend on more than its "
                f"linear parameters; there is {', '.join(FRICTION)}",
                code="friction-unknown",
            )
        self.model = model
        self.friction = friction
        self.base: BaseParameters = reduce_to_base(model)
        self.joint_weights = None if joint_weights is None else np.asarray(joint_weights, dtype=np.float64)

    @property
    def n_joints(self) -> int:
        return self.model.n_joints

    @property
    def names(self) -> tuple[str, ...]:
        """Names (p,): base parameters, then viscous, Coulomb and offset of joint 1, 2, ..."""
        joints = range(1, self.n_joints + 1) if self.friction else ()
        return self.base.base_names + tuple(f"{name}{j}" for j in joints for name in ("fv", "fc", "b"))

    @property
    def count(self) -> int:
        """Number of columns p."""
        return self.base.count + (3 * self.n_joints if self.friction else 0)

    @cached_property
    def gravity_dependent(self) -> NDArray[np.bool_]:
        """Which of the columns (p,) a robot at rest feels."""
        q = np.random.default_rng(0).uniform(-np.pi, np.pi, (50, self.n_joints))
        still = np.zeros_like(q)
        at_rest = np.abs(self.base.columns(self.model.regressor(q, still, still))).max(axis=(0, 1))
        out = np.zeros(self.count, dtype=bool)
        out[: self.base.count] = at_rest > 1e-9 * at_rest.max()
        return out

    def matrix(self, motion: Motion, sign_width: float | None = None) -> Array:
        """Return W (N n, p), rows sample by sample; ``sign(qd)`` is ``tanh(qd / sign_width)`` if given."""
        q, qd, qdd = motion
        rows, n, b = q.shape[0], self.n_joints, self.base.count
        out = np.zeros((rows, n, self.count))
        out[:, :, :b] = self.model.regressor(q, qd, qdd)[:, :, self.base.independent]
        if self.friction is not None:
            sign = np.sign(qd) if sign_width is None else np.tanh(qd / sign_width)
            for j in range(n):
                out[:, j, b + 3 * j] = qd[:, j]
                out[:, j, b + 3 * j + 1] = sign[:, j]
                out[:, j, b + 3 * j + 2] = 1.0
        if self.joint_weights is not None:
            out *= self.joint_weights[:, None]
        return out.reshape(rows * n, self.count)

    def pull_back(
        self, motion: Motion, weights: Array, sign_width: float, torque_multipliers: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Return dJ/dq, dJ/dqd, dJ/dqdd, each (N, n), for ``weights = dJ/dW`` (N n, p).

        ``torque_multipliers`` (N, n) add ``sum multipliers * tau`` to J, tau from the nominal model.
        """
        q, qd, qdd = motion
        rows, n, b = q.shape[0], self.n_joints, self.base.count
        weights = weights.reshape(rows, n, self.count)
        if self.joint_weights is not None:
            weights = weights * self.joint_weights[:, None]
        full = np.zeros((rows, n, self.model.n_parameters))
        full[:, :, self.base.independent] = weights[:, :, :b]
        if torque_multipliers is not None:
            full += torque_multipliers[:, :, None] * self.model.parameters
        out = np.empty_like(q), np.empty_like(q), np.empty_like(q)
        regressor_adjoint(self.model.arrays, q, qd, qdd, self.model.rotor_inertia is not None, full, *out)
        if self.friction is not None:
            slope = (1.0 - np.tanh(qd / sign_width) ** 2) / sign_width
            for j in range(n):
                out[1][:, j] += weights[:, j, b + 3 * j] + weights[:, j, b + 3 * j + 1] * slope[:, j]
        return out
