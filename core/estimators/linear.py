"""What estimators share: the least-squares solution, and what it says about the observations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.errors import IdentificationError
from core.estimators.identifiability import undetermined
from core.estimators.joint_factors import JointFactors

Array = NDArray[np.float64]

_SINGULAR = 1e10
"""Condition number, columns normalised, from which rounding decides on parameters."""
_EXACT = 1e-10
"""A joint is never trusted to more than this share of the torque: noise-free data have no variance."""


def solve(matrix: Array, effort: Array) -> tuple[Array, Array]:
    """Return the least-squares solution (p,) and the inverse (p, p) of the normal matrix."""
    size = np.linalg.norm(matrix, axis=0)
    orthogonal, triangle = np.linalg.qr(matrix / size)
    inverse_triangle = np.linalg.inv(triangle) / size[:, None]
    return inverse_triangle @ (orthogonal.T @ effort), inverse_triangle @ inverse_triangle.T


def residual_std(squared: Array, factors: JointFactors) -> Array:
    """Return the standard deviation (n,) of the residual for its sum of squares (n,)."""
    freedom = factors.n_rows - factors.n_parameters / factors.n_joints
    return np.asarray(np.sqrt(squared / max(freedom, 1.0)))


def least_deviation(factors: JointFactors) -> float:
    """Return the standard deviation below which a residual counts as rounding."""
    _, effort = factors.stacked()
    typical = float(np.linalg.norm(effort)) / max(factors.n_rows, 1) ** 0.5
    return float(_EXACT * max(typical, float(np.finfo(float).tiny)))


def condition_numbers(matrix: Array) -> tuple[float, float]:
    """Return the condition number, raw and with columns of length one."""
    normalised = matrix / np.linalg.norm(matrix, axis=0)
    return float(np.linalg.cond(matrix)), float(np.linalg.cond(normalised))


def check_determined(factors: JointFactors, names: Sequence[str] | None) -> None:
    """Refuse observations that leave parameters undetermined, and name those."""
    matrix, _ = factors.stacked()
    rows, parameters = factors.n_rows * factors.n_joints, factors.n_parameters
    labels = list(names) if names is not None else [f"parameter {i + 1}" for i in range(parameters)]
    if rows < parameters:
        raise IdentificationError(
            f"{rows} torque samples cannot determine {parameters} parameters; record longer",
            code="too-few-samples",
        )
    size = np.linalg.norm(matrix, axis=0)
    absent = [label for label, length in zip(labels, size, strict=True) if length == 0.0]
    weak = absent or undetermined(matrix / size, labels, _SINGULAR)
    if weak:
        why = "never act in these data" if absent else "cannot be told apart by these data"
        raise IdentificationError(
            f"{', '.join(weak)} {why}: the motion does not excite them; let all joints move, and in more varied ways",
            code="rank-deficient",
            parameters=weak,
        )
