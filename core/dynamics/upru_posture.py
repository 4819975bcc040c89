"""What limits the poses of a 6-UPRU robot: Numba kernels for the angles of its universal joints, and their slopes.

A joint's first angle is about the axis fixed to base or platform, its second about the one fixed to the leg, which is
the first axis x direction; both count from the direction that the leg has at home.
"""

from __future__ import annotations

import math

import numpy as np

from core.dynamics.upru_kinematics import (
    NO_FAULT,
    NO_LENGTH,
    Array,
    ParallelArrays,
    Workspace,
    compiled,
    move_one,
    place_leg,
    place_platform,
)


@compiled
def _in_platform(platform: Array, x: float, y: float, z: float, out: Array) -> None:
    """Write R^T of a vector."""
    for column in range(3):
        out[column] = platform[column] * x + platform[3 + column] * y + platform[6 + column] * z


@compiled
def _flattened(axis: Array, n: Array, out: Array) -> float:
    """Write what of a direction is normal to the axis; return what is along it."""
    along: float = axis[0] * n[0] + axis[1] * n[1] + axis[2] * n[2]
    for row in range(3):
        out[row] = n[row] - along * axis[row]
    return along


@compiled
def joint_angles(robot: ParallelArrays, q: Array, home: Array, work: Workspace, out: Array) -> tuple[int, int]:
    """Write the angles (N, 6, 2, 2), rad, of poses q (N, 6): leg, lower and upper joint, axis. home is a pose (6,)."""
    before, along_before = np.zeros((6, 2, 3)), np.zeros((6, 2))
    now, flat = np.zeros(3), np.zeros(3)
    for k in range(-1, q.shape[0]):
        place_platform(home if k < 0 else q[k], work.platform)
        for i in range(6):
            leg = work.legs[i]
            if not place_leg(robot, i, work.platform, leg):
                return max(k, 0), NO_LENGTH + i
            for end in range(2):
                axis = robot.base_axes[i] if end == 0 else robot.platform_axes[i]
                if end == 0:
                    now[0], now[1], now[2] = leg[3], leg[4], leg[5]
                else:
                    _in_platform(work.platform, leg[3], leg[4], leg[5], now)
                along = _flattened(axis, now, flat)
                old = before[i, end]
                if k < 0:
                    along_before[i, end] = along
                    old[0], old[1], old[2] = flat[0], flat[1], flat[2]
                    continue
                sine = (
                    axis[0] * (old[1] * flat[2] - old[2] * flat[1])
                    + axis[1] * (old[2] * flat[0] - old[0] * flat[2])
                    + axis[2] * (old[0] * flat[1] - old[1] * flat[0])
                )
                first = math.atan2(sine, old[0] * flat[0] + old[1] * flat[1] + old[2] * flat[2])
                second = math.asin(along_before[i, end]) - math.asin(along)
                sign = 1.0 if end == 0 else -1.0
                out[k, i, end, 0], out[k, i, end, 1] = sign * first, sign * second
    return -1, NO_FAULT


@compiled
def posture_slopes(
    robot: ParallelArrays, q: Array, work: Workspace, angles: Array, jacobians: Array
) -> tuple[int, int]:
    """Write how angles of universal joints and the Jacobian change with each coordinate of poses q (N, 6).

    angles (N, 6, 2, 2, 6): leg, end, axis, coordinate; jacobians (N, 6, 6, 6): coordinate, then rows of the Jacobian
    with its angular columns divided by the robot's size.
    """
    still, unit = np.zeros(6), np.zeros(6)
    now, rate = np.zeros(3), np.zeros(3)
    scale = 1.0 / robot.size
    for k in range(q.shape[0]):
        for j in range(6):
            unit[j] = 1.0
            fault = move_one(robot, q[k], unit, still, work)
            unit[j] = 0.0
            if fault != NO_FAULT:
                return k, fault
            wx, wy, wz = work.platform[15], work.platform[16], work.platform[17]
            for i in range(6):
                leg = work.legs[i]
                ex, ey, ez = leg[0], leg[1], leg[2]
                nx, ny, nz = leg[3], leg[4], leg[5]
                rx, ry, rz = leg[6], leg[7], leg[8]
                fx, fy, fz = wy * ez - wz * ey, wz * ex - wx * ez, wx * ey - wy * ex
                row = jacobians[k, j, i]
                row[0], row[1], row[2] = rx, ry, rz
                row[3] = scale * (fy * nz - fz * ny + ey * rz - ez * ry)
                row[4] = scale * (fz * nx - fx * nz + ez * rx - ex * rz)
                row[5] = scale * (fx * ny - fy * nx + ex * ry - ey * rx)
                now[0], now[1], now[2] = nx, ny, nz
                rate[0], rate[1], rate[2] = rx, ry, rz
                first, second = _turning_rates(robot.base_axes[i], now, rate)
                angles[k, i, 0, 0, j], angles[k, i, 0, 1, j] = first, second
                _in_platform(work.platform, nx, ny, nz, now)
                sx, sy, sz = rx - (wy * nz - wz * ny), ry - (wz * nx - wx * nz), rz - (wx * ny - wy * nx)
                _in_platform(work.platform, sx, sy, sz, rate)
                first, second = _turning_rates(robot.platform_axes[i], now, rate)
                angles[k, i, 1, 0, j], angles[k, i, 1, 1, j] = -first, -second
    return -1, NO_FAULT


@compiled
def _turning_rates(axis: Array, now: Array, rate: Array) -> tuple[float, float]:
    """Return the rates of both angles of a universal joint for a direction that changes."""
    along = axis[0] * now[0] + axis[1] * now[1] + axis[2] * now[2]
    fx, fy, fz = now[0] - along * axis[0], now[1] - along * axis[1], now[2] - along * axis[2]
    cx, cy, cz = axis[1] * fz - axis[2] * fy, axis[2] * fx - axis[0] * fz, axis[0] * fy - axis[1] * fx
    first = (cx * rate[0] + cy * rate[1] + cz * rate[2]) / (fx * fx + fy * fy + fz * fz)
    outwards = axis[0] * rate[0] + axis[1] * rate[1] + axis[2] * rate[2]
    return first, -outwards / math.sqrt(1.0 - along * along)
