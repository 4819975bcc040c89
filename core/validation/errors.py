"""Figures of the difference between measured and predicted torque."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SUBSETS = ("all", "moving", "standing")
"""Samples that figures are given for: all, and those in which the joint itself moves or stands."""


@dataclass(frozen=True)
class TorqueErrors:
    """Errors of n joints over a set of samples; NaN for a joint without samples.

    Attributes
    ----------
    samples : (n,) how many.
    rms, mae, max : (n,) root mean square, mean absolute and largest absolute residual, unit of the torque.
    relative : (n,) RMS of the residual over RMS of the measured torque.
    r2 : (n,) share of the measured torque's variance that is predicted.
    """

    samples: NDArray[np.int64]
    rms: Array
    mae: Array
    max: Array
    relative: Array
    r2: Array

    @classmethod
    def of(cls, measured: Array, predicted: Array, chosen: NDArray[np.bool_]) -> Self:
        """Return the errors over the samples chosen joint by joint; all arrays are (N, n)."""
        joints = range(measured.shape[1])
        figures = [
            _figures(measured[chosen[:, j], j], predicted[chosen[:, j], j]) for j in joints
        ]  # each joint has its own number of samples
        rms, mae, largest, relative, r2 = np.array(figures).T
        return cls(chosen.sum(axis=0), rms, mae, largest, relative, r2)

    def to_document(self) -> dict[str, list[float | None]]:
        """Return JSON-serialisable lists, ``None`` for NaN."""
        return {f.name: [_number(v) for v in getattr(self, f.name)] for f in fields(self)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        figures = {
            f.name: np.array([np.nan if v is None else v for v in document[f.name]])
            for f in fields(cls)
            if f.name != "samples"
        }
        return cls(samples=np.array(document["samples"], dtype=np.int64), **figures)


def _figures(measured: Array, predicted: Array) -> tuple[float, float, float, float, float]:
    if not measured.size:
        return (np.nan,) * 5
    residual = measured - predicted
    square = float(np.mean(residual**2))
    power, variance = float(np.mean(measured**2)), float(np.var(measured))
    return (
        square**0.5,
        float(np.mean(np.abs(residual))),
        float(np.abs(residual).max()),
        (square / power) ** 0.5 if power > 0.0 else np.nan,
        1.0 - square / variance if variance > 0.0 else np.nan,
    )


def _number(value: Any) -> float | int | None:
    if isinstance(value, np.integer):
        return int(value)
    return float(value) if np.isfinite(value) else None
