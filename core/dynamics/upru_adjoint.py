"""Reverse mode through the regressor of a 6-UPRU robot: Numba kernels.

With weights A on the elements of ``K = J^-T Psi``, the scalar ``sum A K = sum M Psi`` has ``M = J^-1 A``, and

    d(sum A K) = sum M dPsi - sum T dJ,    T = K M^T

so the inverse of J is not differentiated. What is left goes backwards through the formulas of ``upru_dynamics`` and
``upru_kinematics``, leg by leg: ``x_bar`` is the derivative by x. A vector x that turns with the platform adds
``x cross x_bar`` to the derivative by a turn of the platform, so none is formed of the rotation matrix.

All 18 derivatives of a sample cost about two evaluations of the regressor.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from core.dynamics.upru_dynamics import write_psi
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

Vector = tuple[float, float, float]

_STEP = 1e-6  # of a coordinate, SI

_INERTIA = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))  # xx xy xz yy yz zz


@compiled
def _at(array: Array, first: int) -> Vector:
    return array[first], array[first + 1], array[first + 2]


@compiled
def _row(array: Array, row: int, column: int) -> Vector:
    """Return three elements below each other."""
    return array[row, column], array[row + 1, column], array[row + 2, column]


@compiled
def _dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled
def _cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@compiled
def _plus(a: Vector, scale: float, b: Vector) -> Vector:
    """Return ``a + scale b``."""
    return a[0] + scale * b[0], a[1] + scale * b[1], a[2] + scale * b[2]


@compiled
def _scaled(scale: float, a: Vector) -> Vector:
    return scale * a[0], scale * a[1], scale * a[2]


@compiled
def _add(array: Array, first: int, a: Vector) -> None:
    array[first] += a[0]
    array[first + 1] += a[1]
    array[first + 2] += a[2]


@compiled
def _turned(platform: Array, a: Vector) -> Vector:
    """Return R a."""
    return _dot(_at(platform, 0), a), _dot(_at(platform, 3), a), _dot(_at(platform, 6), a)


@compiled
def _turned_back(platform: Array, a: Vector) -> Vector:
    """Return R^T a."""
    x = platform[0] * a[0] + platform[3] * a[1] + platform[6] * a[2]
    y = platform[1] * a[0] + platform[4] * a[1] + platform[7] * a[2]
    z = platform[2] * a[0] + platform[5] * a[1] + platform[8] * a[2]
    return x, y, z


TURN, PLACE, SPEED, TURNING, ACCELERATION, TURNING_UP = 0, 3, 6, 9, 12, 15
"""Where in (18,) the derivatives by the platform's turn, o, v, omega, a and eps begin."""


@compiled
def _reverse_leg(  # noqa: PLR0915 - one chain of formulas, backwards
    robot: ParallelArrays, i: int, work: Workspace, weights: Array, turning: Array, bar: Array
) -> None:
    """Add to bar (18,) what leg i brings, for M (6, 24) and T (6, 6)."""
    platform, leg, gravity = work.platform, work.legs[i], _at(robot.gravity, 0)
    scale = 1.0 / robot.size
    e, n, d, f, b = _at(leg, 0), _at(leg, 3), _at(leg, 6), _at(leg, 9), _at(leg, 12)
    length, rate, acceleration = leg[15], leg[16], leg[17]
    lower_spin, lower_spun, upper_spin, upper_spun = leg[18], leg[19], leg[20], leg[21]
    lower_normal, upper_normal = _at(leg, 22), _at(leg, 25)
    w, eps = _at(platform, 15), _at(platform, 21)
    t = _cross(w, e)
    u = _plus(_at(platform, 12), 1.0, t)
    inverse = 1.0 / length
    push = _plus(b, -1.0, gravity)
    along, bent, fall = _dot(push, n), _dot(f, n), _dot(gravity, n)
    side = _plus(push, -along, n)
    across, upper = _cross(d, n), _cross(upper_normal, n)

    # the columns, each F with the weights g on it where it acts
    e_bar = _scaled(-scale, _cross(n, _at(turning[i], 3)))
    n_bar = _scaled(-1.0, _plus(_at(turning[i], 0), scale, _cross(_at(turning[i], 3), e)))
    length_bar = 0.0

    q = _scaled(scale, _row(weights, 3, 0))
    g = _plus(_row(weights, 0, 0), 1.0, _cross(q, e))
    force = _scaled(inverse, _plus(_scaled(upper_spin, across), -upper_spun, upper))
    e_bar = _plus(e_bar, 1.0, _cross(force, q))
    length_bar -= inverse * _dot(force, g)
    upper_spin_bar = inverse * _dot(across, g)
    across_bar = _scaled(inverse * upper_spin, g)
    upper_spun_bar = _dot(upper_normal, q) - inverse * _dot(upper, g)
    upper_bar = _scaled(-inverse * upper_spun, g)
    normal_bar = _scaled(upper_spun, q)

    q = _scaled(scale, _row(weights, 3, 1))
    g = _plus(_row(weights, 0, 1), 1.0, _cross(q, e))
    force = _scaled(inverse, _plus(_scaled(lower_spin, across), -lower_spun, lower_normal))
    e_bar = _plus(e_bar, 1.0, _cross(force, q))
    length_bar -= inverse * _dot(force, g)
    lower_spin_bar = inverse * _dot(across, g)
    across_bar = _plus(across_bar, inverse * lower_spin, g)
    lower_spun_bar = -inverse * _dot(lower_normal, g)
    lower_normal_bar = _scaled(-inverse * lower_spun, g)

    q = _scaled(scale, _row(weights, 3, 2))
    g = _plus(_row(weights, 0, 2), 1.0, _cross(q, e))
    force = _scaled(inverse, _plus(f, -bent, n))
    e_bar = _plus(e_bar, 1.0, _cross(force, q))
    length_bar -= inverse * _dot(force, g)
    f_bar = _scaled(inverse, g)
    bent_bar = -inverse * _dot(n, g)
    n_bar = _plus(n_bar, -inverse * bent, g)

    q = _scaled(scale, _row(weights, 3, 3))
    g = _plus(_row(weights, 0, 3), 1.0, _cross(q, e))
    e_bar = _plus(e_bar, 1.0, _cross(push, q))
    push_bar = g

    q = _scaled(scale, _row(weights, 3, 4))
    g = _plus(_row(weights, 0, 4), 1.0, _cross(q, e))
    force = _plus(_scaled(-1.0, f), -inverse, side)
    e_bar = _plus(e_bar, 1.0, _cross(force, q))
    f_bar = _plus(f_bar, -1.0, g)
    side_bar = _scaled(-inverse, g)
    length_bar += inverse * inverse * _dot(side, g)

    q = _scaled(scale, _row(weights, 3, 5))
    g = _plus(_row(weights, 0, 5), 1.0, _cross(q, e))
    e_bar = _plus(e_bar, 1.0, _cross(side, q))
    side_bar = _plus(side_bar, 1.0, g)

    q = _scaled(scale, _row(weights, 3, 6))
    g = _plus(_row(weights, 0, 6), 1.0, _cross(q, e))
    force = _plus(_plus(_scaled(bent, n), -1.0, f), -inverse, side)
    e_bar = _plus(e_bar, 1.0, _cross(force, q))
    bent_bar += _dot(n, g)
    n_bar = _plus(n_bar, bent, g)
    f_bar = _plus(f_bar, -1.0, g)
    side_bar = _plus(side_bar, -inverse, g)
    length_bar += inverse * inverse * _dot(side, g)

    q = _scaled(scale, _row(weights, 3, 7))
    g = _plus(_row(weights, 0, 7), 1.0, _cross(q, e))
    force = _scaled(inverse, _plus(_scaled(fall, n), -1.0, gravity))
    e_bar = _plus(e_bar, 1.0, _cross(force, q))
    length_bar -= inverse * _dot(force, g)
    n_bar = _plus(_plus(n_bar, inverse * fall, g), inverse * _dot(n, g), gravity)

    d_bar = _cross(n, across_bar)
    n_bar = _plus(n_bar, 1.0, _cross(across_bar, d))
    normal_bar = _plus(normal_bar, 1.0, _cross(n, upper_bar))
    n_bar = _plus(n_bar, 1.0, _cross(upper_bar, upper_normal))
    f_bar = _plus(f_bar, bent_bar, n)
    n_bar = _plus(n_bar, bent_bar, f)
    along_bar = -_dot(side_bar, n)
    n_bar = _plus(_plus(n_bar, -along, side_bar), along_bar, push)
    b_bar = _plus(_plus(push_bar, 1.0, side_bar), along_bar, n)

    # the spin of the upper link
    r = _turned(platform, _at(robot.platform_axes[i], 0))
    k = _dot(r, n)
    inside = 1.0 / (k * k - 1.0)
    swept = _cross(w, r)  # r'
    grown = _dot(r, d) + _dot(swept, n)
    c = _plus(_scaled(k, r), -1.0, n)
    c_rate = _plus(_plus(_scaled(grown, r), k, swept), -1.0, d)
    free = _plus(w, -1.0, _cross(n, d))
    free_rate = _plus(eps, -1.0, _cross(n, f))

    change_bar = inside * upper_spun_bar
    k_bar = -2.0 * change_bar * grown * upper_spin
    grown_bar = -2.0 * change_bar * k * upper_spin
    spin_bar = upper_spin_bar - 2.0 * change_bar * k * grown
    free_rate_bar = _scaled(change_bar, c)
    c_bar = _plus(_scaled(change_bar, free_rate), inside * spin_bar, free)
    free_bar = _plus(_scaled(change_bar, c_rate), inside * spin_bar, c)
    c_rate_bar = _scaled(change_bar, free)
    inside_bar = _dot(normal_bar, c) + (upper_spun_bar * upper_spun + spin_bar * upper_spin) / inside
    c_bar = _plus(c_bar, inside, normal_bar)
    grown_bar += _dot(c_rate_bar, r)
    k_bar += _dot(c_rate_bar, swept) + _dot(c_bar, r) - 2.0 * k * inside * inside * inside_bar
    r_bar = _plus(_plus(_scaled(grown, c_rate_bar), k, c_bar), grown_bar, d)
    swept_bar = _plus(_scaled(k, c_rate_bar), grown_bar, n)
    r_bar = _plus(_plus(r_bar, 1.0, _cross(swept_bar, w)), k_bar, n)
    w_bar = _plus(free_bar, 1.0, _cross(r, swept_bar))
    d_bar = _plus(_plus(d_bar, -1.0, c_rate_bar), grown_bar, r)
    n_bar = _plus(_plus(_plus(n_bar, -1.0, c_bar), grown_bar, swept), k_bar, r)
    across_rate_bar = _scaled(-1.0, free_rate_bar)  # of n x n''
    across_bar = _scaled(-1.0, free_bar)  # of n x n'
    _add(bar, TURN, _cross(r, r_bar))

    # the spin of the lower links, whose axis stands still
    r = _at(robot.base_axes[i], 0)
    k = _dot(r, n)
    inside = 1.0 / (k * k - 1.0)
    grown, turned, bending = _dot(r, d), _dot(r, _cross(n, d)), _dot(r, _cross(n, f))
    product_bar = _dot(lower_normal_bar, _cross(r, n))
    n_bar = _plus(n_bar, k * inside, _cross(lower_normal_bar, r))
    spun_bar = inside * lower_spun_bar
    spin_bar = lower_spin_bar - 2.0 * spun_bar * k * grown
    grown_bar = -spun_bar * (turned + 2.0 * k * lower_spin)
    turned_bar = -spun_bar * grown - spin_bar * k * inside
    inside_bar = k * product_bar + (lower_spun_bar * lower_spun + spin_bar * lower_spin) / inside
    k_bar = inside * product_bar - spun_bar * (bending + 2.0 * grown * lower_spin) - spin_bar * turned * inside
    k_bar -= 2.0 * k * inside * inside * inside_bar
    across_bar = _plus(across_bar, turned_bar, r)
    across_rate_bar = _plus(across_rate_bar, -spun_bar * k, r)
    d_bar = _plus(d_bar, grown_bar, r)
    n_bar = _plus(n_bar, k_bar, r)

    # the leg's own motion
    n_bar = _plus(_plus(n_bar, 1.0, _cross(d, across_bar)), 1.0, _cross(f, across_rate_bar))
    d_bar = _plus(d_bar, 1.0, _cross(across_bar, n))
    f_bar = _scaled(inverse, _plus(f_bar, 1.0, _cross(across_rate_bar, n)))
    acceleration_bar = -_dot(f_bar, n)
    length_bar += acceleration_bar * _dot(d, d) - _dot(f_bar, f)
    b_bar = _plus(_plus(b_bar, 1.0, f_bar), acceleration_bar, n)
    d_bar = _plus(_plus(d_bar, -2.0 * rate, f_bar), 2.0 * length * acceleration_bar, d)
    n_bar = _plus(_plus(n_bar, -acceleration, f_bar), acceleration_bar, b)
    rate_bar = -2.0 * _dot(f_bar, d)
    d_bar = _scaled(inverse, d_bar)
    rate_bar -= _dot(d_bar, n)
    length_bar -= _dot(d_bar, d)
    n_bar = _plus(_plus(n_bar, -rate, d_bar), rate_bar, u)
    u_bar = _plus(d_bar, rate_bar, n)
    t_bar = _plus(u_bar, 1.0, _cross(b_bar, w))
    w_bar = _plus(_plus(w_bar, 1.0, _cross(t, b_bar)), 1.0, _cross(e, t_bar))
    eps_bar = _plus(free_rate_bar, 1.0, _cross(e, b_bar))
    place_bar = _plus(_scaled(inverse, _plus(n_bar, -_dot(n_bar, n), n)), length_bar, n)
    e_bar = _plus(_plus(e_bar, 1.0, _cross(b_bar, eps)), 1.0, _cross(t_bar, w))
    e_bar = _plus(e_bar, 1.0, place_bar)
    _add(bar, TURN, _cross(e, e_bar))
    _add(bar, PLACE, place_bar)
    _add(bar, SPEED, u_bar)
    _add(bar, TURNING, w_bar)
    _add(bar, ACCELERATION, b_bar)
    _add(bar, TURNING_UP, eps_bar)


@compiled
def _reverse_platform(robot: ParallelArrays, work: Workspace, weights: Array, bar: Array) -> None:
    """Add to bar (18,) what the platform itself brings, for M (6, 24)."""
    platform, v = work.platform, work.vectors
    scale = 1.0 / robot.size
    w, eps, push = _at(v, 0), _at(v, 3), _at(v, 6)  # in {p}, as all that follows
    w_bar, eps_bar, push_bar, turn = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    _add(bar, ACCELERATION, _row(weights, 0, 8))
    for axis in range(3):
        unit = (1.0 if axis == 0 else 0.0, 1.0 if axis == 1 else 0.0, 1.0 if axis == 2 else 0.0)
        m = _turned_back(platform, _row(weights, 0, 9 + axis))
        y = _scaled(scale, _turned_back(platform, _row(weights, 3, 9 + axis)))
        force = _plus(_cross(eps, unit), 1.0, _cross(w, _cross(w, unit)))
        turn = _plus(_plus(turn, -1.0, _cross(m, force)), -1.0, _cross(y, _cross(unit, push)))
        eps_bar = _plus(eps_bar, 1.0, _cross(unit, m))
        w_bar = _plus(_plus(_plus(w_bar, _dot(w, unit), m), _dot(m, w), unit), -2.0 * _dot(m, unit), w)
        push_bar = _plus(push_bar, 1.0, _cross(y, unit))
    for entry in range(6):
        first, second = _INERTIA[entry]
        difference = _plus(_row(weights, 3, 12 + entry), -1.0, _row(weights, 3, 18 + entry))
        y = _scaled(scale, _turned_back(platform, difference))
        spun = _through_inertia(first, second, w)
        eps_bar = _plus(eps_bar, 1.0, _through_inertia(first, second, y))
        w_bar = _plus(_plus(w_bar, 1.0, _through_inertia(first, second, _cross(y, w))), 1.0, _cross(spun, y))
        moment = _plus(_through_inertia(first, second, eps), 1.0, _cross(w, spun))
        turn = _plus(turn, -1.0, _cross(y, moment))
    turn = _plus(_plus(_plus(turn, -1.0, _cross(w, w_bar)), -1.0, _cross(eps, eps_bar)), -1.0, _cross(push, push_bar))
    _add(bar, TURN, _turned(platform, turn))
    _add(bar, TURNING, _turned(platform, w_bar))
    _add(bar, TURNING_UP, _turned(platform, eps_bar))
    _add(bar, ACCELERATION, _turned(platform, push_bar))
    for column in (18, 21, 23):  # the trace of m_p r_c r_c^T
        _add(bar, TURNING_UP, _scaled(scale, _row(weights, 3, column)))


@compiled
def _through_inertia(first: int, second: int, a: Vector) -> Vector:
    """Return I a for the inertia whose elements (first, second) and (second, first) are one and all others zero."""
    x = (a[second] if first == 0 else 0.0) + (a[first] if second == 0 and first != 0 else 0.0)
    y = (a[second] if first == 1 else 0.0) + (a[first] if second == 1 and first != 1 else 0.0)
    z = (a[second] if first == 2 else 0.0) + (a[first] if second == 2 and first != 2 else 0.0)
    return x, y, z


@compiled
def _reverse_coordinates(q: Array, qd: Array, qdd: Array, platform: Array, bar: Array, out: Array) -> None:
    """Write the derivatives by coordinates, their rates and accelerations, out (3, 6), for bar (18,): (3)-(5)."""
    sa, ca = math.sin(q[3]), math.cos(q[3])
    sb, cb = math.sin(q[4]), math.cos(q[4])
    alpha, beta, gamma = qd[3], qd[4], qd[5]
    w_bar, eps_bar = _at(bar, TURNING), _at(bar, TURNING_UP)
    axes = ((0.0, 0.0, 1.0), (-sa, ca, 0.0), (ca * cb, sa * cb, -sb))
    for j in range(3):
        out[0, j], out[1, j], out[2, j] = bar[PLACE + j], bar[SPEED + j], bar[ACCELERATION + j]
        out[0, 3 + j] = _dot(axes[j], _at(bar, TURN))
        out[1, 3 + j] = _dot(axes[j], w_bar)
        out[2, 3 + j] = _dot(axes[j], eps_bar)
    out[0, 3] += (
        platform[15] * w_bar[1] - platform[16] * w_bar[0] + platform[21] * eps_bar[1] - platform[22] * eps_bar[0]
    )
    out[0, 4] += gamma * _dot((-ca * sb, -sa * sb, -cb), w_bar)
    x = gamma * (alpha * sa * sb - beta * ca * cb) - ca * sb * qdd[5]
    y = -gamma * (alpha * ca * sb + beta * sa * cb) - sa * sb * qdd[5]
    out[0, 4] += _dot((x, y, gamma * beta * sb - cb * qdd[5]), eps_bar)
    out[1, 3] += _dot((-beta * ca - gamma * sa * cb, -beta * sa + gamma * ca * cb, 0.0), eps_bar)
    out[1, 4] += _dot((-alpha * ca - gamma * ca * sb, -alpha * sa - gamma * sa * sb, -gamma * cb), eps_bar)
    out[1, 5] += _dot((-alpha * sa * cb - beta * ca * sb, alpha * ca * cb - beta * sa * sb, -beta * cb), eps_bar)


@compiled
def regressor_adjoint(
    robot: ParallelArrays,
    motion: tuple[Array, Array, Array],
    source: NDArray[np.int64],
    weights: Array,
    work: Workspace,
    out: tuple[Array, Array, Array],
) -> tuple[int, int]:
    """Write dJ/dq, dJ/dqd, dJ/dqdd, each (N, 6), for ``weights = dJ/dK`` (N, 6, c); ``source`` as of ``regressor``."""
    own, across, turning = np.zeros((6, 24)), np.zeros((6, 24)), np.zeros((6, 6))
    bar, result = np.zeros(18), np.zeros((3, 6))
    inverse, psi = work.inverse, work.psi
    for k in range(motion[0].shape[0]):
        q, qd, qdd = motion[0][k], motion[1][k], motion[2][k]
        fault = move_one(robot, q, qd, qdd, work)
        if fault != NO_FAULT:
            return k, fault
        if not invert_jacobian(robot, work):
            return k, SINGULAR_JACOBIAN
        write_psi(robot, work)
        own[:] = 0.0
        for i in range(6):
            for column in range(source.shape[0]):
                own[i, source[column]] += weights[k, i, column]
        _times(inverse, own, across)
        turning[:] = 0.0
        for i in range(6):
            for column in range(24):
                element = 0.0  # of K
                for row in range(6):
                    element += inverse[row, i] * psi[row, column]
                for row in range(6):
                    turning[i, row] += element * across[row, column]
        bar[:] = 0.0
        for i in range(6):
            _reverse_leg(robot, i, work, across, turning, bar)
        _reverse_platform(robot, work, across, bar)
        _reverse_coordinates(q, qd, qdd, work.platform, bar, result)
        for order in range(3):
            for j in range(6):
                out[order][k, j] = result[order, j]
    return -1, NO_FAULT


@compiled
def _times(inverse: Array, own: Array, out: Array) -> None:
    """Write the product (6, 24) of the inverse Jacobian (6, 6) and weights (6, 24)."""
    for row in range(6):
        for column in range(24):
            out[row, column] = 0.0
        for i in range(6):
            for column in range(24):
                out[row, column] += inverse[row, i] * own[i, column]


@compiled
def leg_slopes(robot: ParallelArrays, q: Array, qd: Array, qdd: Array, work: Workspace, out: Array) -> tuple[int, int]:
    """Write the derivatives (N, 18, 6) in q of the legs' lengths, rates and accelerations, in this order.

    Differences to one side: what that costs is far below what a search for limits can tell.
    """
    moved, here = np.zeros(6), np.zeros(18)
    for k in range(q.shape[0]):
        for j in range(-1, 6):
            for column in range(6):
                moved[column] = q[k, column]
            if j >= 0:
                moved[j] += _STEP
            fault = move_one(robot, moved, qd[k], qdd[k], work)
            if fault != NO_FAULT:
                return k, fault
            for i in range(6):
                for order in range(3):
                    value = work.legs[i, 15 + order]
                    if j < 0:
                        here[6 * order + i] = value
                    else:
                        out[k, 6 * order + i, j] = (value - here[6 * order + i]) / _STEP
    return -1, NO_FAULT
