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

STARTS = 4
PATIENCE = 12
"""Steps of a walk without a gain before it is given up."""
EXPLORING = 0.75
"""Share of the budget after which no new walk is begun."""
GAIN, LOSS, STRAYED = 0.005, 0.02, 0.06
"""On the criterion's logarithmic scale: what counts as a gain, what loss a step of the walk may bring, and how far
from the best it may stray."""
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
    """Return coefficients with a smaller merit than x (n, m); x itself where that is outside the limits."""
    here = problem.point(x, stage.smoothing)
    if not np.isfinite(here.merit):
        return x
    curvature = np.eye(x.size)
    for _ in range(stage.iterations):
        if stop():
            break
        try:
            factor = linalg.cho_factor(curvature + here.barrier_hessian, lower=True, check_finite=False)
        except linalg.LinAlgError:  # close to a limit whose curvature is learned, rounding is all that is left of it
            break
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
    """Spend the budget on walks, each from the best of a few random starts until it gets nowhere; the last of it
    on a walk from the best of all.

    Parameters
    ----------
    warm : coefficients (n, m) to begin the first walk with, instead of as many random starts.
    """
    first = list(warm)
    while not referee.over():
        best = referee.best
        if best is not None and referee.elapsed > EXPLORING * referee.budget:
            _walk(referee, (referee.problem.figure(best), best))
        else:
            _walk(referee, _begin(referee, first))
            first = []


def _begin(referee: Search, warm: Sequence[Array]) -> tuple[float, Array]:
    """Return the best of a few descents, and its figure."""
    problem = referee.problem
    place: tuple[float, Array] = (np.inf, referee.centre)
    for start in range(max(STARTS, len(warm))):
        if referee.over():
            break
        if start < len(warm):
            x = referee.inwards(warm[start])
        else:
            x = descend(problem, referee.random_start(), FROM_AFAR, referee.over)
        x = descend(problem, x, POLISH, referee.over)
        referee.offer(x)
        place = min(place, (problem.figure(x), x), key=lambda known: known[0])
    return place


def _walk(referee: Search, place: tuple[float, Array]) -> None:
    """Polish again and again, from hops where that no longer gains, until nothing gained for a while.

    The walk may go on from a slightly worse place, but not from one much worse than its best.
    """
    problem = referee.problem
    best = place
    stuck = 0
    while stuck < PATIENCE and not referee.over():
        figure, x = place
        x = descend(problem, _hop(referee, x) if stuck else x, POLISH, referee.over)
        referee.offer(x)
        reached = problem.figure(x)
        stuck = 0 if reached < best[0] - GAIN else stuck + 1
        best = min(best, (reached, x), key=lambda known: known[0])
        if reached < figure + LOSS:
            place = reached, x
        if place[0] > best[0] + STRAYED:
            place = best


def _hop(referee: Search, x: Array) -> Array:
    """Return an inside point some way from x, in a random direction."""
    size = referee.random.choice(HOPS) * float((x - referee.centre).std())
    return referee.inwards(x + size * referee.random.normal(size=x.shape), x)
