"""How torque changes with what it is not linear in: shapes of friction, and the load that friction grows with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp

import numpy as np
from numpy.typing import NDArray

from core.friction import FrictionModel, JointFriction
from core.friction.term import link_torque
from core.signals.motion import JointMotion

Array = NDArray[np.float64]
ShapeNames = tuple[tuple[str, ...], ...]
"""Names of the fitted shapes of each joint's friction, such as ``arctan.f4``."""

_STEP = 0.01
"""Of a shape's logarithm, and of a load as a share of its RMS, for differences."""


@dataclass(frozen=True, eq=False)
class TorqueSlopes:
    """Derivatives along a motion of N samples, at the parameters it was made for.

    Attributes
    ----------
    load : (N, n) of the friction of each joint in its own link torque.
    shapes : one (N, s_j) per joint, of its torque in the logarithms of its fitted shapes.
    """

    load: Array
    shapes: tuple[Array, ...]

    def extended(self, columns: Array, n_base: int, part: slice) -> Array:
        """Return columns (m, n, p) of the samples ``part`` as (m, n, p + s): base parameters act through the load too.

        Parameters
        ----------
        n_base : b; the first b columns are those of base parameters.
        """
        ends = np.cumsum([own.shape[1] for own in self.shapes])
        added = np.zeros((*columns.shape[:2], ends[-1]))
        for j, (end, own) in enumerate(zip(ends, self.shapes, strict=True)):
            added[:, j, end - own.shape[1] : end] = own[part]
        result = np.concatenate([columns, added], axis=2)
        result[:, :, :n_base] *= 1.0 + self.load[part, :, None]
        return result


def torque_slopes(
    friction: FrictionModel, coefficients: Array, motion: JointMotion, shapes: ShapeNames
) -> TorqueSlopes:
    """Return the slopes of friction with coefficients (k,) in the order of ``friction.names``.

    Parameters
    ----------
    motion : with its link torque, where friction depends on it.
    shapes : which shapes are looked at; the others are given, not fitted.
    """
    counts = np.cumsum([len(joint.parameter_names) for joint in friction.joints])[:-1]
    load, own = np.zeros((motion.n_samples, friction.n_joints)), []
    parts: Sequence[Array] = np.split(coefficients, counts)
    for j, (joint, values) in enumerate(zip(friction.joints, parts, strict=True)):
        if joint.needs_load:
            load[:, j] = _load_slope(joint, values, motion, j)
        slopes = [_shape_slope(joint, values, motion, j, name) for name in shapes[j]]
        own.append(np.column_stack(slopes) if slopes else np.zeros((motion.n_samples, 0)))
    return TorqueSlopes(load, tuple(own))


def _shape_slope(joint: JointFriction, values: Array, motion: JointMotion, j: int, name: str) -> Array:
    at = joint.shapes[name]
    up, down = (joint.with_shapes({name: at * exp(step)}).columns(motion, j) for step in (_STEP, -_STEP))
    return np.asarray((up - down) @ values / (2.0 * _STEP))


def _load_slope(joint: JointFriction, values: Array, motion: JointMotion, j: int) -> Array:
    own = link_torque(motion, j)
    load = np.asarray(motion.link_torque)
    step = np.zeros(load.shape[1])
    step[j] = _STEP * max(float(np.sqrt(np.mean(own**2))), np.finfo(np.float64).tiny)
    up, down = (joint.columns(replace(motion, link_torque=load + sign * step), j) for sign in (1.0, -1.0))
    return np.asarray((up - down) @ values / (2.0 * step[j]))
