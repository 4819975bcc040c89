"""A feasible interior-point method with damped BFGS, and the search around it.

The criterion's curvature is learned (BFGS, damped so that it stays positive), the barrier's is known exactly,
so the steps follow the limits instead of bumping into them. Every iterate keeps every limit.

Criteria of this kind have many local minima and, near them, creases: eigenvalues that change places. Two
things take the method on where it gets stuck: forgetting the learned curvature, and smoothing the criterion
once more before sharpening it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from core.excitation.problem import DesignProblem, Point, Smoothing
from core.excitation.search import Search

Array = NDArray[np.float64]

_DAMPING = 0.2  # Powell's
_ARMIJO = 1e-4
_HALVINGS = 20
_TO_THE_LIMIT = 0.95

STARTS = 5
HOPS = (0.03, 0.1, 0.2)
"""Sizes of hops, as shares of the spread of the coefficients."""


@dataclass(frozen=True)
class Stage:
    """One minimisation with fixed smoothing: at most ``iterations`` of them, fewer once it has settled."""

    smoothing: Smoothing
    iterations: int
    tolerance: float = 1e-4


def stages(*rows: tuple[float, float, float, int]) -> tuple[Stage, ...]:
    """Return stages from (sharpness, sign width, barrier, iterations)."""
    return tuple(Stage(Smoothing(*row[:3]), row[3]) for row in rows)


FROM_AFAR = stages((2, 0.2, 1e-2, 60), (6, 0.1, 3e-3, 60), (20, 0.05, 1e-3, 80), (60, 0.03, 3e-4, 80))
"""From a random start to the bottom of its valley."""

POLISH = stages((20, 0.05, 1e-3, 60), (100, 0.02, 1e-4, 120), (600, 0.01, 3e-5, 120))
"""Smooth once more, then sharpen."""


def minimise(problem: DesignProblem, x: Array, stage: Stage, stop: Callable[[], bool]) -> Array:
    """Return coefficients with a smaller merit than x (n, m), which must be inside the limits."""
    here = problem.point(x, stage.smoothing)
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


def descend(problem: DesignProblem, x: Array, plan: Sequence[Stage], stop: Callable[[], bool]) -> Array:
    """Run stages one after the other."""
    for stage in plan:
        x = minimise(problem, x, stage, stop)
    return x


def _line_search(problem: DesignProblem, here: Point, step: Array, slope: float, smoothing: Smoothing) -> Point | None:
    direction = step.reshape(here.x.shape)
    length = min(1.0, _TO_THE_LIMIT * problem.linear.largest_step(here.x, direction))
    for _ in range(_HALVINGS):
        there = problem.point(here.x + length * direction, smoothing)
        if there.merit <= here.merit + _ARMIJO * length * slope:
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


def search(referee: Search, warm: Sequence[Array] = ()) -> None:
    """Spend the budget: a few random starts, then hops away from the best and back down.

    Parameters
    ----------
    warm : coefficients (n, m) to begin with, polished before anything else.
    """
    problem = referee.problem
    for x in warm:
        if referee.over():
            return
        referee.offer(descend(problem, referee.inwards(x), POLISH, referee.over))
    starts = max(STARTS - len(warm), 0)
    while not referee.over():
        if starts > 0 or referee.best is None:
            starts -= 1
            x = descend(problem, referee.random_start(), FROM_AFAR, referee.over)
        else:
            x = _hop(referee, referee.best)
        referee.offer(descend(problem, x, POLISH, referee.over))


def _hop(referee: Search, best: Array) -> Array:
    """Return an inside point some way from the best, in a random direction."""
    size = referee.random.choice(HOPS) * float((best - referee.centre).std())
    return referee.inwards(best + size * referee.random.normal(size=best.shape), best)
