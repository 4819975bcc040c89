"""Geometry of a 6-UPRU robot on arrays of many poses; what it says when a pose has no answer."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from core.dynamics import upru_kinematics as kinematics
from core.errors import InputError, KinematicsError

Array = NDArray[np.float64]


def cross(a: Array, b: Array) -> Array:
    """Return the vector product of (..., 3) and (..., 3); NumPy's own takes several times as long on few vectors."""
    x, y, z = a[..., 0], a[..., 1], a[..., 2]
    u, v, w = b[..., 0], b[..., 1], b[..., 2]
    return np.stack([y * w - z * v, z * u - x * w, x * v - y * u], axis=-1)


def jacobian(legs: Array) -> Array:
    """Return J (N, 6, 6), rows [n, e x n], of legs (N, 6, LEG)."""
    n = legs[..., 3:6]
    return np.concatenate([n, cross(legs[..., :3], n)], axis=-1)


class Conditioning(NamedTuple):
    """Singular value decomposition of scaled Jacobians: left (N, 6, 6), values (N, 6), right (N, 6, 6) transposed."""

    left: Array
    values: Array
    right: Array

    @classmethod
    def of(cls, scaled: Array) -> Self:
        return cls(*np.linalg.svd(scaled))

    @property
    def number(self) -> Array:
        """Condition numbers (N,); infinite where a Jacobian is singular."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.values[:, 0] / self.values[:, 5])

    def slopes(self, changes: Array) -> Array:
        """Return the derivatives (N, 6) of ``number`` for those of the Jacobians (N, 6, 6, 6), coordinate first."""
        most, least = (
            np.einsum("kcj,kj->kc", np.einsum("ki,kcij->kcj", self.left[:, :, i], changes), self.right[:, i])
            for i in (0, 5)
        )
        return np.asarray((most - self.number[:, None] * least) / self.values[:, 5, None])


def not_finite(states: Array) -> tuple[int, int]:
    """Return the first of states (N, 6) that is not finite as a kernel's (sample, fault)."""
    finite = np.all(np.isfinite(states), axis=1)
    return (-1, kinematics.NO_FAULT) if finite.all() else (int(np.argmin(finite)), kinematics.NOT_CONVERGED)


def check_fault(robot: str, legs: tuple[str, ...], fault: tuple[int, int], states: Array) -> None:
    """Raise what a kernel's (sample, fault) says about states (N, 6).

    Raises
    ------
    InputError
        The sample holds numbers that are not finite.
    KinematicsError
        The pose is singular or was not found.
    """
    sample, kind = fault
    if kind == kinematics.NO_FAULT:
        return
    place = f"{robot}: sample {sample + 1}"
    if not np.all(np.isfinite(states[sample])):
        raise InputError(f"{place} is not finite: {states[sample].tolist()}", sample=sample + 1)
    problem, code = _explain(kind, legs)
    raise KinematicsError(f"{place}: {problem}", code=code, sample=sample + 1)


def _explain(kind: int, legs: tuple[str, ...]) -> tuple[str, str]:
    if kind == kinematics.NOT_CONVERGED:
        return (
            "no pose with these leg lengths was found; they are impossible or too far from the start",
            "pose-not-found",
        )
    if kind == kinematics.SINGULAR_JACOBIAN:
        return "the pose is singular, the legs do not hold the platform", "pose-singular"
    if kind == kinematics.SINGULAR_ANGLES:
        return "beta is a right angle, where alpha and gamma cannot be told apart", "pose-singular"
    if kind >= kinematics.NO_LENGTH:
        return f"leg {legs[kind - kinematics.NO_LENGTH]!r} has no length", "pose-singular"
    if kind >= kinematics.PLATFORM_AXIS:
        where, leg = "platform", legs[kind - kinematics.PLATFORM_AXIS]
    else:
        where, leg = "base", legs[kind - kinematics.BASE_AXIS]
    return (
        f"leg {leg!r} is parallel to the axis of its universal joint that is fixed to the {where}, so its turning "
        "about itself is not determined",
        "pose-singular",
    )
