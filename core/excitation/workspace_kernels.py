"""Distances of an arm's capsules from the floor, a box and each other, with their gradients."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.dynamics.chain_arrays import Array, ChainArrays

_compiled = njit(cache=True, error_model="numpy", nogil=True)


@_compiled
def _place_links(chain: ChainArrays, q: Array, rotation: Array, origins: Array, axes: Array, ends: Array) -> None:
    """Write, in the root frame, joint origins (n, 3), axes (n, 6: turn, slide), capsule ends (n + 1, 6).

    Capsule l runs along link l (0 is the base) from its joint's origin to where the next joint, or the tool,
    is mounted on it. ``rotation`` (3, 3) and a copy of it are scratch.
    """
    n = q.shape[0]
    rotation[:] = 0.0
    for row in range(3):
        rotation[row, row] = 1.0
        ends[0, row] = 0.0
        ends[0, 3 + row] = chain.offset[0, row]
    x, y, z = 0.0, 0.0, 0.0
    for j in range(n):
        sine, cosine = math.sin(q[j]), math.cos(q[j])
        px = chain.offset[j, 0] + q[j] * chain.slide[j, 0]
        py = chain.offset[j, 1] + q[j] * chain.slide[j, 1]
        pz = chain.offset[j, 2] + q[j] * chain.slide[j, 2]
        x += rotation[0, 0] * px + rotation[0, 1] * py + rotation[0, 2] * pz
        y += rotation[1, 0] * px + rotation[1, 1] * py + rotation[1, 2] * pz
        z += rotation[2, 0] * px + rotation[2, 1] * py + rotation[2, 2] * pz
        origins[j, 0], origins[j, 1], origins[j, 2] = x, y, z
        for row in range(3):
            a, b, c = rotation[row, 0], rotation[row, 1], rotation[row, 2]
            for column in range(3):
                rotation[row, column] = (
                    a
                    * (
                        chain.rotation_constant[j, 0, column]
                        + sine * chain.rotation_sin[j, 0, column]
                        + cosine * chain.rotation_cos[j, 0, column]
                    )
                    + b
                    * (
                        chain.rotation_constant[j, 1, column]
                        + sine * chain.rotation_sin[j, 1, column]
                        + cosine * chain.rotation_cos[j, 1, column]
                    )
                    + c
                    * (
                        chain.rotation_constant[j, 2, column]
                        + sine * chain.rotation_sin[j, 2, column]
                        + cosine * chain.rotation_cos[j, 2, column]
                    )
                )
        for row in range(3):
            a, b, c = rotation[row, 0], rotation[row, 1], rotation[row, 2]
            turn, slide = chain.axis_angular[j], chain.axis_linear[j]
            axes[j, row] = a * turn[0] + b * turn[1] + c * turn[2]
            axes[j, 3 + row] = a * slide[0] + b * slide[1] + c * slide[2]
            ends[j + 1, row] = origins[j, row]
            if j + 1 < n:
                tip_x, tip_y, tip_z = chain.offset[j + 1, 0], chain.offset[j + 1, 1], chain.offset[j + 1, 2]
            else:
                tip_x, tip_y, tip_z = chain.tool[0, 3], chain.tool[1, 3], chain.tool[2, 3]
            ends[j + 1, 3 + row] = origins[j, row] + a * tip_x + b * tip_y + c * tip_z


@_compiled
def _nearest(first: Array, second: Array) -> tuple[float, float]:
    """Return where on two segments (6,) the nearest points lie, 0..1 each.

    Ericson, *Real-Time Collision Detection* (2005), section 5.1.9.
    """
    ux, uy, uz = first[3] - first[0], first[4] - first[1], first[5] - first[2]
    vx, vy, vz = second[3] - second[0], second[4] - second[1], second[5] - second[2]
    rx, ry, rz = first[0] - second[0], first[1] - second[1], first[2] - second[2]
    a = ux * ux + uy * uy + uz * uz
    e = vx * vx + vy * vy + vz * vz
    f = vx * rx + vy * ry + vz * rz
    tiny = 1e-18
    if a <= tiny:
        return 0.0, 0.0 if e <= tiny else min(max(f / e, 0.0), 1.0)
    c = ux * rx + uy * ry + uz * rz
    if e <= tiny:
        return min(max(-c / a, 0.0), 1.0), 0.0
    b = ux * vx + uy * vy + uz * vz
    denominator = a * e - b * b
    s = min(max((b * f - c * e) / denominator, 0.0), 1.0) if denominator > tiny else 0.0
    t = (b * s + f) / e
    if t < 0.0:
        return min(max(-c / a, 0.0), 1.0), 0.0
    if t > 1.0:
        return min(max((b - c) / a, 0.0), 1.0), 1.0
    return s, t


@_compiled
def _add_motion(
    axes: Array, origins: Array, link: int, x: float, y: float, z: float, nx: float, ny: float, nz: float, out: Array
) -> None:
    """Add to out (n,) how fast a point x, y, z of a link moves along a direction, per unit of each joint."""
    for j in range(link):
        rx, ry, rz = x - origins[j, 0], y - origins[j, 1], z - origins[j, 2]
        ux, uy, uz = axes[j, 0], axes[j, 1], axes[j, 2]
        out[j] += (
            nx * (uy * rz - uz * ry + axes[j, 3])
            + ny * (uz * rx - ux * rz + axes[j, 4])
            + nz * (ux * ry - uy * rx + axes[j, 5])
        )


@_compiled
def workspace_clearances(
    chain: ChainArrays,
    q: Array,
    radii: Array,
    pairs: NDArray[np.int64],
    floor: float,
    box: Array,
    with_gradient: bool,
    out: Array,
    gradient: Array,
) -> None:
    """Write clearances (N, C) in m, not negative where all is well, and their gradients (N, C, n).

    Columns: every pair of capsules (distance of the surfaces); then, if ``floor`` is finite, the far end of
    every moving link above the floor; then the tool inside the box (2, 3), x y z from below, then from above,
    if any of its numbers is finite (others stay at 1). ``gradient`` may be empty without ``with_gradient``.
    """
    n = q.shape[1]
    rotation = np.empty((3, 3))
    origins = np.empty((n, 3))
    axes = np.empty((n, 6))
    ends = np.empty((n + 1, 6))
    has_floor = math.isfinite(floor)
    for k in range(q.shape[0]):
        _place_links(chain, q[k], rotation, origins, axes, ends)
        column = 0
        for pair in range(pairs.shape[0]):
            first, second = pairs[pair, 0], pairs[pair, 1]
            s, t = _nearest(ends[first], ends[second])
            ax = ends[first, 0] + s * (ends[first, 3] - ends[first, 0])
            ay = ends[first, 1] + s * (ends[first, 4] - ends[first, 1])
            az = ends[first, 2] + s * (ends[first, 5] - ends[first, 2])
            bx = ends[second, 0] + t * (ends[second, 3] - ends[second, 0])
            by = ends[second, 1] + t * (ends[second, 4] - ends[second, 1])
            bz = ends[second, 2] + t * (ends[second, 5] - ends[second, 2])
            dx, dy, dz = bx - ax, by - ay, bz - az
            distance = math.sqrt(dx * dx + dy * dy + dz * dz)
            out[k, column] = distance - radii[first] - radii[second]
            if with_gradient:
                row = gradient[k, column]
                row[:] = 0.0
                if distance > 0.0:  # touching axes have no direction
                    dx, dy, dz = dx / distance, dy / distance, dz / distance
                    _add_motion(axes, origins, second, bx, by, bz, dx, dy, dz, row)
                    _add_motion(axes, origins, first, ax, ay, az, -dx, -dy, -dz, row)
            column += 1
        if has_floor:
            for link in range(1, n + 1):
                out[k, column] = ends[link, 5] - radii[link] - floor
                if with_gradient:
                    row = gradient[k, column]
                    row[:] = 0.0
                    _add_motion(axes, origins, link, ends[link, 3], ends[link, 4], ends[link, 5], 0.0, 0.0, 1.0, row)
                column += 1
        for side in range(2 if out.shape[1] > column else 0):
            sign = 1.0 - 2.0 * side
            for axis in range(3):
                finite = math.isfinite(box[side, axis])
                out[k, column] = sign * (ends[n, 3 + axis] - box[side, axis]) if finite else 1.0
                if with_gradient:
                    row = gradient[k, column]
                    row[:] = 0.0
                    if finite:
                        nx = sign if axis == 0 else 0.0
                        ny = sign if axis == 1 else 0.0
                        nz = sign if axis == 2 else 0.0
                        _add_motion(axes, origins, n, ends[n, 3], ends[n, 4], ends[n, 5], nx, ny, nz, row)
                column += 1
