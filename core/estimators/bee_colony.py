"""The artificial bee colony: a derivative-free minimiser (Karaboga 2005; Karaboga and Basturk 2007).

Every food source is a point. An employed bee tries one coordinate of its source, moved along the difference to another
source; onlookers do the same at sources drawn by their quality; a source that did not improve ``limit`` times is
abandoned, and a scout starts anew anywhere within the bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Foraged:
    """What a colony found.

    Attributes
    ----------
    best : (p,) the best point ever seen, and ``cost`` there.
    history : (cycles,) best cost after each cycle.
    evaluations : of the cost.
    """

    best: Array
    cost: float
    history: Array
    evaluations: int


@dataclass(frozen=True)
class BeeColony:
    """Settings of a colony; the defaults are those of the methods, section 4.

    Attributes
    ----------
    population : NP, employed and onlooking bees together; half as many food sources.
    limit : trials without improvement after which a source is abandoned.
    cycles : G.
    """

    population: int = 20
    limit: int = 15
    cycles: int = 200

    def minimise(
        self, cost: Callable[[Array], float], lower: ArrayLike, upper: ArrayLike, random: np.random.Generator
    ) -> Foraged:
        """Return the best of what the colony visits between bounds (p,); the same generator, the same result.

        Raises
        ------
        InputError
            Bounds are not finite or cross, or a setting is out of its range.
        """
        low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
        if low.shape != high.shape or low.ndim != 1 or not np.all(np.isfinite(low) & np.isfinite(high) & (low < high)):
            raise InputError("a bee colony needs finite bounds (p,), each lower one below its upper one")
        if self.population < 4 or self.population % 2 or self.limit < 1 or self.cycles < 1:
            raise InputError(f"{self!r}: population must be even and at least 4, limit and cycles at least 1")
        sources = _Sources(cost, low, high, self.population // 2, random)
        history = np.empty(self.cycles)
        for cycle in range(self.cycles):
            for i in range(sources.count):
                sources.visit(i)
            for i in random.choice(sources.count, size=sources.count, p=sources.attraction()):
                sources.visit(int(i))
            sources.remember()
            sources.abandon(self.limit)
            history[cycle] = sources.best_cost
        return Foraged(sources.best, sources.best_cost, history, sources.evaluations)


class _Sources:
    """The food sources of one search."""

    def __init__(
        self, cost: Callable[[Array], float], low: Array, high: Array, count: int, random: np.random.Generator
    ) -> None:
        self.count, self.evaluations = count, 0
        self._cost, self._low, self._high, self._random = cost, low, high, random
        self._points = random.uniform(low, high, (count, low.size))
        self._costs = np.array([self._evaluated(point) for point in self._points])
        self._trials = np.zeros(count, dtype=np.int64)
        self.best, self.best_cost = self._points[0], np.inf
        self.remember()

    def visit(self, i: int) -> None:
        """Try one coordinate of source i, and keep what is better."""
        random = self._random
        other = int(random.integers(self.count - 1))
        other += other >= i
        axis = int(random.integers(self._low.size))
        tried = self._points[i].copy()
        tried[axis] += random.uniform(-1.0, 1.0) * (tried[axis] - self._points[other, axis])
        tried[axis] = min(max(tried[axis], self._low[axis]), self._high[axis])
        cost = self._evaluated(tried)
        self._trials[i] += 1
        if cost < self._costs[i]:
            self._points[i], self._costs[i], self._trials[i] = tried, cost, 0

    def attraction(self) -> Array:
        """Return the share (count,) of onlookers that each source draws."""
        quality = 1.0 / (1.0 + np.maximum(self._costs, 0.0))
        return np.asarray(quality / quality.sum())

    def remember(self) -> None:
        i = int(np.argmin(self._costs))
        if self._costs[i] < self.best_cost:
            self.best, self.best_cost = self._points[i].copy(), float(self._costs[i])

    def abandon(self, limit: int) -> None:
        """Let a scout replace the source that has been tried in vain most often, if beyond the limit."""
        i = int(np.argmax(self._trials))
        if self._trials[i] > limit:
            self._points[i] = self._random.uniform(self._low, self._high)
            self._costs[i], self._trials[i] = self._evaluated(self._points[i]), 0

    def _evaluated(self, point: Array) -> float:
        self.evaluations += 1
        return self._cost(point)
