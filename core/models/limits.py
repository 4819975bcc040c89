"""Limits of the joints of a robot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError
from core.models.frozen_arrays import freeze

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class JointLimits:
    """Limits of n joints, each (n,), SI units; infinite where there is none.

    Attributes
    ----------
    position_lower, position_upper : rad (m for prismatic joints).
    velocity, acceleration, jerk : rad/s, rad/s², rad/s³, not negative.
    torque : N·m (N), not negative.

    Raises
    ------
    ModelError
        Shapes disagree, a value is NaN or negative, or lower > upper.
    """

    position_lower: Array
    position_upper: Array
    velocity: Array
    acceleration: Array
    jerk: Array
    torque: Array

    def __post_init__(self) -> None:
        shape = np.shape(self.position_lower)
        for name in self.names():
            freeze(self, name, shape, finite=False)
        for name in ("velocity", "acceleration", "jerk", "torque"):
            value = getattr(self, name)
            if np.any(value < 0):
                joint = int(np.argmax(value < 0)) + 1
                raise ModelError(f"limits: {name} of joint {joint} is negative ({value[joint - 1]:g})", joint=joint)
        wrong = self.position_lower > self.position_upper
        if np.any(wrong):
            j = int(np.argmax(wrong))
            raise ModelError(
                f"limits: lower position {self.position_lower[j]:g} of joint {j + 1} "
                f"is above the upper one, {self.position_upper[j]:g}",
                joint=j + 1,
            )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(f.name for f in fields(cls))

    @classmethod
    def unlimited(cls, n_joints: int) -> Self:
        """Return limits that forbid nothing."""
        return cls(np.full(n_joints, -np.inf), *(np.full(n_joints, np.inf) for _ in range(5)))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), tuple(getattr(self, name) for name in self.names()))

    def to_document(self) -> dict[str, list[float | None]]:
        """Return JSON-serialisable lists; ``None`` stands for no limit."""
        return {name: [float(v) if np.isfinite(v) else None for v in getattr(self, name)] for name in self.names()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        def read(name: str) -> Array:
            without = -np.inf if name == "position_lower" else np.inf
            return np.array([without if v is None else v for v in document[name]], dtype=np.float64)

        return cls(**{name: read(name) for name in cls.names()})
