"""What makes a motion exciting, as a function of the information matrix ``M = integral of W^T W dt`` alone.

Optimisers minimise logarithms, so that values of all criteria are of one size, and smoothed ones: the largest
and smallest singular value are replaced by soft extremes,

    log cond ~ 1/2 [ 1/(s+1) log sum lambda^(s+1) + 1/(s-1) log sum lambda^-(s-1) ],

whose sharpness s, a power of two (others are rounded to one), grows during an optimisation: first all eigenvalues
are drawn together, in the end only the extreme ones. Reported values are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from core.errors import InputError
from core.excitation.spectral_kernels import soft_log_condition

Array = NDArray[np.float64]

_TINY = 1e-300
_REGULAR = 1e-12
"""Least eigenvalue, as a share of the largest, that a matrix can be inverted with."""


class Criterion(Protocol):
    """A figure of merit; smaller is better."""

    @property
    def name(self) -> str: ...

    def value(self, information: Array) -> float:
        """Return the exact figure, as it is reported."""
        ...

    def smooth(self, information: Array, sharpness: float) -> tuple[float, Array]:
        """Return a smoothed figure on a logarithmic scale, and its gradient (p, p), symmetric."""
        ...


@dataclass(frozen=True)
class ConditionNumber:
    """Ratio of the extreme singular values of W, or of W with its columns scaled to length one."""

    normalised: bool = False

    @property
    def name(self) -> str:
        return "cond_normalised" if self.normalised else "cond"

    def value(self, information: Array) -> float:
        matrix = _normalise(information)[0] if self.normalised else information
        return _condition(matrix)

    def smooth(self, information: Array, sharpness: float) -> tuple[float, Array]:
        if not self.normalised:
            return _smooth_condition(information, sharpness)
        matrix, scale = _normalise(information)
        value, gradient = _smooth_condition(matrix, sharpness)
        return value, _through_normalisation(matrix, scale, gradient)


@dataclass(frozen=True)
class DOptimality:
    """Volume of the confidence ellipsoid: minus log det M per parameter."""

    name: str = "d_optimal"

    def value(self, information: Array) -> float:
        values = scipy.linalg.eigvalsh(information, check_finite=False)
        return float(-np.log(np.maximum(values, _TINY)).mean())

    def smooth(self, information: Array, sharpness: float) -> tuple[float, Array]:
        values, vectors = _eigen(information)
        inverse = (vectors / values) @ vectors.T
        return float(-np.log(values).mean()), -inverse / values.size


@dataclass(frozen=True)
class AOptimality:
    """Mean variance of the parameters, trace(M^-1), for unit noise."""

    name: str = "a_optimal"

    def value(self, information: Array) -> float:
        values = scipy.linalg.eigvalsh(information, check_finite=False)
        return float((1.0 / np.maximum(values, _TINY)).sum())

    def smooth(self, information: Array, sharpness: float) -> tuple[float, Array]:
        values, vectors = _eigen(information)
        total = float((1.0 / values).sum())
        return float(np.log(total)), -(vectors / values**2) @ vectors.T / total


@dataclass(frozen=True)
class WeightedBlocks:
    """The COMAN source's sum: ``(w1 + w2) cond(H) + w1 cond(H1) + w2 cond(H2)``, columns normalised.

    H1 has the gravity-dependent columns, H2 the others.

    Attributes
    ----------
    gravity : (p,) which columns are gravity-dependent.
    w1, w2 : weights of the two groups, see ``block_weights``.
    """

    gravity: NDArray[np.bool_]
    w1: float
    w2: float
    name: str = "coman"

    def value(self, information: Array) -> float:
        matrix, _ = _normalise(information)
        return float(sum(w * _condition(matrix[np.ix_(rows, rows)]) for w, rows in self._blocks()))

    def smooth(self, information: Array, sharpness: float) -> tuple[float, Array]:
        matrix, scale = _normalise(information)
        gradient = np.zeros_like(matrix)
        total = 0.0
        for weight, rows in self._blocks():
            block = np.ix_(rows, rows)
            log_condition, slope = _smooth_condition(matrix[block], sharpness)
            term = weight * float(np.exp(log_condition))
            gradient[block] += term * slope
            total += term
        return float(np.log(total)), _through_normalisation(matrix, scale, gradient / total)

    def _blocks(self) -> list[tuple[float, NDArray[np.intp]]]:
        every = np.arange(self.gravity.size)
        candidates = (
            (self.w1 + self.w2, every),
            (self.w1, every[self.gravity]),
            (self.w2, every[~self.gravity]),
        )
        return [(weight, rows) for weight, rows in candidates if rows.size and weight > 0.0]


def block_weights(matrix: Array, gravity: NDArray[np.bool_]) -> tuple[float, float]:
    """Return w1, w2 of a column-normalised H: shares of the coefficients of variation, to two decimals.

    The source rounds them too; constants make the criterion smooth.
    """
    mean = np.abs(matrix.mean(axis=0))
    spread = matrix.std(axis=0)
    variation = spread / np.maximum(mean, 1e-3 * spread.max(initial=_TINY))
    share = float(variation[gravity].sum() / variation.sum())
    return round(share, 2), round(1.0 - share, 2)


CRITERIA: Mapping[str, Callable[[], Criterion]] = MappingProxyType(
    {
        "cond": ConditionNumber,
        "cond_normalised": lambda: ConditionNumber(normalised=True),
        "d_optimal": DOptimality,
        "a_optimal": AOptimality,
    }
)
"""Criteria that need no data; ``coman`` takes its weights from a first trajectory."""

CRITERION_NAMES: Sequence[str] = (*CRITERIA, "coman")


def check_criterion(name: str) -> None:
    """Refuse an unknown criterion."""
    if name not in CRITERION_NAMES:
        raise InputError(f"unknown criterion {name!r}; known: {', '.join(CRITERION_NAMES)}", code="criterion-unknown")


def _eigen(matrix: Array) -> tuple[Array, Array]:
    values, vectors = scipy.linalg.eigh(matrix, driver="evd", check_finite=False)
    return np.maximum(values, max(float(values[-1]) * 1e-15, _TINY)), vectors


def _condition(matrix: Array) -> float:
    values = scipy.linalg.eigvalsh(matrix, check_finite=False)
    return float(np.sqrt(values[-1] / values[0])) if values[0] > 0.0 else float("inf")


def _smooth_condition(matrix: Array, sharpness: float) -> tuple[float, Array]:
    """Return the smoothed log condition number and its gradient.

    By matrix products: about half of what the eigenvectors cost.
    """
    matrix = np.ascontiguousarray(matrix)
    gradient = np.empty_like(matrix)
    squarings = max(1, round(np.log2(sharpness)))
    value = soft_log_condition(matrix, squarings, gradient)
    if np.isfinite(value):
        return value, gradient
    values, vectors = _eigen(matrix)
    regular = np.ascontiguousarray((vectors * np.maximum(values, values[-1] * _REGULAR)) @ vectors.T)
    return soft_log_condition(regular, squarings, gradient), gradient


def _normalise(matrix: Array) -> tuple[Array, Array]:
    scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), _TINY))
    return matrix * scale * scale[:, None], scale


def _through_normalisation(matrix: Array, scale: Array, gradient: Array) -> Array:
    """Gradient in M of what has this gradient in the normalised matrix."""
    out = gradient * scale * scale[:, None]
    out[np.diag_indices_from(out)] -= (gradient * matrix).sum(axis=1) * scale**2
    return np.asarray(out)
