"""The covariance of an estimate whose residuals are coloured: neighbours alike, as filtered torque is.

Every window of consecutive samples is left out in turn, to first order, and the estimate moves. The mean outer product
of these moves, over all positions of a window that is long against the memory of the residuals, is the covariance
(Kuensch 1989, moving-block jackknife). It is the HAC estimate with Bartlett's kernel (Newey and West 1987) but for one
thing: residuals are smaller than the errors they come from, most where errors look like the regressor, as slow ones do,
and leaving a window out undoes that (Bell and McCaffrey 2002; MacKinnon, Nielsen and Webb 2023).

The length of a window is that of Lazarus, Lewis, Stock and Watson (2018) for Bartlett's kernel: longer than what is
best for the covariance itself, as a covariance that is too small harms an interval more than one that scatters. Motions
are independent of each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from core.estimators.estimator import Influence
from core.estimators.observations import Observations

Array = NDArray[np.float64]

_BANDWIDTH = 1.3
"""Samples in a window, over the square root of their number."""
_STEPS = 4
"""A window moves on by so many parts of its length."""
_ALONE = 1e-9
"""Keeps what no sample outside of a window tells from dividing by zero."""
_AT_ONCE = 128
"""Windows that are worked out together."""


@dataclass(frozen=True, eq=False)
class ColouredCovariance:
    """A covariance that respects coloured residuals.

    Attributes
    ----------
    matrix : (p, p).
    bandwidth : samples over which residuals may be correlated; 1 for white ones.
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
        return f"HAC (moving-block jackknife), Bartlett kernel of {self.bandwidth} samples"


class Estimated(Protocol):
    """A fitted estimator, or one whose estimate has more to it than what torque is linear in."""

    @property
    def prior_part_(self) -> Array | None:
        """(p, p), as of ``Estimator``."""
        ...

    def influences(self, observations: Observations, length: int) -> Iterator[Influence]:
        """Yield the influence of samples, as ``Estimator.influences`` does."""
        ...


def coloured_covariance(
    estimator: Estimated, observations: Observations, bandwidth: int | None = None
) -> ColouredCovariance:
    """Return the covariance of a fitted estimator's parameters.

    What changes more slowly than the bandwidth, such as friction that drifts from one recording to the next,
    is not in it.

    Parameters
    ----------
    observations : what the estimator was fitted to.
    bandwidth : samples; by default 1.3 times the square root of their number, both counted without those that only
        repeat their neighbours (``Observations.oversampling``), so that a faster grid is no more certain.
    """
    rows = observations.factors.n_rows
    wanted = bandwidth or max(1, round(_BANDWIDTH * (rows * observations.oversampling) ** 0.5))
    step = max(1, wanted // _STEPS)
    steps = round(wanted / step)
    matrix = np.zeros((observations.n_parameters, observations.n_parameters))
    correlated = np.zeros(observations.n_joints)
    power = np.zeros(observations.n_joints)
    for _, parts in groupby(estimator.influences(observations, step), key=lambda part: part.motion):
        for window in _windows(parts, steps):
            without = (1.0 + _ALONE) * np.eye(len(matrix)) - window.leverage
            moves = np.linalg.solve(without, window.shift[:, :, None])[:, :, 0]
            matrix += moves.T @ moves / steps
            left_out = window.residual + np.einsum("wjp,wp->wj", window.columns, moves)
            correlated += np.sum(left_out**2, axis=0) / steps
            power += np.sum(window.squared, axis=0) / steps
    inflation = np.maximum(np.divide(correlated, power, out=np.ones_like(power), where=power > 0.0), 1.0)
    width = step * steps
    widened = (_critical_value(width / rows) / _critical_value(0.0)) ** 2 if width > 1 else 1.0
    matrix *= widened
    if estimator.prior_part_ is not None:
        matrix += estimator.prior_part_
    return ColouredCovariance(matrix, width, inflation, float(np.sum(rows / inflation)))


def _windows(parts: Iterator[Influence], steps: int) -> Iterator[Influence]:
    """Yield the sums over all windows of so many parts, those that stick out at the ends included, many at a time."""
    around = steps - 1
    first = next(parts)
    beyond = [Influence._make(np.zeros_like(value) for value in first)] * around
    waiting = list(beyond)
    for part in chain([first], parts, beyond):
        waiting.append(part)
        if len(waiting) == _AT_ONCE + around:
            yield _sums(waiting, steps)
            waiting = waiting[_AT_ONCE:]
    if len(waiting) > around:
        yield _sums(waiting, steps)


def _sums(parts: list[Influence], steps: int) -> Influence:
    windows = len(parts) - steps + 1
    fields = (np.stack(values) for values in zip(*parts, strict=True))
    return Influence._make(sum(values[k : k + windows] for k in range(steps)) for values in fields)


def _critical_value(share: float) -> float:
    """Return by how many standard deviations a 95 % interval reaches when the bandwidth is this share of the data.

    The wider the bandwidth, the more the covariance itself is a guess (Kiefer and Vogelsang 2005, Bartlett
    kernel, table 1).
    """
    return 1.96 + 2.9694 * share + 0.4160 * share**2 - 0.5324 * share**3
