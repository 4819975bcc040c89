"""A feasible interior-point method with damped BFGS.

The criterion's curvature is learned (BFGS, damped so that it stays positive), the barrier's is known exactly,
so the steps follow the limits instead of bumping into them. Every iterate keeps every limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from core.excitation.problem import DesignProblem, Point, Smoothing
from core.excitation.search import Search, inwards

Array = NDArray[np.float64]

_DAMPING = 0.2  # Powell's
_ARMIJO = 1e-4
_HALVINGS = 20
_TO_THE_LIMIT = 0.95
_RIDGES = (0.0, 1e-12, 1e-8)
"""Shares of its diagonal that are added to a Hessian that rounding has made indefinite."""


@dataclass(frozen=True)
class Stage:
    """One minimisation with fixed smoothing: at most ``iterations`` of them, fewer once it has settled.

    ``density`` is how many samples it has, as a share of the problem's own: half of them are enough to find a valley.
    """

    smoothing: Smoothing
    iterations: int
    density: float = 1.0
    tolerance: float = 1e-4


FROM_AFAR = (
    Stage(Smoothing(2, 0.2, 1e-2), 60, 0.5),
    Stage(Smoothing(8, 0.1, 3e-3), 60, 0.5),
)
"""From a random start into a valley."""

POLISH = (
    Stage(Smoothing(16, 0.05, 1e-3), 60, 0.5),
    Stage(Smoothing(64, 0.03, 2e-4), 80, 0.5),
    Stage(Smoothing(256, 0.01, 5e-5), 120),
)
"""Smooth, then sharpen."""

FINISH = (
    Stage(Smoothing(512, 0.01, 1e-5), 150, 2.0, 1e-6),
    Stage(Smoothing(1024, 0.01, 2e-6), 150, 2.0, 1e-6),
)
"""The last per cent, at four times the cost."""


def minimise(problem: DesignProblem, x: Array, stage: Stage, stop: Callable[[], bool]) -> Array:
    """Return coefficients with a smaller merit than x (n, m); x itself where that is outside the limits."""
    here = problem.point(x, stage.smoothing)
    if not np.isfinite(here.merit):
        return x
    curvature = np.eye(x.size)
    length = 1.0
    for _ in range(stage.iterations):
        if stop():
            break
        step = _newton_step(curvature + here.barrier_hessian, here.gradient)
        if step is None:
            break
        slope = float(step @ here.gradient)
        if -slope < stage.tolerance:
            break
        found = _line_search(problem, here, step, slope, stage.smoothing, 2.0 * length)
        if found is None:
            break
        there, length = found
        _learn(curvature, (there.x - here.x).ravel(), there.criterion_gradient - here.criterion_gradient)
        here = there
    return here.x


def descend(referee: Search, x: Array, plan: Sequence[Stage]) -> Array:
    """Run stages one after the other, each from the last one's result."""
    for stage in plan:
        problem = referee.problem.with_density(stage.density)
        x = minimise(problem, inwards(problem, x, referee.centre), stage, referee.over)
    return x


def _newton_step(hessian: Array, gradient: Array) -> Array | None:
    """Return ``-hessian^-1 gradient``; None where the Hessian is singular to rounding, as close to a limit."""
    diagonal = np.diag_indices_from(hessian)
    for ridge in _RIDGES:
        hessian[diagonal] *= 1.0 + ridge
        try:
            factor = scipy.linalg.cho_factor(hessian, lower=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            continue
        return -np.asarray(scipy.linalg.cho_solve(factor, gradient, check_finite=False))
    return None


def _line_search(
    problem: DesignProblem, here: Point, step: Array, slope: float, smoothing: Smoothing, longest: float
) -> tuple[Point, float] | None:
    """Return where a step leads that is good enough, and the share of it that was taken."""
    direction = step.reshape(here.x.shape)
    length = first = min(1.0, longest, _TO_THE_LIMIT * problem.linear.largest_step(here.x, direction))
    for _ in range(_HALVINGS):
        x = here.x + length * direction
        most = here.merit + _ARMIJO * length * slope
        if length == first or problem.merit(x, smoothing) <= most:  # the first is good enough as a rule
            there = problem.point(x, smoothing)
            if there.merit <= most:
                return there, length
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
