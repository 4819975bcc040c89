"""Shapes of friction by variable projection, and the load that friction grows with.

For given shapes and a given load, torque is linear in all parameters: they are eliminated, and only the shapes
are searched, one joint after the other, each shape along its own line, until nothing moves. Seeded restarts
guard against a poor first guess. The load is the rigid-body torque of the last estimate, so both are iterated.

The search works on normal equations of normalised columns. They square the condition number, which matters to
parameters but not to the cost that is compared here; what comes out is estimated anew from R factors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from core.dynamics.base_parameters import BaseParameters
from core.friction import FrictionModel, FrictionTerm, JointFriction, VelocityLaw
from core.friction.terms import Warmup
from core.models import Mechanism
from core.pipelines.torque_model import TorqueModel
from core.signals import Segment
from core.signals.motion import JointMotion

Array = NDArray[np.float64]

_TRANSIENT = 0.05
_ROWS_PER_TRANSIENT = 7.0
"""Rows while the filter's transient decays to that share: more say nothing new about filtered torque."""
_RIDGE = 1e-10
"""Share of each normalised column that keeps nearly dependent ones harmless."""
_NOMINAL = 1e-5
"""Weight of a shape's nominal value, which decides only where data do not tell."""
_PASSES, _PASSES_ON = 5, 3
"""Over all joints, from nominal shapes and from those of nearly the same data; each pass also renews the load."""
_LOAD_SETTLED = 2e-3
_SHAPES_SETTLED = 0.05
"""Relative changes of the load and of the shapes at which the iteration ends."""
_WORTH = 1e-5
"""Share of the cost that a shape has to save to be moved."""
_SEED = 0
_GRID = 8
"""Values of a shape, from the least to the largest, of which a first search takes the best to refine."""


class Normal(NamedTuple):
    """Least squares in the base parameters: ``theta' N theta - 2 r' theta + c``."""

    N: Array
    r: Array
    c: float

    def plus(self, other: Normal, weight: float) -> Normal:
        return Normal(self.N + weight * other.N, self.r + weight * other.r, self.c + weight * other.c)

    def minimum(self) -> tuple[Array, float]:
        theta = _regularised_solution(self.N, self.r)
        return theta, float(self.c - self.r @ theta)


@dataclass(frozen=True, eq=False)
class FittedFriction:
    """Attributes: ``friction`` with all shapes; ``base_parameters`` (b,), which say the load."""

    friction: FrictionModel
    base_parameters: Array


class FrictionData:
    """Motion and torque of recordings, kept for repeated fits.

    Parameters
    ----------
    chain, base : see ``TorqueModel``.
    recordings : the segments of each recording.
    """

    def __init__(self, chain: Mechanism, base: BaseParameters, recordings: Sequence[Sequence[Segment]]) -> None:
        self._chain, self._base = chain, base
        frictionless = TorqueModel(chain, base, FrictionModel(()))
        self.segments = [[_thinned(segment) for segment in segments] for segments in recordings]
        self._rigid = [[frictionless.rigid_rows(s) for s in segments] for segments in self.segments]
        self._kept: dict[tuple[int, int, int, object, object], Array] = {}

    def fit(
        self,
        friction: FrictionModel,
        *,
        without: Sequence[int] = (),
        start: FittedFriction | None = None,
        restarts: int = 1,
        progress: Callable[[float], None] | None = None,
    ) -> FittedFriction:
        """Return ``friction`` with its shapes fitted.

        Parameters
        ----------
        without : numbers of recordings to leave out.
        start : where to begin, instead of at nominal shapes and an unknown load.
        restarts : random points from which the first search begins as well.
        """
        used = [(i, k) for i, segments in enumerate(self.segments) for k in range(len(segments)) if i not in without]
        fit = _Fit(self, used, friction)
        if start is None:
            unloaded = FrictionModel(tuple(joint.unloaded() for joint in friction.joints))
            base_parameters = _Fit(self, used, unloaded).linear(None)
        else:
            base_parameters = start.base_parameters
            fit.shapes = [
                {name: known.shapes[name] for name in wanted.free if name in known.shapes}
                for wanted, known in zip(friction.joints, start.friction.joints, strict=True)
            ]
        return fit.run(base_parameters, restarts, _PASSES if start is None else _PASSES_ON, progress)

    def rigid(self, at: tuple[int, int]) -> Array:
        return self._rigid[at[0]][at[1]]

    def segment(self, at: tuple[int, int]) -> Segment:
        return self.segments[at[0]][at[1]]

    def link_torque(self, at: tuple[int, int], base_parameters: Array) -> Array:
        model = TorqueModel(self._chain, self._base, FrictionModel(()))
        return model.link_torque(self.segment(at).motion, base_parameters)

    def columns(
        self, at: tuple[int, int], motion: JointMotion, friction: JointFriction, joint: int, index: int
    ) -> Array:
        """Return the filtered rows of part ``index`` of a joint's friction; kept where nothing can change them."""
        part = friction.parts[index]
        lasting = not part.needs_load and not part.shapes
        key = (*at, joint, part, None)
        if lasting and key in self._kept:
            return self._kept[key]
        segment = self.segment(at)
        rows = segment.low_pass.apply(friction.part_columns(part, motion, joint))[segment.rows]
        if lasting:
            self._kept[key] = rows
        return rows


class _Fit:
    """One fit: shapes, load and weights as they develop."""

    def __init__(self, data: FrictionData, used: Sequence[tuple[int, int]], friction: FrictionModel) -> None:
        self.data, self.used, self.original = data, used, friction
        self.shapes: list[dict[str, float]] = [{} for _ in friction.joints]
        self.effort = np.concatenate([data.segment(at).effort[data.segment(at).rows] for at in used])
        top = np.max([np.abs(data.segment(at).motion.qd).max(axis=0) for at in used], axis=0)
        self.bounds = [
            {name: shape.bounds(max(float(top[j]), 1e-3)) for name, shape in joint.free.items()}
            for j, joint in enumerate(friction.joints)
        ]
        self.weights = np.ones(friction.n_joints)
        self.motions: list[JointMotion] = []

    def joint(self, j: int) -> JointFriction:
        return self.original.joints[j].with_shapes(self._values(j))

    def _values(self, j: int) -> dict[str, float]:
        nominal = {
            name: float(np.clip(shape.nominal, *self.bounds[j][name]))
            for name, shape in self.original.joints[j].free.items()
        }
        return {**nominal, **self.shapes[j]}

    def linear(self, base_parameters: Array | None) -> Array:
        """Return the base parameters (b,) for the present shapes and the load of ``base_parameters``."""
        self._load(base_parameters)
        return self._solved([self._eliminated(j) for j in range(self.original.n_joints)])

    def run(
        self, base_parameters: Array, restarts: int, passes: int, progress: Callable[[float], None] | None
    ) -> FittedFriction:
        random = np.random.default_rng(_SEED)
        searching = not self.original.is_fitted
        for i in range(passes):
            before = self._load(base_parameters)
            normals = [self._eliminated(j) for j in range(self.original.n_joints)]
            self._solved(normals)
            moved = 0.0
            for j in range(self.original.n_joints) if searching else ():
                others = _others(normals, self.weights, j)
                moved = max(moved, self._search(j, others, restarts if i == 0 else 0, random))
                normals[j] = self._eliminated(j)
                if progress is not None:
                    progress((i + (j + 1) / self.original.n_joints) / passes)
            base_parameters = self._solved(normals)
            if not self.original.needs_load and not searching:
                break
            after = [self.data.link_torque(at, base_parameters) for at in self.used]
            change = max(float(np.linalg.norm(a - b) / np.linalg.norm(a)) for a, b in zip(after, before, strict=True))
            if change < _LOAD_SETTLED and moved < _SHAPES_SETTLED:
                break
        if progress is not None:
            progress(1.0)
        fitted = FrictionModel(tuple(self.joint(j) for j in range(self.original.n_joints)))
        return FittedFriction(fitted, base_parameters)

    def _load(self, base_parameters: Array | None) -> list[Array]:
        plain = [self.data.segment(at).motion for at in self.used]
        if base_parameters is None:
            self.motions = plain
            return []
        load = [self.data.link_torque(at, base_parameters) for at in self.used]
        self.motions = [replace(motion, link_torque=own) for motion, own in zip(plain, load, strict=True)]
        return load

    def _solved(self, normals: Sequence[Normal]) -> Array:
        """Return the base parameters (b,), the joints weighted by their residuals."""
        rows = len(self.effort)
        for _ in range(4):
            theta, _ = _weighted(normals, self.weights).minimum()
            squared = [float(n.c - 2.0 * n.r @ theta + theta @ n.N @ theta) for n in normals]
            floor = [1e-20 * max(n.c, 1e-20) for n in normals]
            self.weights = np.array([rows / max(s, f) for s, f in zip(squared, floor, strict=True)])
        return theta

    def _rows(self, j: int, friction: JointFriction, parts: Sequence[int]) -> Array:
        """Return the filtered columns of some parts of a joint's friction, all recordings together."""
        return np.vstack(
            [
                np.hstack([self.data.columns(at, motion, friction, j, part) for part in parts])
                for at, motion in zip(self.used, self.motions, strict=True)
            ]
        )

    def _rigid_and_effort(self, j: int) -> Array:
        rigid = np.concatenate([self.data.rigid(at)[:, j] for at in self.used])
        return np.column_stack([rigid, self.effort[:, j]])

    def _eliminated(self, j: int) -> Normal:
        friction = self.joint(j)
        columns = self._rows(j, friction, range(len(friction.parts)))
        fixed = self._rigid_and_effort(j)
        return _eliminate(columns.T @ columns, columns.T @ fixed, fixed.T @ fixed)

    def _search(self, j: int, others: Normal, restarts: int, random: np.random.Generator) -> float:
        """Improve the shapes of joint j; return how far they moved, in their logarithms."""
        bounds = self.bounds[j]
        if not bounds:
            return 0.0
        before = self._values(j)
        starts = [before] + [
            {name: exp(random.uniform(log(low), log(high))) for name, (low, high) in bounds.items()}
            for _ in range(restarts)
        ]
        found = [self._descend(j, others, dict(start), wide=restarts > 0) for start in starts]
        self.shapes[j] = min(found, key=lambda result: result[1])[0]
        return max(abs(log(self.shapes[j][name] / before[name])) for name in bounds)

    def _descend(
        self, j: int, others: Normal, values: dict[str, float], *, wide: bool
    ) -> tuple[dict[str, float], float]:
        """Minimise along one shape after the other."""
        cost = float("inf")
        for name, (low, high) in self.bounds[j].items():
            nominal = self.original.joints[j].free[name].nominal
            trial = self._cost_along(j, others, values, name, nominal)
            start, stop = log(low), log(high)
            centre, reach = log(values[name]), log(2.0)
            if wide:
                grid = np.linspace(start, stop, _GRID)
                centre, reach = float(min(grid, key=trial)), float(grid[1] - grid[0])
            start, stop = max(start, centre - reach), min(stop, centre + reach)
            best = minimize_scalar(trial, bounds=(start, stop), method="bounded", options={"xatol": 0.05, "maxiter": 9})
            present = trial(log(values[name]))
            if best.fun < (1.0 - _WORTH) * present:
                values[name], cost = exp(float(best.x)), float(best.fun)
            else:
                cost = present
        return values, cost

    def _cost_along(
        self, j: int, others: Normal, values: Mapping[str, float], name: str, nominal: float
    ) -> Callable[[float], float]:
        """Return the cost as a function of the logarithm of one shape of joint j."""
        original = self.original.joints[j]
        friction = original.with_shapes(dict(values))
        owner = name.partition(".")[0]
        changing = [i for i, part in enumerate(friction.parts) if _depends(part, owner, friction.law.name)]
        kept = [i for i in range(len(friction.parts)) if i not in changing]
        fixed = self._rigid_and_effort(j)
        if kept:
            fixed = np.hstack([self._rows(j, friction, kept), fixed])
        gram = fixed.T @ fixed
        k = fixed.shape[1] - self.data.rigid(self.used[0]).shape[2] - 1

        def cost(logarithm: float) -> float:
            tried = original.with_shapes({**values, name: exp(logarithm)})
            columns = self._rows(j, tried, changing)
            cross = columns.T @ fixed
            own = np.block([[gram[:k, :k], cross[:, :k].T], [cross[:, :k], columns.T @ columns]])
            rest = np.vstack([gram[:k, k:], cross[:, k:]])
            normal = _eliminate(own, rest, gram[k:, k:])
            _, value = others.plus(normal, float(self.weights[j])).minimum()
            return value * (1.0 + _NOMINAL * (logarithm - log(nominal)) ** 2)

        return cost


def _depends(part: VelocityLaw | FrictionTerm, owner: str, law: str) -> bool:
    """Return whether a part changes with the shapes of ``owner``: warm-up scales the law's columns."""
    return part.name == owner or (owner == law and part.name == Warmup.name)


def _others(normals: Sequence[Normal], weights: Array, j: int) -> Normal:
    return _weighted([n for i, n in enumerate(normals) if i != j], np.delete(weights, j), normals[j])


def _weighted(normals: Sequence[Normal], weights: Array, like: Normal | None = None) -> Normal:
    first = like or normals[0]
    total = Normal(np.zeros_like(first.N), np.zeros_like(first.r), 0.0)
    for normal, weight in zip(normals, weights, strict=True):
        total = total.plus(normal, float(weight))
    return total


def _eliminate(own: Array, cross: Array, rest: Array) -> Normal:
    """Eliminate a joint's friction from its normal equations; ``rest`` is that of ``[W | tau]``."""
    reduced = rest - cross.T @ _regularised_solution(own, cross)
    return Normal(reduced[:-1, :-1], reduced[:-1, -1], float(reduced[-1, -1]))


def _regularised_solution(matrix: Array, right: Array) -> Array:
    size = np.sqrt(np.diag(matrix))
    size[size == 0.0] = 1.0
    normalised = matrix / np.outer(size, size) + _RIDGE * np.eye(len(matrix))
    scale = size if right.ndim == 1 else size[:, None]
    return np.asarray(np.linalg.solve(normalised, right / scale) / scale)


def _thinned(segment: Segment) -> Segment:
    """Return the segment with as many rows as its filtered torque can have anything to say in."""
    first, stop, step = segment.rows.indices(segment.motion.n_samples)
    fewer = max(1, int(segment.low_pass.settling(_TRANSIENT) / (_ROWS_PER_TRANSIENT * step)))
    return replace(segment, rows=slice(first, stop, step * fewer))
