"""The inverse-dynamics regressor of a serial chain, many samples at a time.

    tau_i = sum over links j >= i of  w_ij . f_j + u_ij . n_j

with f_j, n_j the inertial force and moment of link j at its joint-frame origin, linear in the link's ten
parameters, and (u_ij, w_ij) the axis of joint i as a motion of link j (angular part, and velocity of the
origin of frame j), both in frame j. Carrying the six numbers of each axis outward costs a fraction of
carrying the 6 x 10 body regressor inward, which is the usual way (e.g. Garofalo, Ott, Albu-Schäffer 2013).

Samples are handled in blocks, stored number by number (structure of arrays), so that the innermost loop runs
over samples and LLVM turns it into vector instructions.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from core.dynamics.chain_arrays import Array, ChainArrays

BLOCK = 32


@njit(cache=True, error_model="numpy", fastmath={"contract"}, nogil=True)
def regressor_blocks(  # noqa: PLR0912, PLR0915 - one loop nest, so that blocks stay in the first-level cache
    chain: ChainArrays, q: Array, qd: Array, qdd: Array, rotors: bool, out: Array
) -> None:
    """Write the regressor of N samples, zeros included, to out (N, n, 10 n); (N, n, 11 n) with ``rotors``.

    q, qd, qdd are (N, n). Columns come link by link in the order of the inertial parameters, then one column
    per rotor. ``contract`` lets LLVM fuse multiply and add, which changes rounding only.
    """
    n = q.shape[1]
    state = np.zeros((9, BLOCK))  # of the link in work: omega, alpha, a
    motion = np.zeros((12, BLOCK))  # of the joint in work: R row by row, then p
    gradient = np.zeros((9, BLOCK))  # of the link in work: d f / d (first moment), row by row
    axes = np.zeros((n, 6, BLOCK))  # u, w of every joint so far, in the frame of the link in work
    columns = np.zeros((10, BLOCK))
    signals = np.zeros((5, BLOCK))  # sin q, cos q, q, qd, qdd
    for start in range(0, q.shape[0], BLOCK):
        count = min(BLOCK, q.shape[0] - start)
        for k in range(BLOCK):
            for row in range(6):
                state[row, k] = 0.0
            for row in range(3):
                state[6 + row, k] = -chain.gravity[row]
        for j in range(n):
            for k in range(count):
                position = q[start + k, j]
                signals[0, k] = math.sin(position)
                signals[1, k] = math.cos(position)
                signals[2, k] = position
                signals[3, k] = qd[start + k, j]
                signals[4, k] = qdd[start + k, j]
            for row in range(3):
                for column in range(3):
                    constant = chain.rotation_constant[j, row, column]
                    with_sine = chain.rotation_sin[j, row, column]
                    with_cosine = chain.rotation_cos[j, row, column]
                    for k in range(BLOCK):
                        motion[3 * row + column, k] = constant + with_sine * signals[0, k] + with_cosine * signals[1, k]
                offset = chain.offset[j, row]
                slide = chain.slide[j, row]
                for k in range(BLOCK):
                    motion[9 + row, k] = offset + slide * signals[2, k]
            ux = chain.axis_angular[j, 0]
            uy = chain.axis_angular[j, 1]
            uz = chain.axis_angular[j, 2]
            wx = chain.axis_linear[j, 0]
            wy = chain.axis_linear[j, 1]
            wz = chain.axis_linear[j, 2]
            for k in range(BLOCK):
                r00, r01, r02 = motion[0, k], motion[1, k], motion[2, k]
                r10, r11, r12 = motion[3, k], motion[4, k], motion[5, k]
                r20, r21, r22 = motion[6, k], motion[7, k], motion[8, k]
                px, py, pz = motion[9, k], motion[10, k], motion[11, k]
                ox, oy, oz = state[0, k], state[1, k], state[2, k]
                lx, ly, lz = state[3, k], state[4, k], state[5, k]
                rate, acceleration = signals[3, k], signals[4, k]
                # acceleration of the origin of frame j as a point of its parent
                vx, vy, vz = oy * pz - oz * py, oz * px - ox * pz, ox * py - oy * px
                sx = state[6, k] + ly * pz - lz * py + oy * vz - oz * vy
                sy = state[7, k] + lz * px - lx * pz + oz * vx - ox * vz
                sz = state[8, k] + lx * py - ly * px + ox * vy - oy * vx
                ax = r00 * sx + r10 * sy + r20 * sz
                ay = r01 * sx + r11 * sy + r21 * sz
                az = r02 * sx + r12 * sy + r22 * sz
                tx = r00 * ox + r10 * oy + r20 * oz
                ty = r01 * ox + r11 * oy + r21 * oz
                tz = r02 * ox + r12 * oy + r22 * oz
                bx = r00 * lx + r10 * ly + r20 * lz + (ty * uz - tz * uy) * rate + ux * acceleration
                by = r01 * lx + r11 * ly + r21 * lz + (tz * ux - tx * uz) * rate + uy * acceleration
                bz = r02 * lx + r12 * ly + r22 * lz + (tx * uy - ty * ux) * rate + uz * acceleration
                double = 2.0 * rate
                ax += (ty * wz - tz * wy) * double + wx * acceleration
                ay += (tz * wx - tx * wz) * double + wy * acceleration
                az += (tx * wy - ty * wx) * double + wz * acceleration
                tx += ux * rate
                ty += uy * rate
                tz += uz * rate
                state[0, k], state[1, k], state[2, k] = tx, ty, tz
                state[3, k], state[4, k], state[5, k] = bx, by, bz
                state[6, k], state[7, k], state[8, k] = ax, ay, az
                gradient[0, k] = -ty * ty - tz * tz
                gradient[1, k] = tx * ty - bz
                gradient[2, k] = tx * tz + by
                gradient[3, k] = tx * ty + bz
                gradient[4, k] = -tx * tx - tz * tz
                gradient[5, k] = ty * tz - bx
                gradient[6, k] = tx * tz - by
                gradient[7, k] = ty * tz + bx
                gradient[8, k] = -tx * tx - ty * ty
            for i in range(j + 1):
                axis = axes[i]
                if i == j:
                    for k in range(BLOCK):
                        axis[0, k] = ux
                        axis[1, k] = uy
                        axis[2, k] = uz
                        axis[3, k] = wx
                        axis[4, k] = wy
                        axis[5, k] = wz
                else:
                    for k in range(BLOCK):
                        dx, dy, dz = axis[0, k], axis[1, k], axis[2, k]
                        px, py, pz = motion[9, k], motion[10, k], motion[11, k]
                        ex = axis[3, k] + dy * pz - dz * py
                        ey = axis[4, k] + dz * px - dx * pz
                        ez = axis[5, k] + dx * py - dy * px
                        axis[0, k] = motion[0, k] * dx + motion[3, k] * dy + motion[6, k] * dz
                        axis[1, k] = motion[1, k] * dx + motion[4, k] * dy + motion[7, k] * dz
                        axis[2, k] = motion[2, k] * dx + motion[5, k] * dy + motion[8, k] * dz
                        axis[3, k] = motion[0, k] * ex + motion[3, k] * ey + motion[6, k] * ez
                        axis[4, k] = motion[1, k] * ex + motion[4, k] * ey + motion[7, k] * ez
                        axis[5, k] = motion[2, k] * ex + motion[5, k] * ey + motion[8, k] * ez
                for k in range(BLOCK):
                    dx, dy, dz = axis[0, k], axis[1, k], axis[2, k]
                    ex, ey, ez = axis[3, k], axis[4, k], axis[5, k]
                    ox, oy, oz = state[0, k], state[1, k], state[2, k]
                    lx, ly, lz = state[3, k], state[4, k], state[5, k]
                    ax, ay, az = state[6, k], state[7, k], state[8, k]
                    # u . (I alpha + omega x I omega) = u^T I alpha + (u x omega)^T I omega
                    cx, cy, cz = dy * oz - dz * oy, dz * ox - dx * oz, dx * oy - dy * ox
                    columns[0, k] = ex * ax + ey * ay + ez * az
                    columns[1, k] = gradient[0, k] * ex + gradient[3, k] * ey + gradient[6, k] * ez + ay * dz - az * dy
                    columns[2, k] = gradient[1, k] * ex + gradient[4, k] * ey + gradient[7, k] * ez + az * dx - ax * dz
                    columns[3, k] = gradient[2, k] * ex + gradient[5, k] * ey + gradient[8, k] * ez + ax * dy - ay * dx
                    columns[4, k] = dx * lx + cx * ox
                    columns[5, k] = dx * ly + dy * lx + cx * oy + cy * ox
                    columns[6, k] = dy * ly + cy * oy
                    columns[7, k] = dx * lz + dz * lx + cx * oz + cz * ox
                    columns[8, k] = dy * lz + dz * ly + cy * oz + cz * oy
                    columns[9, k] = dz * lz + cz * oz
                for k in range(count):
                    for column in range(10):
                        out[start + k, i, 10 * j + column] = columns[column, k]
            for k in range(count):
                for column in range(10 * j):
                    out[start + k, j, column] = 0.0
            if rotors:
                for k in range(count):
                    for i in range(n):
                        out[start + k, i, 10 * n + j] = signals[4, k] if i == j else 0.0
