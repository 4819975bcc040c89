"""Whether the model spends the energy that the drives spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from core.validation.motion import PredictedMotion

Array = NDArray[np.float64]


@dataclass(frozen=True)
class EnergyBalance:
    """Work of n joints over a set of motions, J: what friction took, and what went into height and speed.

    A torque error that averages out in the RMS, such as a wrong friction level, adds up here.

    Attributes
    ----------
    measured, predicted : (n,) integral of torque times velocity.
    turnover : (n,) integral of the absolute measured power, which imbalances are judged against.
    """

    measured: Array
    predicted: Array
    turnover: Array

    @property
    def relative(self) -> Array:
        """Imbalance (n,) as a share of the turnover; NaN for a joint that never moves."""
        missing = np.full_like(self.turnover, np.nan)
        return np.divide(self.predicted - self.measured, self.turnover, out=missing, where=self.turnover > 0.0)

    @classmethod
    def of(cls, motions: Sequence[PredictedMotion]) -> Self | None:
        """Return the balance over motions; None where their velocity is not known."""
        if any(motion.velocity is None for motion in motions):
            return None
        sums = np.sum([_work(motion) for motion in motions], axis=0)
        return cls(*sums)

    def to_document(self) -> dict[str, Any]:
        relative = [float(v) if np.isfinite(v) else None for v in self.relative]
        names = ("measured", "predicted", "turnover")
        return {name: getattr(self, name).tolist() for name in names} | {"relative": relative}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        return cls(*(np.array(document[name]) for name in ("measured", "predicted", "turnover")))


def _work(motion: PredictedMotion) -> Array:
    velocity = motion.velocity
    assert velocity is not None  # noqa: S101 - checked by the caller for all motions
    powers = (motion.measured * velocity, motion.predicted * velocity, np.abs(motion.measured * velocity))
    return np.array([np.trapezoid(power, motion.times, axis=0) for power in powers])
