"""Kinematics of a 6-UPRU parallel robot: Numba kernels from platform to legs, and back.

Source: Ni et al., *Dynamics Modeling and Base Dynamics Parameter Determination of 6-UPRU Parallel
Manipulators*, equations (1)-(22), in a shorter form. A body that points along the leg's direction n, whatever
its joints, turns with

    omega = n x n' + s n          s: spin about the leg
    s     = (v - n x n') . c / (n . c)

The spin follows from what a universal joint cannot do: turn about the normal of its two axes, r1 and r1 x n.
That normal has the direction c = r1 (r1 . n) - n, and n . c = (r1 . n)^2 - 1 vanishes where n is parallel to
r1. v is the angular velocity of what r1 is fixed to: zero for the lower joint, the platform's for the upper
one. Differentiated once more this gives the angular acceleration about the leg, eps . n = s'.

Functions ending in ``_one`` take one sample. The others take (N, 6) and return the first sample that has no
result and why, or -1 and ``NO_FAULT``. ``contract`` lets LLVM fuse multiply and add, which changes rounding only.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

PLATFORM = 24
"""Numbers kept of the platform: R 0-8 row by row, o 9-11, v 12-14, omega 15-17, a 18-20, eps 21-23."""

LEG = 28
"""Numbers kept per leg: e 0-2, n 3-5, n' 6-8, n'' 9-11, b'' 12-14, l 15, l' 16, l'' 17, lower spin 18 and its
derivative 19, upper spin 20 and its derivative 21, c x n / (n . c) 22-24 of the lower and c / (n . c) 25-27 of
the upper joint."""

NO_FAULT = 0
BASE_AXIS = 1  # .. 6: n of that leg is parallel to the axis fixed to the base
PLATFORM_AXIS = 7  # .. 12: n of that leg is parallel to the axis fixed to the platform
NO_LENGTH = 13  # .. 18: both joint centres of that leg coincide
SINGULAR_JACOBIAN = 19
SINGULAR_ANGLES = 20  # beta is a right angle
NOT_CONVERGED = 21

_SINGULAR = 1e-6  # of 1 - (r1 . n)^2, which is an angle of a milliradian; of a pivot of the scaled Jacobian
_ITERATIONS = 50
_TOLERANCE = 1e-12  # of the longest leg
_LARGEST_TURN = 0.5  # rad in one step of Newton's method

compiled = njit(cache=True, error_model="numpy", fastmath={"contract"}, nogil=True)


class ParallelArrays(NamedTuple):
    """A 6-UPRU robot as kernels take it; all arrays are float64, C-contiguous and writable, and only read.

    Attributes
    ----------
    base_joints, platform_joints : (6, 3) m, centres of the universal joints in {B} and in {p}.
    base_axes, platform_axes : (6, 3) unit vectors of the axes fixed to the base, in {B}, and to the platform,
        in {p}.
    parameters : (29,) standard parameters.
    gravity : (3,) m/s² in {B}.
    size : m, root mean square distance of the platform's joint centres from its origin; moments are divided
        by it where they are compared with forces.
    """

    base_joints: Array
    platform_joints: Array
    base_axes: Array
    platform_axes: Array
    parameters: Array
    gravity: Array
    size: float


class Workspace(NamedTuple):
    """Scratch memory of the kernels, so that they allocate nothing at run time."""

    platform: Array  # (PLATFORM,)
    legs: Array  # (6, LEG)
    inverse: Array  # (6, 6) of the scaled Jacobian
    pivots: NDArray[np.int64]  # (6,)
    step: Array  # (6,)
    vectors: Array  # (9,) omega, eps and a - g in {p}
    force: Array  # (3, 8) columns of one leg
    moment: Array  # (3, 6) columns of the platform's inertia
    psi: Array  # (6, 24) all different columns
    row: Array  # (24,)


def make_workspace() -> Workspace:
    """Return scratch memory; not to be shared between threads."""
    return Workspace(
        platform=np.zeros(PLATFORM),
        legs=np.zeros((6, LEG)),
        inverse=np.zeros((6, 6)),
        pivots=np.zeros(6, dtype=np.int64),
        step=np.zeros(6),
        vectors=np.zeros(9),
        force=np.zeros((3, 8)),
        moment=np.zeros((3, 6)),
        psi=np.zeros((6, 24)),
        row=np.zeros(24),
    )


@compiled
def place_platform(q: Array, platform: Array) -> None:
    """Write R and o of the pose q (6,) = x y z alpha beta gamma, R = Rz(alpha) Ry(beta) Rx(gamma)."""
    sa, ca = math.sin(q[3]), math.cos(q[3])
    sb, cb = math.sin(q[4]), math.cos(q[4])
    sc, cc = math.sin(q[5]), math.cos(q[5])
    platform[0] = ca * cb
    platform[1] = ca * sb * sc - sa * cc
    platform[2] = ca * sb * cc + sa * sc
    platform[3] = sa * cb
    platform[4] = sa * sb * sc + ca * cc
    platform[5] = sa * sb * cc - ca * sc
    platform[6] = -sb
    platform[7] = cb * sc
    platform[8] = cb * cc
    platform[9], platform[10], platform[11] = q[0], q[1], q[2]


@compiled
def _move_platform(q: Array, qd: Array, qdd: Array, platform: Array) -> None:
    """Write pose, twist and acceleration of the platform, (3)-(5)."""
    place_platform(q, platform)
    sa, ca = math.sin(q[3]), math.cos(q[3])
    sb, cb = math.sin(q[4]), math.cos(q[4])
    alpha, beta, gamma = qd[3], qd[4], qd[5]
    for row in range(3):
        platform[12 + row] = qd[row]
        platform[18 + row] = qdd[row]
    platform[15] = -sa * beta + ca * cb * gamma
    platform[16] = ca * beta + sa * cb * gamma
    platform[17] = alpha - sb * gamma
    # what the rates of the angles bring, then what their accelerations do
    platform[21] = -alpha * beta * ca - gamma * (alpha * sa * cb + beta * ca * sb)
    platform[22] = -alpha * beta * sa + gamma * (alpha * ca * cb - beta * sa * sb)
    platform[23] = -gamma * beta * cb
    platform[21] += -sa * qdd[4] + ca * cb * qdd[5]
    platform[22] += ca * qdd[4] + sa * cb * qdd[5]
    platform[23] += qdd[3] - sb * qdd[5]


@compiled
def _angle_rates(q: Array, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Return the rates of alpha, beta, gamma that make an angular velocity: (4) solved."""
    sine, cosine = math.sin(q[3]), math.cos(q[3])
    gamma = (cosine * x + sine * y) / math.cos(q[4])
    return (z + math.sin(q[4]) * gamma, cosine * y - sine * x, gamma)


@compiled
def place_leg(robot: ParallelArrays, i: int, platform: Array, leg: Array) -> bool:
    """Write e, n and l of leg i; return whether it has a length."""
    px, py, pz = robot.platform_joints[i, 0], robot.platform_joints[i, 1], robot.platform_joints[i, 2]
    ex = platform[0] * px + platform[1] * py + platform[2] * pz
    ey = platform[3] * px + platform[4] * py + platform[5] * pz
    ez = platform[6] * px + platform[7] * py + platform[8] * pz
    leg[0], leg[1], leg[2] = ex, ey, ez
    nx = platform[9] + ex - robot.base_joints[i, 0]
    ny = platform[10] + ey - robot.base_joints[i, 1]
    nz = platform[11] + ez - robot.base_joints[i, 2]
    length = math.sqrt(nx * nx + ny * ny + nz * nz)
    leg[3], leg[4], leg[5] = nx / length, ny / length, nz / length
    leg[15] = length
    return length > _SINGULAR * robot.size


@compiled
def _move_leg(  # noqa: PLR0915 - one chain of formulas
    robot: ParallelArrays, i: int, platform: Array, leg: Array
) -> int:
    """Write the motion of leg i for a platform's; return the fault."""
    if not place_leg(robot, i, platform, leg):
        return NO_LENGTH + i
    ex, ey, ez = leg[0], leg[1], leg[2]
    nx, ny, nz = leg[3], leg[4], leg[5]
    length = leg[15]
    inverse = 1.0 / length
    ox, oy, oz = platform[15], platform[16], platform[17]
    ax, ay, az = platform[21], platform[22], platform[23]
    # b' and b'' of the joint centre
    tx, ty, tz = oy * ez - oz * ey, oz * ex - ox * ez, ox * ey - oy * ex
    ux, uy, uz = platform[12] + tx, platform[13] + ty, platform[14] + tz
    bx = platform[18] + ay * ez - az * ey + oy * tz - oz * ty
    by = platform[19] + az * ex - ax * ez + oz * tx - ox * tz
    bz = platform[20] + ax * ey - ay * ex + ox * ty - oy * tx
    leg[12], leg[13], leg[14] = bx, by, bz
    rate = nx * ux + ny * uy + nz * uz
    dx, dy, dz = (ux - rate * nx) * inverse, (uy - rate * ny) * inverse, (uz - rate * nz) * inverse
    acceleration = nx * bx + ny * by + nz * bz + length * (dx * dx + dy * dy + dz * dz)
    fx = (bx - acceleration * nx - 2.0 * rate * dx) * inverse
    fy = (by - acceleration * ny - 2.0 * rate * dy) * inverse
    fz = (bz - acceleration * nz - 2.0 * rate * dz) * inverse
    leg[6], leg[7], leg[8] = dx, dy, dz
    leg[9], leg[10], leg[11] = fx, fy, fz
    leg[16], leg[17] = rate, acceleration
    # n x n' and n x n''
    wx, wy, wz = ny * dz - nz * dy, nz * dx - nx * dz, nx * dy - ny * dx
    hx, hy, hz = ny * fz - nz * fy, nz * fx - nx * fz, nx * fy - ny * fx
    # lower joint: r1 stands still
    rx, ry, rz = robot.base_axes[i, 0], robot.base_axes[i, 1], robot.base_axes[i, 2]
    k = rx * nx + ry * ny + rz * nz
    if not 1.0 - k * k > _SINGULAR:
        return BASE_AXIS + i
    scale = 1.0 / (k * k - 1.0)  # 1 / (n . c)
    grown = rx * dx + ry * dy + rz * dz
    turning = rx * wx + ry * wy + rz * wz
    spin = -k * turning * scale
    leg[18] = spin
    # numerator -(n x n') . c = -k r1 . (n x n'), since n x n' is normal to n
    leg[19] = (-grown * turning - k * (rx * hx + ry * hy + rz * hz) - spin * 2.0 * k * grown) * scale
    along = k * scale
    leg[22], leg[23], leg[24] = along * (ry * nz - rz * ny), along * (rz * nx - rx * nz), along * (rx * ny - ry * nx)
    # upper joint: r1 moves with the platform
    px, py, pz = robot.platform_axes[i, 0], robot.platform_axes[i, 1], robot.platform_axes[i, 2]
    rx = platform[0] * px + platform[1] * py + platform[2] * pz
    ry = platform[3] * px + platform[4] * py + platform[5] * pz
    rz = platform[6] * px + platform[7] * py + platform[8] * pz
    k = rx * nx + ry * ny + rz * nz
    if not 1.0 - k * k > _SINGULAR:
        return PLATFORM_AXIS + i
    scale = 1.0 / (k * k - 1.0)
    vx, vy, vz = oy * rz - oz * ry, oz * rx - ox * rz, ox * ry - oy * rx  # r1'
    grown = rx * dx + ry * dy + rz * dz + vx * nx + vy * ny + vz * nz
    cx, cy, cz = k * rx - nx, k * ry - ny, k * rz - nz
    gx, gy, gz = grown * rx + k * vx - dx, grown * ry + k * vy - dy, grown * rz + k * vz - dz  # c'
    wx, wy, wz = ox - wx, oy - wy, oz - wz
    spin = (wx * cx + wy * cy + wz * cz) * scale
    leg[20] = spin
    # (omega - n x n')' = eps - n x n''
    change = (ax - hx) * cx + (ay - hy) * cy + (az - hz) * cz + wx * gx + wy * gy + wz * gz
    leg[21] = (change - spin * 2.0 * k * grown) * scale
    leg[25], leg[26], leg[27] = cx * scale, cy * scale, cz * scale
    return NO_FAULT


@compiled
def invert_jacobian(robot: ParallelArrays, work: Workspace) -> bool:  # noqa: PLR0912 - loops over six rows
    """Write the inverse of the scaled Jacobian, rows n and e x n / size; return whether it exists.

    Gauss-Jordan elimination in place, with row pivoting.
    """
    legs, a, pivots = work.legs, work.inverse, work.pivots
    scale = 1.0 / robot.size
    for i in range(6):
        ex, ey, ez = legs[i, 0], legs[i, 1], legs[i, 2]
        nx, ny, nz = legs[i, 3], legs[i, 4], legs[i, 5]
        a[i, 0], a[i, 1], a[i, 2] = nx, ny, nz
        a[i, 3], a[i, 4], a[i, 5] = (
            scale * (ey * nz - ez * ny),
            scale * (ez * nx - ex * nz),
            scale * (ex * ny - ey * nx),
        )
    for j in range(6):
        best = j
        for i in range(j + 1, 6):
            if abs(a[i, j]) > abs(a[best, j]):
                best = i
        pivots[j] = best
        pivot = a[best, j]
        if not abs(pivot) > _SINGULAR:
            return False
        a[best, j] = a[j, j]
        a[j, j] = 1.0
        for column in range(6):
            if column != j:
                a[j, column], a[best, column] = a[best, column], a[j, column]
            a[j, column] /= pivot
        for i in range(6):
            if i != j:
                factor = a[i, j]
                a[i, j] = 0.0
                for column in range(6):
                    a[i, column] -= factor * a[j, column]
    for j in range(5, -1, -1):
        best = pivots[j]
        if best != j:
            for i in range(6):
                a[i, j], a[i, best] = a[i, best], a[i, j]
    return True


@compiled
def move_one(robot: ParallelArrays, q: Array, qd: Array, qdd: Array, work: Workspace) -> int:
    """Write the motion of platform and legs of one sample; return the first fault."""
    _move_platform(q, qd, qdd, work.platform)
    for i in range(6):
        fault = _move_leg(robot, i, work.platform, work.legs[i])
        if fault != NO_FAULT:
            return fault
    return NO_FAULT


@compiled
def leg_states(robot: ParallelArrays, q: Array, qd: Array, qdd: Array, work: Workspace, out: Array) -> tuple[int, int]:
    """Write the motion of all legs (N, 6, LEG) for q, qd, qdd (N, 6)."""
    for k in range(q.shape[0]):
        fault = move_one(robot, q[k], qd[k], qdd[k], work)
        if fault != NO_FAULT:
            return k, fault
        for i in range(6):
            for entry in range(LEG):
                out[k, i, entry] = work.legs[i, entry]
    return -1, NO_FAULT


@compiled
def _newton_step(robot: ParallelArrays, lengths: Array, pose: Array, work: Workspace) -> float:
    """Improve a pose; return the largest error of length before it, m, or minus the fault."""
    legs, inverse = work.legs, work.inverse
    place_platform(pose, work.platform)
    for i in range(6):
        if not place_leg(robot, i, work.platform, legs[i]):
            return -float(NO_LENGTH + i)
    if not abs(math.cos(pose[4])) > _SINGULAR:
        return -float(SINGULAR_ANGLES)
    if not invert_jacobian(robot, work):
        return -float(SINGULAR_JACOBIAN)
    step = work.step
    for row in range(6):
        step[row] = 0.0
    error = 0.0
    for i in range(6):
        missing = lengths[i] - legs[i, 15]
        error = max(error, abs(missing))
        for row in range(6):
            step[row] += inverse[row, i] * missing
    x, y, z = step[3] / robot.size, step[4] / robot.size, step[5] / robot.size
    turn = math.sqrt(x * x + y * y + z * z)
    share = min(1.0, _LARGEST_TURN / turn) if turn > 0.0 else 1.0
    angles = _angle_rates(pose, x, y, z)
    for row in range(3):
        pose[row] += share * step[row]
        pose[3 + row] += share * angles[row]
    return error


@compiled
def poses(
    robot: ParallelArrays, lengths: Array, start: Array, successive: bool, work: Workspace, q: Array
) -> tuple[int, int]:
    """Write the poses (N, 6) at which the legs have given lengths (N, 6): Newton's method on l(q).

    start (N, 6) are first guesses; with ``successive`` only the first of them counts, and every other sample
    starts from the one before.
    """
    legs = work.legs
    for k in range(lengths.shape[0]):
        pose = q[k]
        for row in range(6):
            pose[row] = q[k - 1, row] if successive and k > 0 else start[k, row]
        fault = NOT_CONVERGED
        for _ in range(_ITERATIONS):
            error = _newton_step(robot, lengths[k], pose, work)
            if error < 0.0:
                return k, int(-error)
            if error <= _TOLERANCE * legs[0, 15]:  # and the step just made squares what is left
                fault = NO_FAULT
                break
        if fault != NO_FAULT:
            return k, fault
    return -1, NO_FAULT


@compiled
def platform_rates(
    robot: ParallelArrays, q: Array, rates: Array, accelerations: Array, work: Workspace, qd: Array, qdd: Array
) -> tuple[int, int]:
    """Write qd, qdd (N, 6) at poses q (N, 6) for rates and accelerations (N, 6) of the legs, (8) and (10)."""
    legs, inverse, platform, step = work.legs, work.inverse, work.platform, work.step
    still = np.zeros(6)
    for k in range(q.shape[0]):
        place_platform(q[k], platform)
        for i in range(6):
            if not place_leg(robot, i, platform, legs[i]):
                return k, NO_LENGTH + i
        if not abs(math.cos(q[k, 4])) > _SINGULAR:
            return k, SINGULAR_ANGLES
        if not invert_jacobian(robot, work):
            return k, SINGULAR_JACOBIAN
        for order in range(2):
            for row in range(6):
                step[row] = 0.0
                for i in range(6):
                    missing = rates[k, i] if order == 0 else accelerations[k, i] - legs[i, 17]
                    step[row] += inverse[row, i] * missing
            result = qd[k] if order == 0 else qdd[k]
            angles = _angle_rates(q[k], step[3] / robot.size, step[4] / robot.size, step[5] / robot.size)
            for row in range(3):
                result[row] = step[row]
                result[3 + row] = angles[row]
            if order == 0:
                fault = move_one(robot, q[k], qd[k], still, work)  # l'' is now what qd alone brings
                if fault != NO_FAULT:
                    return k, fault
    return -1, NO_FAULT
