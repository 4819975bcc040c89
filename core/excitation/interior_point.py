"""A feasible interior-point method with damped BFGS.

The criterion's curvature is learned (BFGS, damped so that it stays positive), the barrier's is known exactly,
so the steps follow the limits instead of bumping into them. Every iterate keeps every limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from core.excitation.problem import DesignProblem, Point, Smoothing
from core.excitation.search import Search, inwards

Array = NDArray[np.float64]

_DAMPING = 0.2  # Powell's
_ARMIJO = 1e-4
_HALVINGS = 20
_TO_THE_LIMIT = 0.95


@dataclass(frozen=True)
class Stage:
    """One minimisation with fixed smoothing: at most ``iterations`` of them, fewer once it has settled.

    A ``coarse`` one has half the samples: enough to find a valley, at little more than half the cost.
    """

    smoothing: Smoothing
    iterations: int
    coarse: bool = False
    tolerance: float = 1e-4


FROM_AFAR = (
    Stage(Smoothing(2, 0.2, 1e-2), 60, coarse=True),
    Stage(Smoothing(8, 0.1, 3e-3), 60, coarse=True),
)
"""From a random start into a valley."""

POLISH = (
    Stage(Smoothing(16, 0.05, 1e-3), 60, coarse=True),
    Stage(Smoothing(128, 0.02, 1e-4), 120),
    Stage(Smoothing(512, 0.01, 3e-5), 120),
)
"""Smooth, then sharpen."""


def minimise(problem: DesignProblem, x: Array, stage: Stage, stop: Callable[[], bool]) -> Array:
    """Return coefficients with a smaller merit than x (n, m); x itself where that is outside the limits."""
    here = problem.point(x, stage.smoothing)
    if not np.isfinite(here.merit):
        return x
    curvature = np.eye(x.size)
    for _ in range(stage.iterations):
        if stop():
            break
        factor = linalg.cho_factor(curvature + here.barrier_hessian, lower=True, check_finite=False)
        step = -linalg.cho_solve(factor, here.gradient, check_finite=False)
        slope = float(step @ here.gradient)
        if -slope < stage.tolerance:
            break
        there = _line_search(problem, here, step, slope, stage.smoothing)
        if there is None:
            break
        _learn(curvature, (there.x - here.x).ravel(), there.criterion_gradient - here.criterion_gradient)
        here = there
    return here.x


def descend(referee: Search, x: Array, plan: Sequence[Stage]) -> Array:
    """Run stages one after the other, each from the last one's result."""
    for stage in plan:
        problem = referee.problem.coarser if stage.coarse else referee.problem
        x = minimise(problem, inwards(problem, x, referee.centre), stage, referee.over)
    return x


def _line_search(problem: DesignProblem, here: Point, step: Array, slope: float, smoothing: Smoothing) -> Point | None:
    direction = step.reshape(here.x.shape)
    length = first = min(1.0, _TO_THE_LIMIT * problem.linear.largest_step(here.x, direction))
    for _ in range(_HALVINGS):
        x = here.x + length * direction
        most = here.merit + _ARMIJO * length * slope
        if length == first or problem.merit(x, smoothing) <= most:  # the first is good enough as a rule
            there = problem.point(x, smoothing)
            if there.merit <= most:
                return there
        length *= 0.5
    return None


def _learn(curvature: Array, s: Array, y: Array) -> None:
    """Update the learned curvature in place so that it explains the change y of the gradient over the step s."""
    expected = curvature @ s
    energy, measured = float(s @ expected), float(s @ y)
    if measured < _DAMPING * energy:
        share = (1.0 - _DAMPING) * energy / (energy - measured)
        y = share * y + (1.0 - share) * expected
        measured = float(s @ y)
    curvature += np.outer(y, y) / measured - np.outer(expected, expected) / energy
