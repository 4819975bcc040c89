"""Joint motion on a uniform grid: what regressors and friction laws are evaluated on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class JointMotion:
    """One uninterrupted joint-space motion.

    Attributes
    ----------
    period : s between samples.
    q, qd, qdd : (N, n) rad, rad/s, rad/s² (m, m/s, m/s² for prismatic joints).
    link_torque : (N, n) torque that the links alone need, where it is known: friction grows with it.
    """

    period: float
    q: Array
    qd: Array
    qdd: Array
    link_torque: Array | None = None

    @property
    def n_samples(self) -> int:
        return int(self.q.shape[0])

    @property
    def n_joints(self) -> int:
        return int(self.q.shape[1])
