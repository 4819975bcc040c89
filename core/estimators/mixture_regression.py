"""Gaussian mixture regression: the mean and variance of y that a mixture fitted to (u, y) expects at u.

The mixture is fitted by expectation and maximisation (Dempster, Laird and Rubin 1977) from a seeded start, the number
of components taken by the Bayesian information criterion (Schwarz 1978); the conditional mean is that of Ghahramani
and Jordan 1994. Written here for its few lines: scikit-learn would be the project's largest dependency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.errors import IdentificationError, InputError

Array = NDArray[np.float64]

_ROUNDS, _SETTLED = 200, 1e-5
"""Rounds of expectation and maximisation, and the gain of the mean log likelihood at which they end."""
_RIDGE = 1e-4
"""Least variance of a component along any axis, of data that are brought to variance one."""
_NEGLIGIBLE = 1e-12
"""Membership that does not count."""
_WORSE = 2
"""More components are tried until the criterion has risen this often in a row."""
_PER_PARAMETER = 5
"""Samples that every parameter of a mixture needs at the least."""


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """Attributes: ``weights`` (k,), ``means`` (k, d), ``covariances`` (k, d, d), ``log_likelihood`` of all samples."""

    weights: Array
    means: Array
    covariances: Array
    log_likelihood: float

    def bic(self, samples: int) -> float:
        """Return the Bayesian information criterion; less is better."""
        k, d = self.means.shape
        return parameter_count(k, d) * float(np.log(samples)) - 2.0 * self.log_likelihood


def parameter_count(components: int, dimensions: int) -> int:
    return components * (1 + dimensions + dimensions * (dimensions + 1) // 2) - 1


def fit_mixture(samples: Array, components: int, random: np.random.Generator) -> GaussianMixture:
    """Fit so many components to samples (N, d), which should be of about variance one."""
    responsibility = _first_responsibilities(samples, components, random)
    constant = 0.5 * samples.size * float(np.log(2.0 * np.pi))
    before = -np.inf
    for _ in range(_ROUNDS):
        weights, means, covariances = _maximised(samples, responsibility)
        log_weight, whitening = _whitening(weights, covariances)
        likelihood = _expected(samples, log_weight, means, whitening, responsibility) - constant
        if likelihood - before < _SETTLED * len(samples):
            break
        before = likelihood
    return GaussianMixture(weights, means, covariances, likelihood)


def _first_responsibilities(samples: Array, components: int, random: np.random.Generator) -> Array:
    """Return each sample's (N, k) membership of the nearest of k of them, drawn far from each other (k-means++)."""
    centres = [samples[random.integers(len(samples))]]
    squared = np.sum((samples - centres[0]) ** 2, axis=1)
    while len(centres) < components:
        centres.append(samples[random.choice(len(samples), p=squared / squared.sum())])
        squared = np.minimum(squared, np.sum((samples - centres[-1]) ** 2, axis=1))
    distances = np.stack([np.sum((samples - centre) ** 2, axis=1) for centre in centres], axis=1)
    return np.asarray(np.eye(components)[np.argmin(distances, axis=1)])


@njit(cache=True, error_model="numpy")
def _maximised(samples: Array, responsibility: Array) -> tuple[Array, Array, Array]:
    """Return weights (k,), means (k, d) and covariances (k, d, d) for memberships (N, k)."""
    n, d = samples.shape
    components = responsibility.shape[1]
    share = np.full(components, 1e-14)
    means = np.zeros((components, d))
    covariances = np.zeros((components, d, d))
    for i in range(n):
        for k in range(components):
            share[k] += responsibility[i, k]
            for a in range(d):
                means[k, a] += responsibility[i, k] * samples[i, a]
    for k in range(components):
        means[k] /= share[k]
    for i in range(n):
        for k in range(components):
            if responsibility[i, k] > _NEGLIGIBLE:
                for a in range(d):
                    for b in range(a + 1):
                        off = (samples[i, a] - means[k, a]) * (samples[i, b] - means[k, b])
                        covariances[k, a, b] += responsibility[i, k] * off
    for k in range(components):
        for a in range(d):
            for b in range(a + 1):
                covariances[k, a, b] /= share[k]
                covariances[k, b, a] = covariances[k, a, b]
            covariances[k, a, a] += _RIDGE
    return share / share.sum(), means, covariances


@njit(cache=True, error_model="numpy")
def _expected(samples: Array, log_weight: Array, means: Array, whitening: Array, responsibility: Array) -> float:
    """Write memberships (N, k) and return the log likelihood, constants of the normal distribution left out."""
    n, d = samples.shape
    likelihood = 0.0
    for i in range(n):
        top = -np.inf
        for k in range(log_weight.size):
            squared = 0.0
            for a in range(d):
                white = 0.0
                for b in range(a + 1):
                    white += whitening[k, a, b] * (samples[i, b] - means[k, b])
                squared += white * white
            responsibility[i, k] = log_weight[k] - 0.5 * squared
            top = max(top, responsibility[i, k])
        total = 0.0
        for k in range(log_weight.size):
            responsibility[i, k] = np.exp(responsibility[i, k] - top)
            total += responsibility[i, k]
        for k in range(log_weight.size):
            responsibility[i, k] /= total
        likelihood += top + np.log(total)
    return likelihood


def _whitening(weights: Array, covariances: Array) -> tuple[Array, Array]:
    """Return what densities are made from: log weights (k,), scaled, and inverse Cholesky factors (k, d, d)."""
    lower = np.linalg.cholesky(covariances)
    return np.log(weights) - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1), np.linalg.inv(lower)


@njit(cache=True, error_model="numpy")
def _condition(
    inputs: Array,
    log_weight: Array,
    centre: Array,
    whitening: Array,
    level: Array,
    slope: Array,
    variance: Array,
    out: Array,
) -> None:
    """Write conditional mean and variance (N, 2) of a mixture at inputs (N, d)."""
    n, d = inputs.shape
    components = log_weight.size
    logs, means = np.empty(components), np.empty(components)
    for i in range(n):
        top = -np.inf
        for k in range(components):
            squared, mean = 0.0, level[k]
            for a in range(d):
                white = 0.0
                for b in range(a + 1):
                    white += whitening[k, a, b] * (inputs[i, b] - centre[k, b])
                squared += white * white
                mean += slope[k, a] * (inputs[i, a] - centre[k, a])
            logs[k], means[k] = log_weight[k] - 0.5 * squared, mean
            top = max(top, logs[k])
        total, first, second = 0.0, 0.0, 0.0
        for k in range(components):
            share = np.exp(logs[k] - top)
            total += share
            first += share * means[k]
            second += share * (variance[k] + means[k] ** 2)
        out[i, 0] = first / total
        out[i, 1] = max(second / total - (first / total) ** 2, 0.0)


class MixtureRegression:
    """Regression of one y on u by a Gaussian mixture of both.

    Parameters
    ----------
    components : numbers of components to choose from, ascending.
    random_state : seed of the starts.

    Attributes
    ----------
    n_components_ : that were chosen.
    bic_ : criterion by number of components that were tried.
    """

    n_components_: int
    bic_: dict[int, float]

    def __init__(self, components: Sequence[int] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), random_state: int = 0) -> None:
        self.components = components
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> Self:
        """Fit to inputs X (N, d) and y (N,).

        Raises
        ------
        InputError
            ``components`` is empty, not ascending, or begins below one.
        IdentificationError
            There are too few samples for the smallest number of components.
        """
        numbers = [int(k) for k in self.components]
        if not numbers or numbers[0] < 1 or numbers != sorted(set(numbers)):
            raise InputError(f"components must be ascending numbers from 1 on, got {list(self.components)}")
        joint = np.column_stack([X, y])
        centre, scale = joint.mean(axis=0), joint.std(axis=0)
        scale[scale == 0.0] = 1.0
        samples = (joint - centre) / scale
        best: GaussianMixture | None = None
        self.bic_ = {}
        worse = 0
        for number in numbers:
            if len(samples) < _PER_PARAMETER * parameter_count(number, samples.shape[1]):
                break
            mixture = fit_mixture(samples, number, np.random.default_rng([self.random_state, number]))
            self.bic_[number] = mixture.bic(len(samples))
            improved = best is None or self.bic_[number] < best.bic(len(samples))
            best, worse = (mixture, 0) if improved else (best, worse + 1)
            if worse == _WORSE:
                break
        if best is None:
            raise IdentificationError(
                f"{len(samples)} samples cannot determine a mixture of {numbers[0]} components in "
                f"{samples.shape[1]} dimensions; record longer",
                code="too-few-samples",
            )
        self.n_components_ = len(best.weights)
        self._take(best, centre, scale)
        return self

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return the conditional mean (N,) of y at X (N, d), and its standard deviation (N,)."""
        out = np.empty((len(X), 2))
        log_weight, centre, whitening, level, slope, variance = self._tables
        inputs = np.ascontiguousarray(X, dtype=np.float64)
        _condition(inputs, log_weight, centre, whitening, level, slope, variance, out)
        return out[:, 0], np.sqrt(out[:, 1])

    def to_document(self) -> dict[str, Any]:
        """Return JSON-serialisable data; ``from_document`` predicts the same."""
        tables = [table.tolist() for table in self._tables]
        return {"bic": {str(k): v for k, v in self.bic_.items()}, "tables": tables}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        self = cls()
        self._tables = tuple(np.array(table, dtype=np.float64) for table in document["tables"])
        self.bic_ = {int(k): v for k, v in document["bic"].items()}
        self.n_components_ = self._tables[0].size
        return self

    def _take(self, mixture: GaussianMixture, centre: Array, scale: Array) -> None:
        """Keep what prediction needs, in the units of the data."""
        means = centre + mixture.means * scale
        covariances = mixture.covariances * np.outer(scale, scale)
        inner, cross, outer = covariances[:, :-1, :-1], covariances[:, :-1, -1], covariances[:, -1, -1]
        slope = np.linalg.solve(inner, cross[:, :, None])[:, :, 0]
        log_weight, whitening = _whitening(mixture.weights, inner)
        variance = outer - np.sum(slope * cross, axis=1)
        tables = (log_weight, means[:, :-1], whitening, means[:, -1], slope, variance)
        self._tables = tuple(np.ascontiguousarray(table) for table in tables)
