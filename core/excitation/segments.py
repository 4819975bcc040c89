"""Several trajectories played one after the other as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.excitation.trajectory import Trajectory, TrajectorySamples, uniform_grid

Array = NDArray[np.float64]

_JOINED = 1e-9  # rad


@dataclass(frozen=True)
class Segments:
    """Trajectories in sequence; each begins where the one before ends.

    Every one should begin and end at rest, as those of a design do: where one does not, speed jumps, which the
    check before a motion finds.

    Raises
    ------
    InputError
        There are none, they move different numbers of joints, or they do not join.
    """

    parts: tuple[Trajectory, ...]

    family: ClassVar[str] = "segments"

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise InputError(f"{self.family}: at least one segment is needed")
        if len({part.n_joints for part in self.parts}) > 1:
            raise InputError(f"{self.family}: all segments must move the same number of joints")
        for number, (one, other) in enumerate(zip(self.parts, self.parts[1:], strict=False), 1):
            gap = one.evaluate(np.array([one.duration]))[0] - other.evaluate(np.zeros(1))[0]
            if np.abs(gap).max() > _JOINED:
                raise InputError(
                    f"{self.family}: segment {number + 1} begins {np.abs(gap).max():.3g} rad away from where "
                    f"segment {number} ends"
                )

    @property
    def n_joints(self) -> int:
        return self.parts[0].n_joints

    @property
    def duration(self) -> float:
        return float(sum(part.duration for part in self.parts))

    def evaluate(self, t: Array) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd, each (N, n) in rad, rad/s, rad/s², at the times ``t`` (N,) in s."""
        t = np.asarray(t, dtype=np.float64)
        begins = np.cumsum([0.0, *(part.duration for part in self.parts)])
        which = np.clip(np.searchsorted(begins, t, side="right") - 1, 0, len(self.parts) - 1)
        out = np.empty((3, t.size, self.n_joints))
        for number, part in enumerate(self.parts):
            rows = which == number
            if rows.any():
                out[:, rows] = part.evaluate(t[rows] - begins[number])
        return out[0], out[1], out[2]

    def sample(self, period: float) -> TrajectorySamples:
        """Return the trajectory on a uniform grid of ``period`` s that ends exactly at the end."""
        t = uniform_grid(self.duration, period)
        return TrajectorySamples(period, t, *self.evaluate(t))

    def definition(self) -> dict[str, Any]:
        """Return the JSON-serialisable definition that ``trajectory_from_definition`` rebuilds exactly."""
        return {"family": self.family, "segments": [part.definition() for part in self.parts]}
