"""Dynamics of a 6-UPRU parallel robot: Numba kernels for leg forces and their regressor.

    J^T tau + wrench = Psi X

with tau the force that each leg's sensor carries, compression positive, J rows [n, e x n], wrench the external
force and moment on the platform about its origin in {B}, and X the 29 standard parameters: equations (35) to
(38) of the source that ``core.dynamics.upru_kinematics`` names. What a leg's parameters bring follows from
virtual work; a body of a leg has the angular momentum Ia s n + In n x n'.

Of the 29 columns 24 differ: everything that resists a leg's turning across itself has the same one, and so
have the masses, and the first moments, of the two links above the sensor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.dynamics.upru_kinematics import (
    NO_FAULT,
    SINGULAR_JACOBIAN,
    Array,
    ParallelArrays,
    Workspace,
    compiled,
    invert_jacobian,
    move_one,
)

SOURCE = np.array((0, 2, 1, 2, 3, 4, 2, 3, 4, 5, 6, 7, 2, *range(8, 24)))
"""(29,) which of the 24 different columns belongs to each standard parameter."""


@compiled
def _leg_columns(leg: Array, gravity: Array, force: Array) -> None:
    """Write the force (3, 8) on the platform that one leg's parameters bring."""
    inverse = 1.0 / leg[15]
    nx, ny, nz = leg[3], leg[4], leg[5]
    along = (leg[12] - gravity[0]) * nx + (leg[13] - gravity[1]) * ny + (leg[14] - gravity[2]) * nz
    bent = leg[9] * nx + leg[10] * ny + leg[11] * nz
    fall = gravity[0] * nx + gravity[1] * ny + gravity[2] * nz
    for row in range(3):
        after, last = (row + 1) % 3, (row + 2) % 3
        n, n_after, n_last = leg[3 + row], leg[3 + after], leg[3 + last]
        bend = leg[9 + row]  # n''
        across = leg[6 + after] * n_last - leg[6 + last] * n_after  # n' x n
        upper = leg[25 + after] * n_last - leg[25 + last] * n_after  # c x n / (n . c)
        push = leg[12 + row] - gravity[row]  # b'' - g
        side = push - along * n
        force[row, 0] = (leg[20] * across - leg[21] * upper) * inverse
        force[row, 1] = (leg[18] * across - leg[19] * leg[22 + row]) * inverse
        force[row, 2] = (bend - bent * n) * inverse
        force[row, 3] = push
        force[row, 4] = -bend - side * inverse
        force[row, 5] = side
        force[row, 6] = bent * n - bend - side * inverse
        force[row, 7] = (fall * n - gravity[row]) * inverse


@compiled
def _platform_columns(platform: Array, gravity: Array, v: Array, moment: Array) -> None:
    """Write omega, eps and a - g in {p} to v (9,), and what inertia xx xy xz yy yz zz brings, moment (3, 6) in {p}."""
    for row in range(3):
        v[row] = v[3 + row] = v[6 + row] = 0.0
        for column in range(3):
            r = platform[3 * column + row]
            v[row] += r * platform[15 + column]
            v[3 + row] += r * platform[21 + column]
            v[6 + row] += r * (platform[18 + column] - gravity[column])
    # I eps + omega x I omega
    ox, oy, oz = v[0], v[1], v[2]
    ax, ay, az = v[3], v[4], v[5]
    moment[0, 0], moment[1, 0], moment[2, 0] = ax, oz * ox, -oy * ox
    moment[0, 1], moment[1, 1], moment[2, 1] = ay - oz * ox, ax + oz * oy, ox * ox - oy * oy
    moment[0, 2], moment[1, 2], moment[2, 2] = az + oy * ox, oz * oz - ox * ox, ax - oy * oz
    moment[0, 3], moment[1, 3], moment[2, 3] = -oz * oy, ay, ox * oy
    moment[0, 4], moment[1, 4], moment[2, 4] = oy * oy - oz * oz, az - ox * oy, ay + ox * oz
    moment[0, 5], moment[1, 5], moment[2, 5] = oy * oz, -ox * oz, az


@compiled
def write_psi(robot: ParallelArrays, work: Workspace) -> None:
    """Write the 24 different columns of Psi, moments divided by the robot's size, for the motion in ``work``."""
    platform, v, force, moment, psi = work.platform, work.vectors, work.force, work.moment, work.psi
    scale = 1.0 / robot.size
    for row in range(6):
        for column in range(24):
            psi[row, column] = 0.0
    for i in range(6):
        leg = work.legs[i]
        _leg_columns(leg, robot.gravity, force)
        ex, ey, ez = scale * leg[0], scale * leg[1], scale * leg[2]
        for column in range(8):
            x, y, z = force[0, column], force[1, column], force[2, column]
            psi[0, column] += x
            psi[1, column] += y
            psi[2, column] += z
            psi[3, column] += ey * z - ez * y
            psi[4, column] += ez * x - ex * z
            psi[5, column] += ex * y - ey * x
        for row in range(3):
            psi[3 + row, 0] += scale * leg[21] * leg[25 + row]
    _platform_columns(platform, robot.gravity, v, moment)
    ox, oy, oz = v[0], v[1], v[2]
    ax, ay, az = v[3], v[4], v[5]
    for row in range(3):
        rx, ry, rz = platform[3 * row], platform[3 * row + 1], platform[3 * row + 2]
        psi[row, 8] = platform[18 + row] - robot.gravity[row]
        psi[row, 9] = -rx * (oy * oy + oz * oz) + ry * (ox * oy + az) + rz * (ox * oz - ay)
        psi[row, 10] = rx * (ox * oy - az) - ry * (ox * ox + oz * oz) + rz * (oy * oz + ax)
        psi[row, 11] = rx * (ox * oz + ay) + ry * (oy * oz - ax) - rz * (ox * ox + oy * oy)
        rx, ry, rz = scale * rx, scale * ry, scale * rz
        psi[3 + row, 9] = rz * v[7] - ry * v[8]
        psi[3 + row, 10] = rx * v[8] - rz * v[6]
        psi[3 + row, 11] = ry * v[6] - rx * v[7]
        for column in range(6):
            turned = rx * moment[0, column] + ry * moment[1, column] + rz * moment[2, column]
            psi[3 + row, 12 + column] = turned
            psi[3 + row, 18 + column] = -turned
        for column in (18, 21, 23):  # the trace of m_p r_c r_c^T
            psi[3 + row, column] += scale * platform[21 + row]


@compiled
def regressor(
    robot: ParallelArrays,
    q: Array,
    qd: Array,
    qdd: Array,
    source: NDArray[np.int64],
    work: Workspace,
    out: Array,
) -> tuple[int, int]:
    """Write J^-T Psi to out (N, 6, c) for q, qd, qdd (N, 6); source (c,) chooses among the 24 columns."""
    inverse, psi, row = work.inverse, work.psi, work.row
    for k in range(q.shape[0]):
        fault = move_one(robot, q[k], qd[k], qdd[k], work)
        if fault != NO_FAULT:
            return k, fault
        if not invert_jacobian(robot, work):
            return k, SINGULAR_JACOBIAN
        write_psi(robot, work)
        for i in range(6):
            a, b, c = inverse[0, i], inverse[1, i], inverse[2, i]
            d, e, f = inverse[3, i], inverse[4, i], inverse[5, i]
            for column in range(24):
                row[column] = (
                    a * psi[0, column]
                    + b * psi[1, column]
                    + c * psi[2, column]
                    + d * psi[3, column]
                    + e * psi[4, column]
                    + f * psi[5, column]
                )
            for column in range(source.shape[0]):
                out[k, i, column] = row[source[column]]
    return -1, NO_FAULT


@compiled
def _platform_load(robot: ParallelArrays, work: Workspace, inertia: Array, load: Array) -> None:
    """Write the force and moment (6,) about its origin that the platform itself needs, in {p}."""
    v, moment, x = work.vectors, work.moment, robot.parameters
    _platform_columns(work.platform, robot.gravity, v, moment)
    ox, oy, oz = v[0], v[1], v[2]
    ax, ay, az = v[3], v[4], v[5]
    m, hx, hy, hz = x[13], x[14], x[15], x[16]
    spread = ox * hx + oy * hy + oz * hz
    square = ox * ox + oy * oy + oz * oz
    load[0] = m * v[6] + ay * hz - az * hy + ox * spread - square * hx
    load[1] = m * v[7] + az * hx - ax * hz + oy * spread - square * hy
    load[2] = m * v[8] + ax * hy - ay * hx + oz * spread - square * hz
    load[3] = hy * v[8] - hz * v[7]
    load[4] = hz * v[6] - hx * v[8]
    load[5] = hx * v[7] - hy * v[6]
    for row in range(3):
        for column in range(6):
            load[3 + row] += moment[row, column] * inertia[column]


@compiled
def inverse_dynamics(  # noqa: PLR0912 - one loop over samples
    robot: ParallelArrays,
    q: Array,
    qd: Array,
    qdd: Array,
    wrench: Array,
    work: Workspace,
    sensor: Array,
    motor: Array,
) -> tuple[int, int]:
    """Write the forces (N, 6) at the sensors, and those that the drives exert on the push rods below them.

    q, qd, qdd and the external wrench on the platform are (N, 6).
    """
    x, gravity, platform, inverse, force = robot.parameters, robot.gravity, work.platform, work.inverse, work.force
    shares = np.zeros(8)  # what a leg's columns are multiplied by
    for parameter in range(13):
        shares[SOURCE[parameter]] += x[parameter]
    inertia = np.zeros(6)  # of the platform about its origin
    for entry in range(6):
        inertia[entry] = x[17 + entry] - x[23 + entry]
    for entry in (0, 3, 5):
        inertia[entry] += x[23] + x[26] + x[28]
    own = np.zeros(6)
    load = np.zeros(6)
    for k in range(q.shape[0]):
        fault = move_one(robot, q[k], qd[k], qdd[k], work)
        if fault != NO_FAULT:
            return k, fault
        if not invert_jacobian(robot, work):
            return k, SINGULAR_JACOBIAN
        _platform_load(robot, work, inertia, own)
        for row in range(3):
            load[row] = -wrench[k, row]
            load[3 + row] = -wrench[k, 3 + row]
            for column in range(3):
                load[row] += platform[3 * row + column] * own[column]
                load[3 + row] += platform[3 * row + column] * own[3 + column]
        for i in range(6):
            leg = work.legs[i]
            _leg_columns(leg, gravity, force)
            for row in range(3):
                own[row] = 0.0
                for column in range(8):
                    own[row] += force[row, column] * shares[column]
                load[row] += own[row]
                load[3 + row] += x[0] * leg[21] * leg[25 + row]
            load[3] += leg[1] * own[2] - leg[2] * own[1]
            load[4] += leg[2] * own[0] - leg[0] * own[2]
            load[5] += leg[0] * own[1] - leg[1] * own[0]
        for i in range(6):
            leg = work.legs[i]
            sensor[k, i] = 0.0
            rod = 0.0  # what the push rod itself needs along the leg
            for row in range(3):
                sensor[k, i] += inverse[row, i] * load[row] + inverse[3 + row, i] * load[3 + row] / robot.size
                rod += leg[3 + row] * (x[9] * (leg[12 + row] - gravity[row]) - x[10] * leg[9 + row])
            motor[k, i] = sensor[k, i] + rod
    return -1, NO_FAULT
