"""Basin hopping around the interior-point method: the search that designs are made with.

The criteria have many local minima and, near them, creases: eigenvalues that change places. So a search walks
from one polished design to the next. A step of the walk is a hop and a polish, which smooths the criterion
before it sharpens it; a polish that promises nothing is broken off before its dearest stage. Hops of several
kinds compete: those that have led to gains are made more often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.excitation.interior_point import FINISH, FROM_AFAR, POLISH, descend
from core.excitation.search import Search, inwards

Array = NDArray[np.float64]

STARTS = 2
PATIENCE = 6
"""Steps of a walk without a gain before it is left; twice as many for the one that leads."""
WALKING = 0.88
"""Share of the budget after which the best is finished."""
GAIN, LOSS, STRAYED = 0.005, 0.02, 0.05
"""On the criterion's logarithmic scale: what counts as a gain, what loss a step of the walk may bring, and how far
from the best it may stray."""
ELITE = 12
"""So many of the best designs lend parts of themselves to others."""
_SHARES = (0.2, 0.5, 1.0)
_MEMORY = 0.8


class Place(NamedTuple):
    """A design and its figure on the logarithmic scale."""

    figure: float
    x: Array


class _Elite:
    """The best designs of all walks."""

    def __init__(self) -> None:
        self.places: list[Place] = []

    def add(self, place: Place) -> None:
        self.places = sorted((*self.places, place), key=lambda known: known.figure)[:ELITE]

    def one(self, random: np.random.Generator) -> Array:
        return self.places[int(random.integers(len(self.places)))].x


Hop = Callable[[Search, Array, _Elite], Array]
"""(referee, x, elite) -> step from x, all (n, m)."""


def _anywhere(share: float) -> Hop:
    return lambda referee, x, elite: share * _spread(referee, x) * referee.random.normal(size=x.shape)


def _one_joint(referee: Search, x: Array, elite: _Elite) -> Array:
    random = referee.random
    step = np.zeros_like(x)
    size = random.choice(_SHARES) * _spread(referee, x)
    step[random.integers(x.shape[0])] = size * random.normal(size=x.shape[1])
    return step


def _one_joint_anew(referee: Search, x: Array, elite: _Elite) -> Array:
    step = np.zeros_like(x)
    joint = int(referee.random.integers(x.shape[0]))
    step[joint] = referee.random_start()[joint] - x[joint]
    return step


def _one_function(referee: Search, x: Array, elite: _Elite) -> Array:
    """One function of the basis, in all joints."""
    random = referee.random
    step = np.zeros_like(x)
    step[:, random.integers(x.shape[1])] = random.choice(_SHARES) * _spread(referee, x) * random.normal(size=len(x))
    return step


def _along_difference(referee: Search, x: Array, elite: _Elite) -> Array:
    """As differential evolution does (Storn and Price 1997)."""
    difference = elite.one(referee.random) - elite.one(referee.random)
    return np.asarray(referee.random.choice(_SHARES) * difference)


def _borrowed_joints(referee: Search, x: Array, elite: _Elite) -> Array:
    """Two joints or so as another design moves them."""
    chosen = referee.random.random(x.shape[0]) < 2.0 / x.shape[0]
    return np.where(chosen[:, None], elite.one(referee.random) - x, 0.0)


def _nowhere(referee: Search, x: Array, elite: _Elite) -> Array:
    """Smoothing alone leads out of some valleys."""
    return np.zeros_like(x)


def _spread(referee: Search, x: Array) -> float:
    return float((x - referee.centre).std())


HOPS: Mapping[str, Hop] = MappingProxyType(
    {
        "nowhere": _nowhere,
        "near": _anywhere(0.03),
        "far": _anywhere(0.1),
        "farther": _anywhere(0.25),
        "one joint": _one_joint,
        "one joint anew": _one_joint_anew,
        "one function": _one_function,
        "along difference": _along_difference,
        "borrowed joints": _borrowed_joints,
    }
)


class _Chances:
    """How often each kind of hop is made: in proportion to the share of its hops that led to a gain."""

    def __init__(self) -> None:
        self._tried = dict.fromkeys(HOPS, 2.0)
        self._gained = dict.fromkeys(HOPS, 1.0)

    def draw(self, random: np.random.Generator) -> str:
        rates = np.array([self._gained[name] / self._tried[name] for name in HOPS])
        return tuple(HOPS)[int(random.choice(rates.size, p=rates / rates.sum()))]

    def learn(self, name: str, gained: bool) -> None:
        self._tried[name] += 1.0
        self._gained[name] += float(gained)


class _BasinHopping:
    def __init__(self, referee: Search) -> None:
        self._referee = referee
        self._elite = _Elite()
        self._chances = _Chances()
        self._last_gain = 0.05  # of the last stage of a polish, on the logarithmic scale; learned

    @property
    def best(self) -> Place | None:
        return self._elite.places[0] if self._elite.places else None

    def begin(self) -> Place:
        """Return the best of a few descents."""
        best = Place(np.inf, self._referee.centre)
        for _ in range(STARTS):
            if self.over():
                break
            x = descend(self._referee, self._referee.random_start(), FROM_AFAR)
            best = min(best, self._polished(x, np.inf), key=lambda known: known.figure)
        return best

    def go_on(self, warm: Sequence[Array]) -> Place:
        """Return what a polish makes of the first design; the others lend parts of themselves."""
        inside = [self._referee.inwards(x) for x in warm]
        for x in inside:
            self._elite.add(Place(self._referee.figure(x), x))
        return self._polished(inside[0], np.inf)

    def walk(self, place: Place) -> Place:
        """Hop and polish until nothing gained for a while; return the best.

        The walk may go on from a slightly worse place, but not from one much worse than its best.
        """
        referee = self._referee
        best, stuck = place, 0
        while stuck < self._patience(best) and not self.over():
            kind = self._chances.draw(referee.random)
            reached = self._polished(self._hop(kind, place.x), place.figure + LOSS)
            self._chances.learn(kind, reached.figure < place.figure)
            stuck = 0 if reached.figure < best.figure - GAIN else stuck + 1
            best = min(best, reached, key=lambda known: known.figure)
            if reached.figure < place.figure + LOSS:
                place = reached
            if place.figure > best.figure + STRAYED:
                place = best
        return best

    def finish(self) -> None:
        """Sharpen the best once more; then what lies near it, as long as there is time."""
        near = False
        while self.best is not None and not self._referee.over():
            x = self._hop("near", self.best.x) if near else self.best.x
            x = descend(self._referee, x, FINISH)
            self._elite.add(Place(self._referee.offer(x), x))
            near = True

    def _patience(self, best: Place) -> int:
        leads = self.best is None or best.figure <= self.best.figure
        return 2 * PATIENCE if leads else PATIENCE

    def over(self) -> bool:
        """Whether walks are to end: the rest of the time is for finishing."""
        return self._referee.over() or self._referee.elapsed > WALKING * self._referee.budget

    def _hop(self, kind: str, x: Array) -> Array:
        referee = self._referee
        return inwards(referee.problem, x + HOPS[kind](referee, x, self._elite), x)

    def _polished(self, x: Array, wanted: float) -> Place:
        """Return what a polish makes of x; only roughly if it is unlikely to come below the wanted figure."""
        referee = self._referee
        x = descend(referee, x, POLISH[:-1])
        rough = referee.figure(x)
        if rough - self._last_gain > wanted or referee.over():
            return Place(referee.offer(x), x)
        x = descend(referee, x, POLISH[-1:])
        place = Place(referee.offer(x), x)
        self._last_gain += (1.0 - _MEMORY) * (max(rough - place.figure, 0.0) - self._last_gain)
        self._elite.add(place)
        return place


def search(referee: Search, warm: Sequence[Array] = ()) -> None:
    """Spend the budget on walks, each from the best of a few random starts until it gets nowhere. Valleys differ in
    how far down they lead, which no start tells; so a walk that ends higher than another did is followed by one
    from the best of all.

    Parameters
    ----------
    warm : coefficients (n, m): the first walk begins with the first of them, and borrows from the others.
    """
    hopping = _BasinHopping(referee)
    if warm and not referee.over():
        hopping.walk(hopping.go_on(warm))
    while not hopping.over():
        ended = hopping.walk(hopping.begin())
        best = hopping.best
        if best is not None and best.figure < ended.figure:
            hopping.walk(best)
    hopping.finish()
