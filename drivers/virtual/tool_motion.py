"""Pose and velocity of the tool for the controller's TCP variables."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.dynamics.chain_arrays import ChainArrays
from core.dynamics.kernels import joint_frames

Array = NDArray[np.float64]


@njit(cache=True, error_model="numpy")
def tool_motion(chain: ChainArrays, frames: Array, q: Array, qd: Array, pose: Array, speed: Array) -> None:
    """Write the tool's pose (6,) [m, rotation vector] and speed (6,) [m/s, rad/s] in the root frame.

    ``frames`` (1, n + 1, 4, 4) is scratch. Revolute joints only, as the robot has no others.
    """
    n = q.shape[0]
    joint_frames(chain, q.reshape(1, n), frames)
    tool = frames[0, n]
    speed[:] = 0.0
    # the tool moves with the sum over joints of (axis x arm) qd
    for j in range(n):
        frame = frames[0, j]
        local = chain.axis_angular[j]
        ax = frame[0, 0] * local[0] + frame[0, 1] * local[1] + frame[0, 2] * local[2]
        ay = frame[1, 0] * local[0] + frame[1, 1] * local[1] + frame[1, 2] * local[2]
        az = frame[2, 0] * local[0] + frame[2, 1] * local[1] + frame[2, 2] * local[2]
        x = tool[0, 3] - frame[0, 3]
        y = tool[1, 3] - frame[1, 3]
        z = tool[2, 3] - frame[2, 3]
        speed[0] += qd[j] * (ay * z - az * y)
        speed[1] += qd[j] * (az * x - ax * z)
        speed[2] += qd[j] * (ax * y - ay * x)
        speed[3] += qd[j] * ax
        speed[4] += qd[j] * ay
        speed[5] += qd[j] * az
    for row in range(3):
        pose[row] = tool[row, 3]
    _rotation_vector(tool, pose[3:])


@njit(cache=True, error_model="numpy")
def _rotation_vector(rotation: Array, out: Array) -> None:
    """Write the rotation vector (3,) of a pose (4, 4), by way of its unit quaternion's largest part."""
    squares = np.empty(4)
    squares[0] = 1.0 + rotation[0, 0] + rotation[1, 1] + rotation[2, 2]
    for i in range(3):
        squares[i + 1] = 1.0 + 2.0 * rotation[i, i] - rotation[0, 0] - rotation[1, 1] - rotation[2, 2]
    largest = int(np.argmax(squares))
    unit = np.empty(4)
    scale = 0.5 / math.sqrt(squares[largest])
    unit[largest] = 0.5 * math.sqrt(squares[largest])
    if largest == 0:
        unit[1] = (rotation[2, 1] - rotation[1, 2]) * scale
        unit[2] = (rotation[0, 2] - rotation[2, 0]) * scale
        unit[3] = (rotation[1, 0] - rotation[0, 1]) * scale
    else:
        i = largest - 1
        j = (i + 1) % 3
        k = (i + 2) % 3
        unit[0] = (rotation[k, j] - rotation[j, k]) * scale
        unit[j + 1] = (rotation[j, i] + rotation[i, j]) * scale
        unit[k + 1] = (rotation[k, i] + rotation[i, k]) * scale
    if unit[0] < 0.0:
        unit = -unit
    sine = math.sqrt(unit[1] ** 2 + unit[2] ** 2 + unit[3] ** 2)
    factor = 2.0 if sine < 1e-12 else 2.0 * math.atan2(sine, unit[0]) / sine
    for i in range(3):
        out[i] = factor * unit[i + 1]
