"""Gear orders that ripple, found in the residual as a spectrum over position: nobody has to know the gears.

A strain-wave gear ripples at twice its ratio per turn of the joint. Ripple is only visible while it is slower than the
torque filter lets through, so samples count that move slowly enough.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.pipelines.friction_shapes import FittedFriction, FrictionData
from core.pipelines.left_out_errors import residuals

Array = NDArray[np.float64]

_ORDERS = np.arange(20, 401)
"""Per turn of the joint; lower ones are the rigid body's, higher ones leave hardly a sample slow enough."""
_SAMPLES = 200
"""Samples slow enough to judge an order of a joint by."""


def strongest_order(data: FrictionData, fitted: FittedFriction) -> int | None:
    """Return the order that explains most of the residual, as a share of each joint's, all joints together.

    None where nothing moves slowly enough to tell.
    """
    n = fitted.friction.n_joints
    waves = np.zeros((n, _ORDERS.size), dtype=np.complex128)
    samples, energy = np.zeros((n, _ORDERS.size)), np.zeros(n)
    for segment, residual in residuals(data, fitted):
        q, qd = segment.motion.q[segment.rows], segment.motion.qd[segment.rows]
        slowest = 2.0 * np.pi * segment.low_pass.cutoff / _ORDERS
        for j in range(n):
            moving = np.abs(qd[:, j]) > 0.0
            visible = (np.abs(qd[:, j, None]) < slowest) & moving[:, None]
            wave = np.exp(-1j * np.outer(q[:, j], _ORDERS))
            waves[j] += (residual[:, j, None] * wave * visible).sum(axis=0)
            samples[j] += visible.sum(axis=0)
            energy[j] += float(np.sum(residual[:, j] ** 2))
    enough = samples > _SAMPLES
    explained = 2.0 * np.abs(waves) ** 2 / np.maximum(samples * energy[:, None], 1e-300)
    share = np.where(enough, explained, 0.0).sum(axis=0)
    return int(_ORDERS[np.argmax(share)]) if share.any() else None
