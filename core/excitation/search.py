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
"""By how much the coarse grid may call a candidate worse than the best, on the logarithmic scale."""
_LOOKS_AT_THE_CLOCK = 8
"""Every so many steps, each of about a millisecond: asking some clocks takes longer than a step."""
_VALUE_PERIOD = 4e-3
"""s; a grid on which criteria differ from those of the 1 ms grid by a few parts in ten thousand."""
_FILL = (0.3, 0.9)
_CONTRACTION = 0.8


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
        self.candidates = 0
        self.violation = 0.0
        self._asked, self._elapsed = 0, 0.0
        self.verifier = Verifier(problem.family, problem.columns, problem.limits)
        seed = int(self.random.integers(2**31))
        self.centre = interior_point_of(problem.family, problem.columns, problem.limits, problem.limit_times, seed)

    @property
    def elapsed(self) -> float:
        return self.clock() - self._started

    def over(self) -> bool:
        """Whether time is up or someone asked to stop; tells how the search stands. Asked after every step."""
        if self._asked % _LOOKS_AT_THE_CLOCK == 0:
            self._elapsed = self.elapsed
            best = None if self.best is None else self.best_value
            self.on_progress(Progress(self._elapsed, self.budget, best, self.violation, self.candidates))
        self._asked += 1
        finished = self.max_candidates is not None and self.candidates >= self.max_candidates
        return finished or self._elapsed >= self.budget or self.stop()

    def offer(self, x: Array) -> None:
        """Consider coefficients (n, m): verified, brought inside the limits if need be, kept if better."""
        self.candidates += 1
        if self.best is not None and self.problem.figure(x) > self.problem.figure(self.best) + _WORTH_VERIFYING:
            return
        repaired = self.verifier.repaired(x, self.centre)
        if repaired is None:
            return
        value = self.value(repaired)
        if value < self.best_value:
            self.best, self.best_value = repaired, value
            self.history.append((self.elapsed, value))

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

    def inwards(self, x: Array, towards: Array | None = None) -> Array:
        """Return the first point inside all limits on the way from x to another, by default the centre."""
        target = self.centre if towards is None else towards
        while not self.problem.inside(x):
            x = target + _CONTRACTION * (x - target)
            if np.abs(x - target).max() < 1e-9:
                return target
        return x
