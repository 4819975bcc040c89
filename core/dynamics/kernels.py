"""Numba kernels for serial chains: inverse and forward dynamics, mass matrix, joint frames.

Functions ending in ``_one`` take one sample and a ``Workspace``, allocate nothing and may be called from
other compiled code (a plant at 1-4 kHz). The others take (N, n) and write to ``out``. All work on inertial
parameters taken about the joint-frame origin, so no kernel ever divides by a mass.

Recursions: Featherstone, *Rigid Body Dynamics Algorithms* (2008), chapters 5 and 6, with classical instead
of spatial accelerations. ``contract`` lets LLVM fuse multiply and add, which changes rounding only.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from core.dynamics.chain_arrays import LINK_WORK, Array, ChainArrays, Workspace
from core.dynamics.regressor import regressor_blocks

__all__ = [
    "forward_dynamics",
    "forward_dynamics_one",
    "joint_frames",
    "mass_matrix",
    "mass_matrix_one",
    "regressor_blocks",
    "rnea",
    "rnea_one",
]

_compiled = njit(cache=True, error_model="numpy", fastmath={"contract"}, nogil=True)

Vector = tuple[float, float, float]


@_compiled
def _cross(a: Vector, b: Vector) -> Vector:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@_compiled
def _dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@_compiled
def _vector(row: Array, first: int) -> Vector:
    return (row[first], row[first + 1], row[first + 2])


@_compiled
def _store(row: Array, first: int, v: Vector) -> None:
    row[first] = v[0]
    row[first + 1] = v[1]
    row[first + 2] = v[2]


@_compiled
def _to_parent(link: Array, v: Vector) -> Vector:
    """Rotate v from the link's frame to its parent's; the link's row begins with R."""
    return (
        link[0] * v[0] + link[1] * v[1] + link[2] * v[2],
        link[3] * v[0] + link[4] * v[1] + link[5] * v[2],
        link[6] * v[0] + link[7] * v[1] + link[8] * v[2],
    )


@_compiled
def _from_parent(link: Array, v: Vector) -> Vector:
    return (
        link[0] * v[0] + link[3] * v[1] + link[6] * v[2],
        link[1] * v[0] + link[4] * v[1] + link[7] * v[2],
        link[2] * v[0] + link[5] * v[1] + link[8] * v[2],
    )


@_compiled
def _place(chain: ChainArrays, joint: int, q: float, link: Array) -> None:
    """Write rotation (0-8, row by row) and translation (9-11) of a joint frame in its parent's."""
    sine = math.sin(q)
    cosine = math.cos(q)
    for row in range(3):
        for column in range(3):
            link[3 * row + column] = (
                chain.rotation_constant[joint, row, column]
                + sine * chain.rotation_sin[joint, row, column]
                + cosine * chain.rotation_cos[joint, row, column]
            )
        link[9 + row] = chain.offset[joint, row] + q * chain.slide[joint, row]


@_compiled
def _inertia_times(phi: Array, v: Vector) -> Vector:
    """Rotational inertia of a row of ten inertial parameters times v."""
    return (
        phi[4] * v[0] + phi[5] * v[1] + phi[7] * v[2],
        phi[5] * v[0] + phi[6] * v[1] + phi[8] * v[2],
        phi[7] * v[0] + phi[8] * v[1] + phi[9] * v[2],
    )


@_compiled
def rnea_one(chain: ChainArrays, q: Array, qd: Array, qdd: Array, workspace: Workspace, out: Array) -> None:
    """Inverse dynamics of one sample: out (n,) = torque for q, qd, qdd (n,), rotor inertias included."""
    links = workspace.links
    n = q.shape[0]
    omega = (0.0, 0.0, 0.0)
    alpha = (0.0, 0.0, 0.0)
    a = (-chain.gravity[0], -chain.gravity[1], -chain.gravity[2])
    for j in range(n):
        link = links[j]
        _place(chain, j, q[j], link)
        p = _vector(link, 9)
        angular = _vector(chain.axis_angular[j], 0)
        linear = _vector(chain.axis_linear[j], 0)
        # the origin of frame j as a point of its parent
        tangential = _cross(alpha, p)
        centripetal = _cross(omega, _cross(omega, p))
        a = _from_parent(
            link,
            (
                a[0] + tangential[0] + centripetal[0],
                a[1] + tangential[1] + centripetal[1],
                a[2] + tangential[2] + centripetal[2],
            ),
        )
        omega = _from_parent(link, omega)
        alpha = _from_parent(link, alpha)
        gyroscopic = _cross(omega, angular)
        coriolis = _cross(omega, linear)
        alpha = (
            alpha[0] + gyroscopic[0] * qd[j] + angular[0] * qdd[j],
            alpha[1] + gyroscopic[1] * qd[j] + angular[1] * qdd[j],
            alpha[2] + gyroscopic[2] * qd[j] + angular[2] * qdd[j],
        )
        a = (
            a[0] + 2.0 * coriolis[0] * qd[j] + linear[0] * qdd[j],
            a[1] + 2.0 * coriolis[1] * qd[j] + linear[1] * qdd[j],
            a[2] + 2.0 * coriolis[2] * qd[j] + linear[2] * qdd[j],
        )
        omega = (
            omega[0] + angular[0] * qd[j],
            omega[1] + angular[1] * qd[j],
            omega[2] + angular[2] * qd[j],
        )
        phi = chain.inertial_parameters[j]
        mass = phi[0]
        h = _vector(phi, 1)
        euler = _cross(alpha, h)
        centrifugal = _cross(omega, _cross(omega, h))
        lever = _cross(h, a)
        inertial = _inertia_times(phi, alpha)
        gyro = _cross(omega, _inertia_times(phi, omega))
        for axis in range(3):
            link[12 + axis] = mass * a[axis] + euler[axis] + centrifugal[axis]
            link[15 + axis] = lever[axis] + inertial[axis] + gyro[axis]
    for j in range(n - 1, -1, -1):
        link = links[j]
        force = _vector(link, 12)
        moment = _vector(link, 15)
        out[j] = (
            _dot(_vector(chain.axis_angular[j], 0), moment)
            + _dot(_vector(chain.axis_linear[j], 0), force)
            + chain.rotor_inertia[j] * qdd[j]
        )
        if j > 0:
            force = _to_parent(link, force)
            moment = _to_parent(link, moment)
            lever = _cross(_vector(link, 9), force)
            for axis in range(3):
                links[j - 1, 12 + axis] += force[axis]
                links[j - 1, 15 + axis] += moment[axis] + lever[axis]


@_compiled
def _add_to_parent(link: Array, parent: Array) -> None:
    """Add a composite body (18-27 of its row), moved to the parent frame, to its parent."""
    m = link[18]
    h = _to_parent(link, _vector(link, 19))
    p = _vector(link, 9)
    # R I R^T, one rotated column at a time
    first = _to_parent(link, (link[22], link[23], link[25]))
    second = _to_parent(link, (link[23], link[24], link[26]))
    third = _to_parent(link, (link[25], link[26], link[27]))
    row_x = _to_parent(link, (first[0], second[0], third[0]))
    row_y = _to_parent(link, (first[1], second[1], third[1]))
    row_z = _to_parent(link, (first[2], second[2], third[2]))
    # parallel-axis term for first moments: 2 (p.h) 1 - p h^T - h p^T + m ((p.p) 1 - p p^T)
    trace = 2.0 * _dot(p, h) + m * _dot(p, p)
    parent[18] += m
    parent[19] += h[0] + m * p[0]
    parent[20] += h[1] + m * p[1]
    parent[21] += h[2] + m * p[2]
    parent[22] += row_x[0] + trace - (2.0 * h[0] + m * p[0]) * p[0]
    parent[23] += row_x[1] - h[0] * p[1] - h[1] * p[0] - m * p[0] * p[1]
    parent[24] += row_y[1] + trace - (2.0 * h[1] + m * p[1]) * p[1]
    parent[25] += row_x[2] - h[0] * p[2] - h[2] * p[0] - m * p[0] * p[2]
    parent[26] += row_y[2] - h[1] * p[2] - h[2] * p[1] - m * p[1] * p[2]
    parent[27] += row_z[2] + trace - (2.0 * h[2] + m * p[2]) * p[2]


@_compiled
def _composite_bodies(chain: ChainArrays, links: Array, out: Array) -> None:
    """Mass matrix (n, n) by composite bodies; R and p of every joint must be in ``links``."""
    n = links.shape[0]
    for j in range(n):
        for k in range(10):
            links[j, 18 + k] = chain.inertial_parameters[j, k]
    for j in range(n - 1, -1, -1):
        link = links[j]
        if j > 0:
            _add_to_parent(link, links[j - 1])
        angular = _vector(chain.axis_angular[j], 0)
        linear = _vector(chain.axis_linear[j], 0)
        h = _vector(link, 19)
        turning = _cross(angular, h)
        lever = _cross(h, linear)
        rotational = _inertia_times(link[18:], angular)
        force = (
            link[18] * linear[0] + turning[0],
            link[18] * linear[1] + turning[1],
            link[18] * linear[2] + turning[2],
        )
        moment = (rotational[0] + lever[0], rotational[1] + lever[1], rotational[2] + lever[2])
        out[j, j] = _dot(angular, moment) + _dot(linear, force) + chain.rotor_inertia[j]
        for i in range(j - 1, -1, -1):
            carrier = links[i + 1]
            force = _to_parent(carrier, force)
            moment = _to_parent(carrier, moment)
            lever = _cross(_vector(carrier, 9), force)
            moment = (moment[0] + lever[0], moment[1] + lever[1], moment[2] + lever[2])
            coupling = _dot(_vector(chain.axis_angular[i], 0), moment) + _dot(_vector(chain.axis_linear[i], 0), force)
            out[i, j] = coupling
            out[j, i] = coupling


@_compiled
def mass_matrix_one(chain: ChainArrays, q: Array, workspace: Workspace, out: Array) -> None:
    """Mass matrix of one sample, rotor inertias on the diagonal: out (n, n) for q (n,)."""
    for j in range(q.shape[0]):
        _place(chain, j, q[j], workspace.links[j])
    _composite_bodies(chain, workspace.links, out)


@_compiled
def _solve_positive_definite(matrix: Array, x: Array) -> bool:
    """Solve matrix x = x in place by Cholesky (lower triangle used); False if not positive definite."""
    n = x.shape[0]
    for j in range(n):
        diagonal = matrix[j, j]
        for k in range(j):
            diagonal -= matrix[j, k] * matrix[j, k]
        if not diagonal > 0.0:
            return False
        diagonal = math.sqrt(diagonal)
        matrix[j, j] = diagonal
        for i in range(j + 1, n):
            element = matrix[i, j]
            for k in range(j):
                element -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = element / diagonal
        element = x[j]
        for k in range(j):
            element -= matrix[j, k] * x[k]
        x[j] = element / diagonal
    for j in range(n - 1, -1, -1):
        element = x[j]
        for k in range(j + 1, n):
            element -= matrix[k, j] * x[k]
        x[j] = element / matrix[j, j]
    return True


@_compiled
def forward_dynamics_one(
    chain: ChainArrays, q: Array, qd: Array, tau: Array, workspace: Workspace, qdd_out: Array
) -> bool:
    """Acceleration of one sample: qdd_out (n,) for q, qd and joint torque tau (n,), friction not included.

    Returns False, and leaves ``qdd_out`` meaningless, where the mass matrix is not positive definite.
    """
    rnea_one(chain, q, qd, workspace.zeros, workspace, qdd_out)
    for j in range(q.shape[0]):
        qdd_out[j] = tau[j] - qdd_out[j]
    _composite_bodies(chain, workspace.links, workspace.mass)
    return _solve_positive_definite(workspace.mass, qdd_out)


@_compiled
def rnea(chain: ChainArrays, q: Array, qd: Array, qdd: Array, workspace: Workspace, out: Array) -> None:
    """Inverse dynamics of N samples: out (N, n) for q, qd, qdd (N, n)."""
    for k in range(q.shape[0]):
        rnea_one(chain, q[k], qd[k], qdd[k], workspace, out[k])


@_compiled
def mass_matrix(chain: ChainArrays, q: Array, workspace: Workspace, out: Array) -> None:
    """Mass matrices of N samples: out (N, n, n) for q (N, n)."""
    for k in range(q.shape[0]):
        mass_matrix_one(chain, q[k], workspace, out[k])


@_compiled
def forward_dynamics(chain: ChainArrays, q: Array, qd: Array, tau: Array, workspace: Workspace, out: Array) -> int:
    """Accelerations of N samples: out (N, n); returns the first sample that has none, or -1."""
    for k in range(q.shape[0]):
        if not forward_dynamics_one(chain, q[k], qd[k], tau[k], workspace, out[k]):
            return k
    return -1


@_compiled
def joint_frames(chain: ChainArrays, q: Array, out: Array) -> None:
    """Poses in the root frame: out (N, n + 1, 4, 4) for q (N, n); joint frames 1..n, then the tool's."""
    n = q.shape[1]
    local = np.zeros((4, 4))
    local[3, 3] = 1.0
    link = np.zeros(LINK_WORK)
    for k in range(q.shape[0]):
        for j in range(n + 1):
            if j < n:
                _place(chain, j, q[k, j], link)
                for row in range(3):
                    for column in range(3):
                        local[row, column] = link[3 * row + column]
                    local[row, 3] = link[9 + row]
                step = local
            else:
                step = chain.tool
            for row in range(4):
                for column in range(4):
                    if j == 0:
                        out[k, j, row, column] = step[row, column]
                    else:
                        element = 0.0
                        for inner in range(4):
                            element += out[k, j - 1, row, inner] * step[inner, column]
                        out[k, j, row, column] = element
