"""The referee of a search: budget, random starts, the best so far. Every optimiser plays under it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.excitation.feasibility import interior_point_of
from core.excitation.problem import DesignProblem
from core.excitation.verification import Verifier, fine_samples, information

Array = NDArray[np.float64]

_WORTH_VERIFYING = 0.002
"""By how much the judge's grid may call a candidate worse than the best, on the logarithmic scale."""
_JUDGED = 3
"""How much finer the judge's grid is. The designs' own flatters: they have arranged their reversals with it."""
_LOOKS_AT_THE_CLOCK = 8
"""Every so many steps, each of about a millisecond: asking some clocks takes longer than a step."""
_VALUE_PERIOD = 4e-3
"""s; a grid on which criteria differ from those of the 1 ms grid by a few parts in ten thousand."""
_FILL = (0.3, 0.9)
_INSIDE = 0.99
_CONTRACTION = 0.99
_NOWHERE = 1e-9


@dataclass(frozen=True)
class Progress:
    """How a search stands.

    Attributes
    ----------
    elapsed, budget : s.
    best : criterion of the best verified trajectory, to a few parts in ten thousand; None until there is one.
    violation : largest excess over a limit in the last candidate, as a share of that limit (m for the
        workspace); optimisers that keep to the limits leave it at 0.
    candidates : how many were offered.
    """

    elapsed: float
    budget: float
    best: float | None
    violation: float
    candidates: int


OnProgress = Callable[[Progress], None]


@dataclass
class Search:
    """One search over one problem.

    Attributes
    ----------
    clock : s; wall time unless a benchmark counts processor time.
    stop : asked often; True ends the search with the best so far.
    history : (s, criterion) of every improvement.
    """

    problem: DesignProblem
    budget: float
    random: np.random.Generator
    clock: Callable[[], float]
    stop: Callable[[], bool] = lambda: False
    on_progress: OnProgress = lambda progress: None
    max_candidates: int | None = None

    def __post_init__(self) -> None:
        problem = self.problem
        self._started = self.clock()
        self.history: list[tuple[float, float]] = []
        self.best: Array | None = None
        self.best_value = np.inf
        self._best_figure = np.inf
        self.candidates = 0
        self.violation = 0.0
        self._asked, self._elapsed = 0, 0.0
        # odd, so that it shares hardly any point with the designs' own
        self._judge = problem.on_grid(_JUDGED * problem.samples + 1)
        self.verifier = Verifier(problem.family, problem.columns, problem.limits)
        seed = int(self.random.integers(2**31))
        self.centre = interior_point_of(problem.family, problem.columns, problem.limits, problem.limit_times, seed)

    @property
    def elapsed(self) -> float:
        return self.clock() - self._started

    def over(self, *, long_step: bool = False) -> bool:
        """Whether time is up or someone asked to stop; tells how the search stands. Asked after every step.

        After a long step, of more than some milliseconds, the clock is looked at in any case.
        """
        if long_step or self._asked % _LOOKS_AT_THE_CLOCK == 0:
            self._elapsed = self.elapsed
            best = None if self.best is None else self.best_value
            self.on_progress(Progress(self._elapsed, self.budget, best, self.violation, self.candidates))
        self._asked += 1
        finished = self.max_candidates is not None and self.candidates >= self.max_candidates
        return finished or self._elapsed >= self.budget or self.stop()

    def figure(self, x: Array) -> float:
        """Return the criterion on the logarithmic scale on which it is minimised, to a few parts in a thousand."""
        return self._judge.figure(x)

    def offer(self, x: Array) -> float:
        """Consider coefficients (n, m): verified, brought inside the limits if need be, kept if better.

        Returns the figure of x as it is.
        """
        self.candidates += 1
        figure = self.figure(x)
        if figure > self._best_figure + _WORTH_VERIFYING:
            return figure
        repaired = self.verifier.repaired(x, self.centre)
        if repaired is None:
            return figure
        value = self.value(repaired)
        if value < self.best_value:
            self.best, self.best_value, self._best_figure = repaired, value, self.figure(repaired)
            self.history.append((self.elapsed, value))
        return figure

    def value(self, x: Array) -> float:
        """Return the exact criterion on a fine grid."""
        samples = fine_samples(self.problem.family.trajectory(x), _VALUE_PERIOD)
        found, prior = information(samples, self.problem.columns), self.problem.prior
        return self.problem.criterion.value(found if prior is None else found + prior)

    def random_start(self) -> Array:
        """Return random coefficients inside all limits; each joint uses a fair share of what it may."""
        x = self.random.normal(size=self.centre.shape)
        linear = self.problem.linear
        for j in range(x.shape[0]):
            alone = np.zeros_like(x)
            alone[j] = x[j]
            travel = float(np.abs(self.problem.basis[0] @ x[j]).max())
            most = min(linear.largest_step(self.centre, alone), np.pi / travel)  # half a turn where nothing limits
            x[j] *= self.random.uniform(*_FILL) * most
        return self.inwards(self.centre + x)

    def inwards(self, x: Array) -> Array:
        """Return a point inside all limits on the way from x to the centre."""
        return inwards(self.problem, x, self.centre)


def inwards(problem: DesignProblem, x: Array, target: Array) -> Array:
    """Return x if it keeps all limits of a problem, else a point that does, on the way to a target that does."""
    if problem.inside(x):
        return x
    share = min(1.0, _INSIDE * problem.linear.largest_step(target, x - target))
    contraction = _CONTRACTION
    while share > _NOWHERE:
        between = target + share * (x - target)
        if problem.inside(between):
            return between
        share *= contraction
        contraction *= contraction
    return target
