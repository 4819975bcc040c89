"""Sequential quadratic programming (SciPy's SLSQP) on the same gradient: the baseline."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from core.excitation.nonlinear_limits import NonlinearLimits
from core.excitation.problem import DesignProblem, Smoothing
from core.excitation.search import Search
from core.excitation.trajectory import Motion

Array = NDArray[np.float64]

SMOOTHING = (Smoothing(6.0, 0.1, 0.0), Smoothing(60.0, 0.03, 0.0), Smoothing(600.0, 0.01, 0.0))
ITERATIONS = 80
GRID_STEP, NONLINEAR_GRID_STEP = 8, 4
"""Every so many rows of the two grids are constraints: SLSQP's cost grows with their number."""
_INSIDE = 0.98
"""Share of the limits that is used, for what happens between those rows."""
_ROOM = 0.005
"""The same for margins."""


class _OverError(Exception):
    """Time is up in the middle of a minimisation."""


def search(referee: Search, warm: Sequence[Array] = ()) -> None:
    """Spend the budget on minimisations from random starts."""
    waiting = [referee.inwards(x) for x in warm]
    while not referee.over():
        x = waiting.pop(0) if waiting else referee.random_start()
        for smoothing in SMOOTHING:
            x = _minimise(referee, x, smoothing)
            if referee.over(long_step=True):
                break
        referee.offer(x)


def _minimise(referee: Search, x: Array, smoothing: Smoothing) -> Array:
    problem = referee.problem
    reached = [x]

    def objective(flat: Array) -> tuple[float, Array]:
        value, gradient = problem.objective(flat.reshape(problem.shape), smoothing)
        return value, gradient.ravel()

    def note(flat: Array) -> None:
        reached[0] = np.array(flat).reshape(problem.shape)
        referee.violation = problem.violation(reached[0])
        if referee.over(long_step=True):
            raise _OverError

    options: dict[str, Any] = {
        "jac": True,
        "constraints": _constraints(problem),
        "callback": note,
        "options": {"maxiter": ITERATIONS},
    }
    with contextlib.suppress(_OverError):
        scipy.optimize.minimize(objective, x.ravel(), method="SLSQP", **options)
    return reached[0]


def _constraints(problem: DesignProblem) -> list[dict[str, Any]]:
    n, m = problem.shape
    linear = problem.linear
    picked = slice(None, None, GRID_STEP)
    rows = linear.rows[picked]
    blocks = np.zeros((n, len(rows), n, m))
    for j in range(n):
        blocks[j, :, j, :] = rows
    jacobian = blocks.reshape(-1, n * m)
    margin = 0.5 * (1.0 - _INSIDE) * (linear.upper - linear.lower)[picked].T
    upper = ((linear.upper - linear.offset)[picked].T - margin).ravel()
    lower = ((linear.lower - linear.offset)[picked].T + margin).ravel()
    limited = np.isfinite(upper) & (upper - lower < 1e8)
    A, upper, lower = jacobian[limited], upper[limited], lower[limited]
    both = np.vstack([-A, A])
    found: list[dict[str, Any]] = [
        {
            "type": "ineq",
            "fun": lambda flat: np.concatenate([upper - A @ flat, A @ flat - lower]),
            "jac": lambda _: both,
        }
    ]
    return found + [_worst_margin(problem, limit) for limit in problem.nonlinear]


def _worst_margin(problem: DesignProblem, limit: NonlinearLimits) -> dict[str, Any]:
    """The margin that is least, at every few grid points."""
    picked = slice(None, None, NONLINEAR_GRID_STEP)
    bases = problem.basis[:, picked]

    def motion(flat: Array) -> Motion:
        q, qd, qdd = (signal[picked] for signal in problem.motion(flat.reshape(problem.shape)))
        return q, qd, qdd

    def worst(flat: Array) -> Array:
        return np.asarray((limit.margins(motion(flat)) - limit.guard).min(axis=1) - _ROOM)

    def slope(flat: Array) -> Array:
        here = motion(flat)
        chosen = np.zeros((len(here[0]), len(limit.labels)))
        chosen[np.arange(len(chosen)), (limit.margins(here) - limit.guard).argmin(axis=1)] = 1.0
        bars = limit.pull_back(here, chosen)
        rows = sum(bar[:, :, None] * basis[:, None, :] for bar, basis in zip(bars, bases, strict=True))
        return np.asarray(rows).reshape(len(chosen), -1)

    return {"type": "ineq", "fun": worst, "jac": slope}
