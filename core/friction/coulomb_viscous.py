"""Coulomb and viscous friction with an offset: ``fc sgn(qd) + fv qd + b``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from core.signals.motion import JointMotion

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CoulombViscous:
    """The law most of the literature starts from (methods, section 1).

    ``sgn(0) = 0``; the smooth sign is ``tanh(qd / sign_width)``.

    Attributes
    ----------
    sign_width : rad/s (m/s) over which the smooth sign changes.
    """

    sign_width: float = 0.02

    name: ClassVar[str] = "coulomb_viscous"
    parameter_names: ClassVar[tuple[str, ...]] = ("fc", "fv", "b")
    nonnegative: ClassVar[tuple[str, ...]] = ("fc", "fv")

    def columns(self, motion: JointMotion, joint: int, *, smooth: bool) -> Array:
        """Return (N, 3): sign of the velocity, velocity, one."""
        qd = motion.qd[:, joint]
        sign = np.tanh(qd / self.sign_width) if smooth else np.sign(qd)
        return np.column_stack([sign, qd, np.ones_like(qd)])
