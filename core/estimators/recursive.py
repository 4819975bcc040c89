"""Recursive least squares: an estimate that follows the stream, sample by sample.

What is kept of the samples is the square-root information of each joint, the R factor of ``[W_j | tau_j]``, into which
Givens rotations fold row after row (Golub 1965; Bierman 1977, square-root information filter). It determines the
weighted least-squares estimate of all samples so far, whatever the noise of the joints turns out to be, so that nothing
that was learnt under wrong weights is left in it. The estimate itself is solved for when it is read.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError
from core.estimators.estimator import Estimator
from core.estimators.joint_factors import JointFactors
from core.estimators.linear import JointWeighted, check_determined, condition_numbers, joint_weighted
from core.estimators.observations import Observations, checked_samples

Array = NDArray[np.float64]

_TOLERANCE = 1e-6
"""Relative change of a joint's deviation at which it counts as settled."""
_MAX_ITERATIONS = 50


class RecursiveLeastSquares(Estimator):
    """Joint-weighted least squares of a stream, with forgetting.

    ``partial_fit`` takes rows as they come; ``coef_`` is that of weighted least squares on all of them, beside a weak
    prior that makes it exist from the first sample on. With forgetting, a sample that is k samples old counts for
    ``forgetting ** k`` of one. For a robot of six joints a sample takes some 40 us, and ``coef_`` a few ms, once after
    new samples, when it is read.

    Parameters
    ----------
    forgetting : factor (0, 1] that what was known loses weight by with every sample; 1 forgets nothing, 0.9999
        forgets with a time constant of 10 000 samples.
    initial_std : standard deviation of every parameter around zero before the first sample, and around what it was
        after a reset.
    reset_interval : samples after which the covariance is reset while the parameters stay, or None.
    """

    _deviation: Array | None

    def __init__(self, forgetting: float = 1.0, initial_std: float = 1e3, reset_interval: int | None = None) -> None:
        self.forgetting = forgetting
        self.initial_std = initial_std
        self.reset_interval = reset_interval

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Take in consecutive samples: X (samples, n, p), y (samples, n). A sample (n, p), (n,) will do too.

        Raises
        ------
        InputError
            A shape is wrong, a value is not finite, or a setting is out of its range.
        """
        one = np.ndim(X) == 2 and np.ndim(y) == 1
        columns, effort = checked_samples(np.asarray(X)[None] if one else X, np.asarray(y)[None] if one else y)
        if not hasattr(self, "_triangles"):
            self._start(*columns.shape[1:])
        if columns.shape[1:] != self._shape:
            raise InputError(
                f"the stream has {self._shape[0]} joints and {self._shape[1]} parameters, not {columns.shape[1:]}"
            )
        first = 0
        while first < len(effort):
            if self.reset_interval is not None and self._since_reset == self.reset_interval:
                self.reset_covariance()
            room = len(effort) if self.reset_interval is None else self.reset_interval - self._since_reset
            part = slice(first, first + room)
            self._take(columns[part], effort[part])
            first = part.stop
        return self

    def reset_covariance(self) -> None:
        """Forget how sure the parameters are, but not the parameters: they follow new data at once."""
        self._prior_mean = self.coef_
        self._triangles[:] = 0.0
        self._counted, self._since_reset = 0.0, 0
        self._outdate()

    def fit_observations(self, observations: Observations) -> Self:
        check_determined(observations.factors, observations.names)
        self._start(observations.n_joints, observations.n_parameters)
        for columns, effort, _ in observations.blocks():
            self.partial_fit(columns, effort)
        matrix, _ = observations.factors.stacked()
        self.condition_number_, self.normalised_condition_number_ = condition_numbers(matrix)
        return self

    @property
    def coef_(self) -> Array:  # type: ignore[override]
        return self._solution.coef

    @property
    def covariance_(self) -> Array:  # type: ignore[override]
        return self._solution.inverse

    @property
    def residual_std_(self) -> Array:  # type: ignore[override]
        return self._solution.deviation

    @property
    def weights_(self) -> Array:  # type: ignore[override]
        return self._solution.weights

    @property
    def maps_(self) -> Array:  # type: ignore[override]
        return np.asarray(self._solution.weights[:, None, None] ** 2 * self._solution.inverse)

    @property
    def n_iter_(self) -> int:  # type: ignore[override]
        return self._solution.iterations

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self._triangles), self._prior_mean.size

    @cached_property
    def _solution(self) -> JointWeighted:
        """The estimate of the samples so far; weights that few samples leave unsettled are taken as they are."""
        factors = JointFactors.of_triangles(self._triangles, round(self._counted))
        prior = np.eye(self._prior_mean.size) / self.initial_std, self._prior_mean / self.initial_std
        found = joint_weighted(factors, _TOLERANCE, _MAX_ITERATIONS, start=self._deviation, known=prior)
        self._deviation = found.deviation
        return found

    def _outdate(self) -> None:
        self.__dict__.pop("_solution", None)

    def _take(self, columns: Array, effort: Array) -> None:
        fading = math.sqrt(self.forgetting)
        _fold_in(columns, effort, fading, self._triangles, self._work)
        m = len(effort)
        kept = self.forgetting**m
        self._counted = kept * self._counted + (m if fading == 1.0 else (1.0 - kept) / (1.0 - self.forgetting))
        self._since_reset += m
        self.n_rows_ += m
        self._outdate()

    def _start(self, n_joints: int, n_parameters: int) -> None:
        self._require(0.0 < self.forgetting <= 1.0, "forgetting must lie in (0, 1]")
        self._require(self.initial_std > 0.0, "initial_std must be positive")
        self._require(self.reset_interval is None or self.reset_interval >= 1, "reset_interval must be at least 1")
        self._triangles = np.zeros((n_joints, n_parameters + 1, n_parameters + 1))
        self._prior_mean = np.zeros(n_parameters)
        self._counted, self._since_reset = 0.0, 0
        self._deviation = None
        self._work = np.zeros(n_parameters + 1)
        self.n_rows_ = 0
        self._outdate()


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"}, nogil=True)
def _fold_in(columns: Array, effort: Array, fading: float, triangles: Array, row: Array) -> None:
    """Fold m samples into the triangles (n, p + 1, p + 1); ``reassoc`` changes rounding only.

    Forgetting weighs each sample by those that come after it in the block, and the triangles by all of them.
    """
    size, m = row.size, effort.shape[0]
    if fading < 1.0:
        triangles *= fading**m
    for k in range(m):
        scale = fading ** (m - 1 - k)
        for j in range(effort.shape[1]):
            triangle = triangles[j]
            for i in range(size - 1):
                row[i] = scale * columns[k, j, i]
            row[size - 1] = scale * effort[k, j]
            for i in range(size):
                square = row[i] * row[i]
                if square == 0.0:  # joint j feels only the links beyond it
                    continue
                length = math.sqrt(triangle[i, i] * triangle[i, i] + square)
                cosine, sine = triangle[i, i] / length, row[i] / length
                triangle[i, i] = length
                for c in range(i + 1, size):
                    old, new = triangle[i, c], row[c]
                    triangle[i, c] = cosine * old + sine * new
                    row[c] = cosine * new - sine * old
