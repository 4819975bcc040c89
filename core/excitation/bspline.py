"""Cubic B-splines on uniform knots, clamped at both ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from core.errors import InputError
from core.excitation import fields
from core.excitation.trajectory import TrajectorySamples, uniform_grid

Array = NDArray[np.float64]

DEGREE = 3


@dataclass(frozen=True)
class CubicBSpline:
    """Cubic spline of ``n`` joints with ``M`` control points each, evenly spread over the duration.

    It starts at the first control point and ends at the last; where the first (last) three are equal, it
    starts (ends) at rest. Acceleration is continuous and piecewise linear, jerk piecewise constant.

    Parameters
    ----------
    duration : s.
    control : (n, M) rad, M >= 4.
    """

    duration: float
    control: Array

    family: ClassVar[str] = "bspline"

    def __post_init__(self) -> None:
        object.__setattr__(self, "control", fields.array(self.family, "control", self.control))
        if not (np.isfinite(self.duration) and self.duration > 0.0):
            raise InputError(f"{self.family}: the duration must be positive, got {self.duration} s")
        if self.control.ndim != 2 or self.control.shape[1] <= DEGREE:
            raise InputError(f"{self.family}: control must have shape (n, M) with M >= 4, got {self.control.shape}")

    @property
    def n_joints(self) -> int:
        return int(self.control.shape[0])

    def derivatives(self, t: Array) -> Array:
        """Return position and its first three derivatives, (4, N, n), at the times ``t`` (N,) in s."""

        inner = np.linspace(0.0, self.duration, self.control.shape[1] - DEGREE + 1)
        knots = np.concatenate([np.zeros(DEGREE), inner, np.full(DEGREE, self.duration)])
        spline = scipy.interpolate.BSpline(knots, np.ascontiguousarray(self.control.T), DEGREE)
        times = np.asarray(t, dtype=np.float64)
        return np.stack([spline(times, nu=order) for order in range(4)])

    def evaluate(self, t: Array) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd, each (N, n) in rad, rad/s, rad/s², at the times ``t`` (N,) in s."""
        q, qd, qdd, _ = self.derivatives(t)
        return q, qd, qdd

    def sample(self, period: float) -> TrajectorySamples:
        """Return the trajectory on a uniform grid of ``period`` s that ends exactly at the duration."""
        t = uniform_grid(self.duration, period)
        return TrajectorySamples(period, t, *self.evaluate(t))

    def definition(self) -> dict[str, Any]:
        """Return the JSON-serialisable definition that :meth:`from_definition` rebuilds exactly."""
        return {"family": self.family, "duration": float(self.duration), "control": self.control.tolist()}

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> CubicBSpline:
        fields.check_keys(cls.family, definition, ("duration", "control"))
        return cls(fields.seconds(cls.family, definition, "duration"), definition["control"])
