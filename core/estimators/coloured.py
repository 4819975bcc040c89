"""The covariance of an estimate whose residuals are coloured: neighbours alike, as filtered torque is.

Every sample moves the estimate by its own influence (``Estimator.influence``). For white residuals the
covariance is the sum of their outer products. For coloured ones products of neighbours count as well, with
weights that fall linearly to zero over a bandwidth (Newey and West 1987), which is chosen by the correlations
found (Newey and West 1994). That weighting is the mean, over all windows of that length, of the
outer product of the window's summed influence, and is computed as such. Motions are independent of each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from core.estimators.estimator import Estimator
from core.estimators.observations import Observations

Array = NDArray[np.float64]

_PILOT = 12.0
"""Lags that the choice of the bandwidth looks at, for 100 samples; they grow with the power 2/9 of their number."""
_LEAST_WINDOWS = 10
"""The bandwidth leaves room for at least this many windows side by side."""


@dataclass(frozen=True, eq=False)
class ColouredCovariance:
    """A covariance that respects coloured residuals.

    Attributes
    ----------
    matrix : (p, p).
    bandwidth : samples over which residuals count as correlated; 1 for white ones.
    inflation : (n,) how many samples of each joint are worth an independent one.
    effective_samples : independent samples that all joints' samples together are worth.
    """

    matrix: Array
    bandwidth: int
    inflation: Array
    effective_samples: float

    @property
    def kind(self) -> str:
        """How the covariance was found, for people."""
        return f"HAC (Newey-West), Bartlett kernel of {self.bandwidth} samples"


def coloured_covariance(
    estimator: Estimator, observations: Observations, bandwidth: int | None = None
) -> ColouredCovariance:
    """Return the covariance of a fitted estimator's parameters.

    What changes more slowly than the bandwidth, such as friction that drifts from one recording to the next,
    is not in it.

    Parameters
    ----------
    observations : what the estimator was fitted to.
    bandwidth : samples; by default from the data.
    """
    width = bandwidth or _bandwidth(estimator, observations)
    matrix = np.zeros((observations.n_parameters, observations.n_parameters))
    correlated = np.zeros(observations.n_joints)
    power = np.zeros(observations.n_joints)
    rows = 0
    for influence, residual in _motions(estimator, observations):
        sums = _window_sums(influence, width)
        matrix += sums.T @ sums / width
        correlated += np.sum(_window_sums(residual, width) ** 2, axis=0) / width
        power += np.sum(residual**2, axis=0)
        rows += len(residual)
    inflation = np.maximum(np.divide(correlated, power, out=np.ones_like(power), where=power > 0.0), 1.0)
    effective = float(np.sum(rows / inflation))
    # residuals are smaller than the errors they come from, most where a sample counts most: as a jackknife has it
    fitted = min(observations.n_parameters / effective, 0.5)
    widened = (_critical_value(width / rows) / _critical_value(0.0)) ** 2 if width > 1 else 1.0
    return ColouredCovariance(matrix * widened / (1.0 - fitted) ** 2, width, inflation, effective)


def _motions(estimator: Estimator, observations: Observations) -> Iterator[tuple[Array, Array]]:
    """Yield the influence (N, p) and the residual (N, n) of each motion."""
    for _, blocks in groupby(estimator.influences(observations), key=lambda part: part.motion):
        parts = list(blocks)
        yield np.concatenate([part.shifts for part in parts]), np.concatenate([part.residual for part in parts])


def _window_sums(values: Array, width: int) -> Array:
    """Return the sums over all windows of ``width`` samples, those that stick out at the ends included."""
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    ends = np.arange(1, len(values) + width)
    return np.asarray(total[np.minimum(ends, len(values))] - total[np.maximum(ends - width, 0)])


def _critical_value(share: float) -> float:
    """Return by how many standard deviations a 95 % interval reaches when the bandwidth is this share of the data.

    The wider the bandwidth, the more the covariance itself is a guess (Kiefer and Vogelsang 2005, Bartlett
    kernel, table 1).
    """
    return 1.96 + 2.9694 * share + 0.4160 * share**2 - 0.5324 * share**3


def _bandwidth(estimator: Estimator, observations: Observations) -> int:
    rows = observations.factors.n_rows
    lags = round(_PILOT * (rows / 100.0) ** (2.0 / 9.0))
    products = np.zeros((lags + 1, observations.n_parameters))
    for influence, _ in _motions(estimator, observations):
        for lag in range(min(lags, len(influence) - 1) + 1):
            products[lag] += np.einsum("kp,kp->p", influence[lag:], influence[: len(influence) - lag])
    alike = np.divide(products, products[0], out=np.zeros_like(products), where=products[0] > 0.0)
    mean = alike[1:].mean(axis=1)  # over parameters, which share the memory of the residuals
    slope = 2.0 * float(np.arange(1, lags + 1) @ mean)
    spectrum = max(1.0 + 2.0 * float(mean.sum()), 1.0)
    width = 1.1447 * ((slope / spectrum) ** 2 * rows) ** (1.0 / 3.0)
    return int(max(1, min(round(width), rows // _LEAST_WINDOWS)))
