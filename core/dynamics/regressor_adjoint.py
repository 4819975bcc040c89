"""Reverse mode through the regressor: what a weight on every element of W means for q, qd and qdd.

For a scalar J with ``dJ/dW = A`` this gives ``dJ/dq``, ``dJ/dqd``, ``dJ/dqdd`` of every sample at the price of
about two regressor evaluations, whatever the number of columns. With ``A = lambda phi^T`` it differentiates
``lambda . tau`` as well.

In the notation of ``regressor``: link j has the state (o, l, a) = (angular velocity, angular acceleration,
acceleration of its origin) and axis i moves it by (d, e) = (turn, displacement of its origin). The ten columns
of the pair weighted by ``s0``, ``h = (s1, s2, s3)`` and the symmetric ``S`` of s4..s9 are

    J_ij = s0 e.a + h.(e x l) + h.(o x (o x e)) + h.(a x d) + d.S l + (d x o).S o

A vector v = R(q)^T v' that turns about the axis u changes by ``dv/dq = -u x v``, so all that is needed of a
rotation is ``sum of v x v_bar`` over the vectors it carries: no adjoint of a rotation matrix is formed.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from core.dynamics.chain_arrays import Array, ChainArrays

BLOCK = 16


@njit(cache=True, error_model="numpy", fastmath={"contract"}, nogil=True)
def regressor_adjoint(  # noqa: PLR0912, PLR0915 - one loop nest, so that blocks stay in the first-level cache
    chain: ChainArrays,
    q: Array,
    qd: Array,
    qdd: Array,
    rotors: bool,
    weights: Array,
    q_bar: Array,
    qd_bar: Array,
    qdd_bar: Array,
) -> None:
    """Write dJ/dq, dJ/dqd, dJ/dqdd, each (N, n), for ``weights = dJ/dW``.

    q, qd, qdd are (N, n); weights are (N, n, 10 n), or (N, n, 11 n) with ``rotors``. Weights on elements of W
    that are zero for every motion have no effect. ``contract`` changes rounding only.
    """
    n = q.shape[1]
    state = np.zeros((n + 1, 9, BLOCK))  # o, l, a of every link; the first row is the root
    motion = np.zeros((n, 12, BLOCK))  # R row by row, then p, of every joint
    axes = np.zeros((n, n, 6, BLOCK))  # [j, i]: d, e of axis i in frame j
    rates = np.zeros((n, 2, BLOCK))  # qd, qdd
    turning = np.zeros((n, 2, BLOCK))  # sin q, cos q
    place = np.zeros((n, BLOCK))  # q
    state_bar = np.zeros((9, BLOCK))
    axes_bar = np.zeros((n, 6, BLOCK))
    spin = np.zeros((3, BLOCK))  # sum of v x v_bar over the vectors that the joint in work carries
    shift = np.zeros((3, BLOCK))  # adjoint of p
    s = np.zeros((10, BLOCK))
    for start in range(0, q.shape[0], BLOCK):
        count = min(BLOCK, q.shape[0] - start)
        for k in range(BLOCK):
            for row in range(6):
                state[0, row, k] = 0.0
            for row in range(3):
                state[0, 6 + row, k] = -chain.gravity[row]
        for k in range(count):
            for j in range(n):
                turning[j, 0, k] = math.sin(q[start + k, j])
                turning[j, 1, k] = math.cos(q[start + k, j])
                place[j, k] = q[start + k, j]
                rates[j, 0, k] = qd[start + k, j]
                rates[j, 1, k] = qdd[start + k, j]
        for j in range(n):
            move = motion[j]
            for row in range(3):
                for column in range(3):
                    constant = chain.rotation_constant[j, row, column]
                    with_sine = chain.rotation_sin[j, row, column]
                    with_cosine = chain.rotation_cos[j, row, column]
                    for k in range(BLOCK):
                        move[3 * row + column, k] = (
                            constant + with_sine * turning[j, 0, k] + with_cosine * turning[j, 1, k]
                        )
                offset = chain.offset[j, row]
                slide = chain.slide[j, row]
                for k in range(BLOCK):
                    move[9 + row, k] = offset + slide * place[j, k]
            ux, uy, uz = chain.axis_angular[j, 0], chain.axis_angular[j, 1], chain.axis_angular[j, 2]
            wx, wy, wz = chain.axis_linear[j, 0], chain.axis_linear[j, 1], chain.axis_linear[j, 2]
            before = state[j]
            after = state[j + 1]
            for k in range(BLOCK):
                px, py, pz = move[9, k], move[10, k], move[11, k]
                ox, oy, oz = before[0, k], before[1, k], before[2, k]
                lx, ly, lz = before[3, k], before[4, k], before[5, k]
                rate, acceleration = rates[j, 0, k], rates[j, 1, k]
                vx, vy, vz = oy * pz - oz * py, oz * px - ox * pz, ox * py - oy * px
                sx = before[6, k] + ly * pz - lz * py + oy * vz - oz * vy
                sy = before[7, k] + lz * px - lx * pz + oz * vx - ox * vz
                sz = before[8, k] + lx * py - ly * px + ox * vy - oy * vx
                tx = move[0, k] * ox + move[3, k] * oy + move[6, k] * oz
                ty = move[1, k] * ox + move[4, k] * oy + move[7, k] * oz
                tz = move[2, k] * ox + move[5, k] * oy + move[8, k] * oz
                after[3, k] = (
                    move[0, k] * lx + move[3, k] * ly + move[6, k] * lz + (ty * uz - tz * uy) * rate + ux * acceleration
                )
                after[4, k] = (
                    move[1, k] * lx + move[4, k] * ly + move[7, k] * lz + (tz * ux - tx * uz) * rate + uy * acceleration
                )
                after[5, k] = (
                    move[2, k] * lx + move[5, k] * ly + move[8, k] * lz + (tx * uy - ty * ux) * rate + uz * acceleration
                )
                double = 2.0 * rate
                after[6, k] = (
                    move[0, k] * sx
                    + move[3, k] * sy
                    + move[6, k] * sz
                    + (ty * wz - tz * wy) * double
                    + wx * acceleration
                )
                after[7, k] = (
                    move[1, k] * sx
                    + move[4, k] * sy
                    + move[7, k] * sz
                    + (tz * wx - tx * wz) * double
                    + wy * acceleration
                )
                after[8, k] = (
                    move[2, k] * sx
                    + move[5, k] * sy
                    + move[8, k] * sz
                    + (tx * wy - ty * wx) * double
                    + wz * acceleration
                )
                after[0, k] = tx + ux * rate
                after[1, k] = ty + uy * rate
                after[2, k] = tz + uz * rate
                own = axes[j, j]
                own[0, k], own[1, k], own[2, k] = ux, uy, uz
                own[3, k], own[4, k], own[5, k] = wx, wy, wz
            for i in range(j):
                old = axes[j - 1, i]
                new = axes[j, i]
                for k in range(BLOCK):
                    dx, dy, dz = old[0, k], old[1, k], old[2, k]
                    px, py, pz = move[9, k], move[10, k], move[11, k]
                    ex = old[3, k] + dy * pz - dz * py
                    ey = old[4, k] + dz * px - dx * pz
                    ez = old[5, k] + dx * py - dy * px
                    new[0, k] = move[0, k] * dx + move[3, k] * dy + move[6, k] * dz
                    new[1, k] = move[1, k] * dx + move[4, k] * dy + move[7, k] * dz
                    new[2, k] = move[2, k] * dx + move[5, k] * dy + move[8, k] * dz
                    new[3, k] = move[0, k] * ex + move[3, k] * ey + move[6, k] * ez
                    new[4, k] = move[1, k] * ex + move[4, k] * ey + move[7, k] * ez
                    new[5, k] = move[2, k] * ex + move[5, k] * ey + move[8, k] * ez
        state_bar[:] = 0.0
        axes_bar[:] = 0.0
        for j in range(n - 1, -1, -1):
            move = motion[j]
            here = state[j + 1]
            spin[:] = 0.0
            shift[:] = 0.0
            for i in range(j + 1):
                axis = axes[j, i]
                bar = axes_bar[i]
                for k in range(count):
                    for column in range(10):
                        s[column, k] = weights[start + k, i, 10 * j + column]
                for k in range(BLOCK):
                    dx, dy, dz = axis[0, k], axis[1, k], axis[2, k]
                    ex, ey, ez = axis[3, k], axis[4, k], axis[5, k]
                    ox, oy, oz = here[0, k], here[1, k], here[2, k]
                    lx, ly, lz = here[3, k], here[4, k], here[5, k]
                    ax, ay, az = here[6, k], here[7, k], here[8, k]
                    m, hx, hy, hz = s[0, k], s[1, k], s[2, k], s[3, k]
                    xx, xy, yy, xz, yz, zz = s[4, k], s[5, k], s[6, k], s[7, k], s[8, k], s[9, k]
                    cx, cy, cz = dy * oz - dz * oy, dz * ox - dx * oz, dx * oy - dy * ox
                    # S o
                    gx = xx * ox + xy * oy + xz * oz
                    gy = xy * ox + yy * oy + yz * oz
                    gz = xz * ox + yz * oy + zz * oz
                    oh = ox * hx + oy * hy + oz * hz
                    oe = ox * ex + oy * ey + oz * ez
                    oo = ox * ox + oy * oy + oz * oz
                    he = 2.0 * (hx * ex + hy * ey + hz * ez)
                    bar[0, k] += hy * az - hz * ay + xx * lx + xy * ly + xz * lz + oy * gz - oz * gy
                    bar[1, k] += hz * ax - hx * az + xy * lx + yy * ly + yz * lz + oz * gx - ox * gz
                    bar[2, k] += hx * ay - hy * ax + xz * lx + yz * ly + zz * lz + ox * gy - oy * gx
                    bar[3, k] += m * ax + ly * hz - lz * hy + ox * oh - hx * oo
                    bar[4, k] += m * ay + lz * hx - lx * hz + oy * oh - hy * oo
                    bar[5, k] += m * az + lx * hy - ly * hx + oz * oh - hz * oo
                    state_bar[0, k] += hx * oe + ex * oh - ox * he + gy * dz - gz * dy + xx * cx + xy * cy + xz * cz
                    state_bar[1, k] += hy * oe + ey * oh - oy * he + gz * dx - gx * dz + xy * cx + yy * cy + yz * cz
                    state_bar[2, k] += hz * oe + ez * oh - oz * he + gx * dy - gy * dx + xz * cx + yz * cy + zz * cz
                    state_bar[3, k] += hy * ez - hz * ey + xx * dx + xy * dy + xz * dz
                    state_bar[4, k] += hz * ex - hx * ez + xy * dx + yy * dy + yz * dz
                    state_bar[5, k] += hx * ey - hy * ex + xz * dx + yz * dy + zz * dz
                    state_bar[6, k] += m * ex + dy * hz - dz * hy
                    state_bar[7, k] += m * ey + dz * hx - dx * hz
                    state_bar[8, k] += m * ez + dx * hy - dy * hx
            for i in range(j):  # back to the frame before
                axis = axes[j, i]
                old = axes[j - 1, i]
                bar = axes_bar[i]
                for k in range(BLOCK):
                    dx, dy, dz = bar[0, k], bar[1, k], bar[2, k]
                    ex, ey, ez = bar[3, k], bar[4, k], bar[5, k]
                    spin[0, k] += axis[1, k] * dz - axis[2, k] * dy + axis[4, k] * ez - axis[5, k] * ey
                    spin[1, k] += axis[2, k] * dx - axis[0, k] * dz + axis[5, k] * ex - axis[3, k] * ez
                    spin[2, k] += axis[0, k] * dy - axis[1, k] * dx + axis[3, k] * ey - axis[4, k] * ex
                    px, py, pz = move[9, k], move[10, k], move[11, k]
                    fx = move[0, k] * ex + move[1, k] * ey + move[2, k] * ez
                    fy = move[3, k] * ex + move[4, k] * ey + move[5, k] * ez
                    fz = move[6, k] * ex + move[7, k] * ey + move[8, k] * ez
                    bar[0, k] = move[0, k] * dx + move[1, k] * dy + move[2, k] * dz + py * fz - pz * fy
                    bar[1, k] = move[3, k] * dx + move[4, k] * dy + move[5, k] * dz + pz * fx - px * fz
                    bar[2, k] = move[6, k] * dx + move[7, k] * dy + move[8, k] * dz + px * fy - py * fx
                    bar[3, k], bar[4, k], bar[5, k] = fx, fy, fz
                    shift[0, k] += fy * old[2, k] - fz * old[1, k]
                    shift[1, k] += fz * old[0, k] - fx * old[2, k]
                    shift[2, k] += fx * old[1, k] - fy * old[0, k]
            ux, uy, uz = chain.axis_angular[j, 0], chain.axis_angular[j, 1], chain.axis_angular[j, 2]
            wx, wy, wz = chain.axis_linear[j, 0], chain.axis_linear[j, 1], chain.axis_linear[j, 2]
            slide_x, slide_y, slide_z = chain.slide[j, 0], chain.slide[j, 1], chain.slide[j, 2]
            before = state[j]
            for k in range(count):
                rate, acceleration = rates[j, 0, k], rates[j, 1, k]
                # the carried vectors before the joint's own rates were added
                tx, ty, tz = here[0, k] - ux * rate, here[1, k] - uy * rate, here[2, k] - uz * rate
                gx, gy, gz = ty * uz - tz * uy, tz * ux - tx * uz, tx * uy - ty * ux
                kx, ky, kz = ty * wz - tz * wy, tz * wx - tx * wz, tx * wy - ty * wx
                bx = here[3, k] - gx * rate - ux * acceleration
                by = here[4, k] - gy * rate - uy * acceleration
                bz = here[5, k] - gz * rate - uz * acceleration
                ax = here[6, k] - 2.0 * kx * rate - wx * acceleration
                ay = here[7, k] - 2.0 * ky * rate - wy * acceleration
                az = here[8, k] - 2.0 * kz * rate - wz * acceleration
                ox, oy, oz = state_bar[0, k], state_bar[1, k], state_bar[2, k]
                lx, ly, lz = state_bar[3, k], state_bar[4, k], state_bar[5, k]
                sx, sy, sz = state_bar[6, k], state_bar[7, k], state_bar[8, k]
                qd_bar[start + k, j] = (
                    ux * ox + uy * oy + uz * oz + lx * gx + ly * gy + lz * gz + 2.0 * (sx * kx + sy * ky + sz * kz)
                )
                qdd_bar[start + k, j] = ux * lx + uy * ly + uz * lz + wx * sx + wy * sy + wz * sz
                ox += rate * (uy * lz - uz * ly + 2.0 * (wy * sz - wz * sy))
                oy += rate * (uz * lx - ux * lz + 2.0 * (wz * sx - wx * sz))
                oz += rate * (ux * ly - uy * lx + 2.0 * (wx * sy - wy * sx))
                spin_x = spin[0, k] + ty * oz - tz * oy + by * lz - bz * ly + ay * sz - az * sy
                spin_y = spin[1, k] + tz * ox - tx * oz + bz * lx - bx * lz + az * sx - ax * sz
                spin_z = spin[2, k] + tx * oy - ty * ox + bx * ly - by * lx + ax * sy - ay * sx
                # to the parent frame
                fx = move[0, k] * sx + move[1, k] * sy + move[2, k] * sz
                fy = move[3, k] * sx + move[4, k] * sy + move[5, k] * sz
                fz = move[6, k] * sx + move[7, k] * sy + move[8, k] * sz
                px, py, pz = move[9, k], move[10, k], move[11, k]
                tx, ty, tz = before[0, k], before[1, k], before[2, k]
                along = tx * px + ty * py + tz * pz
                across = tx * fx + ty * fy + tz * fz
                double = 2.0 * (fx * px + fy * py + fz * pz)
                square = tx * tx + ty * ty + tz * tz
                push_x = shift[0, k] + fy * before[5, k] - fz * before[4, k] + tx * across - fx * square
                push_y = shift[1, k] + fz * before[3, k] - fx * before[5, k] + ty * across - fy * square
                push_z = shift[2, k] + fx * before[4, k] - fy * before[3, k] + tz * across - fz * square
                q_bar[start + k, j] = (
                    slide_x * push_x + slide_y * push_y + slide_z * push_z - ux * spin_x - uy * spin_y - uz * spin_z
                )
                state_bar[0, k] = (
                    move[0, k] * ox + move[1, k] * oy + move[2, k] * oz + fx * along + px * across - tx * double
                )
                state_bar[1, k] = (
                    move[3, k] * ox + move[4, k] * oy + move[5, k] * oz + fy * along + py * across - ty * double
                )
                state_bar[2, k] = (
                    move[6, k] * ox + move[7, k] * oy + move[8, k] * oz + fz * along + pz * across - tz * double
                )
                state_bar[3, k] = move[0, k] * lx + move[1, k] * ly + move[2, k] * lz + py * fz - pz * fy
                state_bar[4, k] = move[3, k] * lx + move[4, k] * ly + move[5, k] * lz + pz * fx - px * fz
                state_bar[5, k] = move[6, k] * lx + move[7, k] * ly + move[8, k] * lz + px * fy - py * fx
                state_bar[6, k], state_bar[7, k], state_bar[8, k] = fx, fy, fz
            axes_bar[j] = 0.0
        if rotors:
            for k in range(count):
                for j in range(n):
                    qdd_bar[start + k, j] += weights[start + k, j, 10 * n + j]
