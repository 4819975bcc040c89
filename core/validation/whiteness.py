"""Whether residuals are noise, or something that a better model would explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from core.validation.motion import PredictedMotion

Array = NDArray[np.float64]

_HORIZON = 1.0
"""s; correlations are looked at up to this lag."""
_LEAST_LAGS = 5
_WHITE = 0.01
"""Probability below which white noise would not look like this."""


@dataclass(frozen=True)
class Whiteness:
    """Memory of the residuals of n joints.

    Filtered residuals are alike from one sample to the next by construction, so they are taken as far apart
    as the filter's bandwidth lets them be independent. The test is that of Ljung and Box (1978).

    Attributes
    ----------
    spacing : s between the residuals compared.
    correlation_time : (n,) s over which they stay alike; ``spacing`` for white ones. NaN for too few.
    p_value : (n,) probability that white noise is at least as correlated as they are.
    """

    spacing: float
    correlation_time: Array
    p_value: Array

    @property
    def white(self) -> NDArray[np.bool_]:
        """(n,) whether a joint's residual passes for noise."""
        return np.asarray(self.p_value >= _WHITE)

    @classmethod
    def of(cls, motions: Sequence[PredictedMotion]) -> Self | None:
        """Return the memory of the residuals of motions; None where all are too short."""
        period = float(np.median(np.concatenate([np.diff(m.times) for m in motions])))
        bandwidth = motions[0].bandwidth
        stride = 1 if bandwidth is None else max(1, round(0.5 / bandwidth / period))
        lags = max(_LEAST_LAGS, round(_HORIZON / (stride * period)))
        residuals = [(m.measured - m.predicted)[::stride] for m in motions]
        residuals = [r - r.mean(axis=0) for r in residuals if len(r) > 2 * lags]
        if not residuals:
            return None
        power = np.sum([np.sum(r**2, axis=0) for r in residuals], axis=0)
        rows = sum(len(r) for r in residuals)
        products = [[np.sum(r[lag:] * r[:-lag], axis=0) for lag in range(1, lags + 1)] for r in residuals]
        alike = np.full((lags, power.size), np.nan)
        np.divide(np.sum(products, axis=0), power, out=alike, where=power > 0.0)
        weights = rows * (rows + 2.0) / (rows - np.arange(1, lags + 1.0))
        statistic = weights @ alike**2
        positive = np.cumprod(alike > 0.0, axis=0) * alike  # up to the first lag that is not alike
        spacing = stride * period
        return cls(
            spacing, spacing * (1.0 + 2.0 * positive.sum(axis=0)), np.asarray(scipy.stats.chi2.sf(statistic, lags))
        )

    def to_document(self) -> dict[str, Any]:
        def numbers(values: Array) -> list[float | None]:
            return [float(v) if np.isfinite(v) else None for v in values]

        return {
            "spacing": self.spacing,
            "correlation_time": numbers(self.correlation_time),
            "p_value": numbers(self.p_value),
            "white": self.white.tolist(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        def array(values: Sequence[float | None]) -> Array:
            return np.array([np.nan if v is None else v for v in values])

        return cls(document["spacing"], array(document["correlation_time"]), array(document["p_value"]))
