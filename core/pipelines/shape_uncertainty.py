"""What noise does to parameters through shapes of friction and its load, which torque is not linear in.

Around the solution everything is linear. Errors move the shapes, by the least squares that found them; shapes, and the
load that friction grows with, then move the parameters as an error of the torque would. An estimator says how errors
move its parameters (``Estimator.influence``), so this holds for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.estimators import Block, ColouredCovariance, Estimator, Observations, coloured_covariance
from core.estimators.estimator import Influence
from core.friction import FrictionModel
from core.pipelines.confidence import confidence_band
from core.pipelines.estimation import Estimate
from core.pipelines.torque_slopes import ShapeNames
from core.signals import Segment

Array = NDArray[np.float64]

_UNIFORM = 12.0
"""Squared width over variance of what may lie anywhere between two bounds."""
_SLOWEST = 1e-3
"""rad/s (m/s); a joint is taken to move at least as fast when its shapes' bounds are worked out."""


@dataclass(frozen=True, eq=False)
class FittedShapes:
    """Uncertainty of s shapes that were fitted beside p parameters.

    Attributes
    ----------
    names : of each joint's, such as ``arctan.f4``; s in all.
    covariance : (s, s) of their logarithms.
    cross : (p, s) covariance of the parameters with these.
    """

    names: ShapeNames
    covariance: Array
    cross: Array

    def joint(self, parameters: Array) -> Array:
        """Return the covariance (p + s, p + s), given that of the parameters (p, p)."""
        return np.block([[parameters, self.cross], [self.cross.T, self.covariance]])

    def to_document(self) -> dict[str, Any]:
        return {
            "names": [list(own) for own in self.names],
            "covariance": self.covariance.tolist(),
            "cross": self.cross.tolist(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        names = tuple(tuple(own) for own in document["names"])
        count = sum(len(own) for own in names)
        own, cross = (
            np.array(document[key], dtype=np.float64).reshape(len(document[key]), count)
            for key in ("covariance", "cross")
        )
        return cls(names, own, cross)

    def check(self, friction: FrictionModel, n_parameters: int) -> None:
        """Refuse what does not belong to a friction and p parameters.

        Raises
        ------
        InputError
            A shape is none of the friction's, or a number is missing or not finite.
        """
        known = [set(joint.shapes) for joint in friction.joints]
        if len(self.names) != len(known) or not all(set(n) <= own for n, own in zip(self.names, known, strict=True)):
            raise InputError(f"fitted shapes {self.names} are not those of the friction {friction.specification}")
        count = sum(len(own) for own in self.names)
        if self.covariance.shape != (count, count) or self.cross.shape != (n_parameters, count):
            raise InputError(f"the covariance of {count} fitted shapes has shape {self.covariance.shape}")
        if not (np.all(np.isfinite(self.covariance)) and np.all(np.isfinite(self.cross))):
            raise InputError("the covariance of the fitted shapes holds a value that is no finite number")


class Uncertainty(NamedTuple):
    """Of an estimate: the covariance of its parameters, of its shapes where some were fitted, and the confidence band.

    The band (n,) is that of ``confidence_band`` over the samples that the estimate was made from.
    """

    covariance: ColouredCovariance
    shapes: FittedShapes | None
    band: Array


def uncertainty(found: Estimate, free: FrictionModel, segments: Sequence[Segment]) -> Uncertainty:
    """Return how certain an estimate is.

    Parameters
    ----------
    free : the friction before it was fitted, which says what was.
    segments : what the estimate was made from.
    """
    if free.is_fitted and not free.needs_load:
        covariance = coloured_covariance(found.estimator, found.observations)
        return Uncertainty(covariance, None, confidence_band(found.observations.factors, covariance.matrix))
    names = tuple(tuple(joint.free) for joint in free.joints)
    estimate = _Linearised(found, names, _precision(free, segments), segments)
    whole = coloured_covariance(estimate, estimate.observations)
    p = len(found.model.names)
    shapes = FittedShapes(names, whole.matrix[p:, p:], whole.matrix[:p, p:])
    band = confidence_band(estimate.observations.factors, whole.matrix)
    return Uncertainty(replace(whole, matrix=whole.matrix[:p, :p]), shapes, band)


def _precision(free: FrictionModel, segments: Sequence[Segment]) -> Array:
    """Return (s,) what is known of the logarithms of shapes without data: that they lie within their bounds."""
    top = np.max([np.abs(segment.motion.qd).max(axis=0) for segment in segments], axis=0)
    speeds = np.maximum(top, _SLOWEST).tolist()
    bounds = [shape.bounds(v) for v, own in zip(speeds, free.joints, strict=True) for shape in own.free.values()]
    return np.array([_UNIFORM / log(high / low) ** 2 for low, high in bounds])


class _Linearised:
    """An estimate with p parameters and s shapes, as ``coloured_covariance`` asks for it.

    Let x be the columns of the parameters, l what the load adds to them, g those of the shapes, and let the estimator
    move its parameters by M e for errors e of the torque. Then d theta = M (e - l d theta - g d s), and the shapes
    follow from weighted least squares beside the parameters, d s = D (g - x M g)' W (e - l d theta).
    """

    def __init__(self, found: Estimate, names: ShapeNames, precision: Array, segments: Sequence[Segment]) -> None:
        self._found, self._names, self._segments = found, names, segments
        self._precision = precision
        self._estimator: Estimator = found.estimator
        self._p = len(found.model.names)
        self.observations = Observations(
            [*found.model.names, *(f"{name}{j}" for j, own in enumerate(names, 1) for name in own)],
            found.observations.n_joints,
            self._blocks,
            oversampling=found.observations.oversampling,
        )

    def _blocks(self) -> Iterator[Block]:
        model, parameters = self._found.model, self._estimator.coef_
        for motion, segment in enumerate(self._segments):
            for columns, effort in model.linearised(segment, parameters, self._names):
                yield Block(columns, effort, motion)

    def _rows(self) -> Iterator[_Rows]:
        plain = self._estimator.rows(self._found.observations)
        for (block, instruments), slopes in zip(plain, self.observations.blocks(), strict=True):
            residual = block.effort - block.columns @ self._estimator.coef_
            yield _Rows(block.columns, slopes.columns, instruments, residual, block.motion)

    @cached_property
    def _response(self) -> _Response:
        p, s = self._p, len(self._precision)
        by_load, by_shapes, gram = np.zeros((p, p)), np.zeros((p, s)), np.zeros((2 * p + s, 2 * p + s))
        weights = self._estimator.weights_[:, None]
        for rows in self._rows():
            load, shapes = rows.slopes[:, :, :p] - rows.columns, rows.slopes[:, :, p:]
            _, moved = self._estimator.influence(
                np.concatenate([load, shapes], axis=2), rows.residual, rows.instruments
            )
            by_load, by_shapes = by_load + moved[:, :p], by_shapes + moved[:, p:]
            flat = (np.concatenate([rows.columns, load, shapes], axis=2) * weights).reshape(-1, 2 * p + s)
            gram += flat.T @ flat
        apart = np.vstack([-by_shapes, np.zeros((p, s)), np.eye(s)])
        spread = np.asarray(np.linalg.inv(apart.T @ gram @ apart + np.diag(self._precision)))
        by_parameters = spread @ apart.T @ gram[:, p : 2 * p]
        return _Response(
            by_shapes, spread, np.linalg.inv(np.block([[np.eye(p) + by_load, by_shapes], [by_parameters, np.eye(s)]]))
        )

    @property
    def prior_part_(self) -> Array:
        p, response = self._p, self._response
        own = np.zeros_like(response.coupled)
        own[p:, p:] = response.spread @ np.diag(self._precision) @ response.spread
        if self._estimator.prior_part_ is not None:
            own[:p, :p] = self._estimator.prior_part_
        return np.asarray(response.coupled @ own @ response.coupled.T)

    def influences(self, observations: Observations, length: int) -> Iterator[Influence]:
        """Yield the influence of samples on parameters and shapes; ``observations`` are its own."""
        p, response = self._p, self._response
        squared = self._estimator.weights_[:, None] ** 2
        for rows in self._rows():
            for start in range(0, len(rows.residual), length):
                part = slice(start, start + length)
                slopes, own = rows.slopes[part], rows.residual[part]
                shift, leverage = self._estimator.influence(slopes, own, rows.instruments[part])
                apart = squared * (slopes[:, :, p:] - rows.columns[part] @ response.by_shapes)
                turned = response.spread @ apart.reshape(own.size, apart.shape[2]).T
                shift = np.append(shift, turned @ own.ravel())
                leverage = np.vstack([leverage, turned @ slopes.reshape(-1, slopes.shape[2])])
                sums = own.sum(axis=0), slopes.sum(axis=0), np.sum(own**2, axis=0)
                yield Influence(response.coupled @ shift, response.coupled @ leverage, *sums, rows.motion)


class _Rows(NamedTuple):
    """Samples: columns (m, n, p), slopes (m, n, p + s), instruments (m, n, p), residual (m, n), and their motion."""

    columns: Array
    slopes: Array
    instruments: Array
    residual: Array
    motion: int


class _Response(NamedTuple):
    """M g (p, s), D (s, s), and (p + s, p + s) what becomes of M e and D (g - x M g)' W e as both follow each other."""

    by_shapes: Array
    spread: Array
    coupled: Array
