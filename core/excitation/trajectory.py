"""What every excitation trajectory is: a duration, exact derivatives, a definition that round-trips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError

Array = NDArray[np.float64]
Motion = tuple[Array, Array, Array]
"""q, qd, qdd, each (N, n); or the derivatives of some figure in them."""


@dataclass(frozen=True)
class TrajectorySamples:
    """A trajectory on a uniform grid that includes both ends.

    Attributes
    ----------
    period : s between samples.
    t : (N,) s from 0.
    q, qd, qdd : (N, n) rad, rad/s, rad/s² (m, m/s, m/s² for prismatic joints).
    """

    period: float
    t: Array
    q: Array
    qd: Array
    qdd: Array

    def __post_init__(self) -> None:
        if self.t.ndim != 1 or self.t.size < 2 or self.q.ndim != 2:
            raise InputError("trajectory samples need t of shape (N,), N >= 2, and q of shape (N, n)")
        for name in ("q", "qd", "qdd"):
            value = getattr(self, name)
            if value.shape != (self.t.size, self.n_joints):
                raise InputError(
                    f"trajectory samples: {name} has shape {value.shape}, expected {(self.t.size, self.n_joints)}"
                )
            if not np.all(np.isfinite(value)):
                row, joint = np.argwhere(~np.isfinite(value))[0]
                raise InputError(
                    f"trajectory samples: {name} of joint {joint + 1} at t = {self.t[row]:.4f} s is not finite"
                )

    @property
    def n_joints(self) -> int:
        return int(self.q.shape[1])

    @property
    def duration(self) -> float:
        """Time from the first to the last sample, s."""
        return float(self.t[-1] - self.t[0])


class Trajectory(Protocol):
    """A trajectory family: evaluated exactly at any time, rebuilt exactly from its definition."""

    @property
    def n_joints(self) -> int: ...

    @property
    def duration(self) -> float: ...

    def evaluate(self, t: Array) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd, each (N, n), at the times ``t`` (N,) in s."""
        ...

    def sample(self, period: float) -> TrajectorySamples: ...

    def definition(self) -> dict[str, Any]: ...


MAX_SAMPLES = 2_000_000
"""More samples than that are a slip of units: it is over half an hour at 1 kHz."""


def uniform_grid(duration: float, period: float) -> Array:
    """Return 0, period, ..., duration.

    Raises
    ------
    InputError
        The period is not positive, makes too many samples, or does not divide the duration, so that the end
        would be cut off.
    """
    if not (np.isfinite(period) and period > 0.0):
        raise InputError(f"the sampling period must be positive, got {period} s")
    if duration / period >= MAX_SAMPLES:
        raise InputError(
            f"a trajectory of {duration:g} s every {period:g} s is more than {MAX_SAMPLES} samples; "
            "both are in seconds",
            code="trajectory-too-long",
        )
    steps = round(duration / period)
    if steps < 1 or abs(steps * period - duration) > 1e-6 * period:
        raise InputError(
            f"a period of {period} s does not divide the trajectory's {duration} s; "
            "the last samples would be lost. Choose a period that divides it",
            code="period-does-not-divide",
        )
    return np.linspace(0.0, duration, steps + 1)
