"""Rotations, link frames of the usual conventions, and inertial parameters seen from another frame."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_ROUNDING = 1e-9  # kg·m²


def rotation_about(axis: ArrayLike, angle: float) -> Array:
    """Return the (3, 3) rotation by ``angle`` rad about a unit ``axis`` (Rodrigues)."""
    x, y, z = np.asarray(axis, dtype=np.float64)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross)


def rotation_from_rpy(rpy: ArrayLike) -> Array:
    """Return Rz(yaw) Ry(pitch) Rx(roll), the meaning of ``rpy`` in URDF; rad."""
    roll, pitch, yaw = np.asarray(rpy, dtype=np.float64)
    turn_z, turn_y = rotation_about((0, 0, 1), yaw), rotation_about((0, 1, 0), pitch)
    return np.asarray(turn_z @ turn_y @ rotation_about((1, 0, 0), roll))


def rpy_from_rotation(rotation: ArrayLike) -> Array:
    """Return roll, pitch, yaw (rad) of a (3, 3) rotation, accurate also where the first and last axis align."""
    matrix = np.asarray(rotation, dtype=np.float64)
    yaw = np.arctan2(matrix[1, 0], matrix[0, 0])
    rest = rotation_about((0, 0, 1), -yaw) @ matrix
    return np.array([np.arctan2(-rest[1, 2], rest[1, 1]), np.arctan2(-rest[2, 0], rest[0, 0]), yaw])


def pose(rotation: ArrayLike, translation: ArrayLike) -> Array:
    """Return the homogeneous (4, 4) transform."""
    result = np.eye(4)
    result[:3, :3] = rotation
    result[:3, 3] = translation
    return result


def pose_from_xyz_rpy(xyz: ArrayLike, rpy: ArrayLike) -> Array:
    """Return the (4, 4) pose that URDF writes as ``<origin xyz= rpy=>``; m, rad."""
    return pose(rotation_from_rpy(rpy), xyz)


def screw_z(distance: float, angle: float) -> Array:
    """Return Rz(angle) Tz(distance): the joint half of a Denavit-Hartenberg transform; m, rad."""
    return pose(rotation_about((0, 0, 1), angle), (0.0, 0.0, distance))


def screw_x(distance: float, angle: float) -> Array:
    """Return Rx(angle) Tx(distance): the link half of a Denavit-Hartenberg transform; m, rad."""
    return pose(rotation_about((1, 0, 0), angle), (distance, 0.0, 0.0))


def inertial_from_com(mass: float, com: ArrayLike, inertia: ArrayLike) -> Array:
    """Return the ten inertial parameters from mass (kg), centre (m) and (3, 3) inertia about it (kg·m²)."""
    c = np.asarray(com, dtype=np.float64)
    about_origin = np.asarray(inertia, dtype=np.float64) + mass * (c @ c * np.eye(3) - np.outer(c, c))
    return _parameters(mass, mass * c, about_origin)


def is_possible_body(mass: float, inertia: ArrayLike) -> bool:
    """Return whether a body has this mass (kg) and (3, 3) inertia about its centre (kg·m²); rounding allowed."""
    tensor = np.asarray(inertia, dtype=np.float64)
    if not (np.isfinite(mass) and mass > 0.0) or not np.all(np.isfinite(tensor)) or not np.allclose(tensor, tensor.T):
        return False
    second_moments = 0.5 * np.trace(tensor) * np.eye(3) - tensor
    return bool(np.linalg.eigvalsh(second_moments)[0] >= -_ROUNDING)


def com_from_inertial(parameters: ArrayLike) -> tuple[float, Array, Array]:
    """Return mass (kg), centre (3,) (m) and inertia (3, 3) about it (kg·m²) of ten inertial parameters, m > 0."""
    m, mx, my, mz, xx, xy, yy, xz, yz, zz = np.asarray(parameters, dtype=np.float64)
    c = np.array([mx, my, mz]) / m
    about_origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return float(m), c, about_origin - m * (c @ c * np.eye(3) - np.outer(c, c))


def moved_inertial(transform: Array, parameters: Array) -> Array:
    """Return inertial parameters (10,) of the same body in another frame.

    ``transform`` (4, 4) is the pose of the present frame in the new one. The pseudo-inertia
    ``[[Sigma, h], [h^T, m]]`` with ``Sigma = tr(I)/2 1 - I`` moves by congruence (Wensing 2018), so no
    division by the mass is needed and a body without mass is no special case.
    """
    m, mx, my, mz, xx, xy, yy, xz, yz, zz = parameters
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    pseudo = np.empty((4, 4))
    pseudo[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    pseudo[:3, 3] = pseudo[3, :3] = (mx, my, mz)
    pseudo[3, 3] = m
    moved = transform @ pseudo @ transform.T
    sigma = moved[:3, :3]
    return _parameters(moved[3, 3], moved[:3, 3], np.trace(sigma) * np.eye(3) - sigma)


def _parameters(mass: float, first_moment: Array, inertia: Array) -> Array:
    xx, xy, yy = inertia[0, 0], inertia[0, 1], inertia[1, 1]
    return np.array([mass, *first_moment, xx, xy, yy, inertia[0, 2], inertia[1, 2], inertia[2, 2]])
