"""Shapes of friction by variable projection, and the load that friction grows with.

For given shapes and a given load, torque is linear in all parameters: they are eliminated, and only the shapes
are searched, one joint after the other, each shape along its own line, until nothing moves. Seeded restarts
guard against a poor first guess. The load is the rigid-body torque of the last estimate, so both are iterated.

The search works on normal equations (``normal_equations``); what comes out is estimated anew from R factors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, log

import numpy as np
from numpy.typing import NDArray

from core.dynamics.base_parameters import BaseParameters
from core.friction import FrictionModel, FrictionTerm, JointFriction, VelocityLaw
from core.friction.terms import Warmup
from core.models import Mechanism
from core.pipelines.normal_equations import Normal, eliminate, joint_weights, weighted
from core.pipelines.torque_model import TorqueModel
from core.signals import Segment
from core.signals.motion import JointMotion

Array = NDArray[np.float64]

_TRANSIENT = 0.05
_ROWS_PER_TRANSIENT = 5.0
"""Rows while the filter's transient decays to that share: more say nothing new about filtered torque."""
_MOST_ROWS = 60_000
"""Rows that are kept, 120 MB of a six-joint robot: of longer recordings only some are taken, evenly spread."""
_NOMINAL = 1e-5
"""Weight of a shape's nominal value, which decides only where data do not tell."""
_PASSES, _PASSES_ON = 5, 3
"""Over all joints, from nominal shapes and from those of nearly the same data; each pass also renews the load."""
_LOAD_SETTLED = 2e-3
_SHAPES_SETTLED = 0.05
"""Relative changes of the load and of the shapes at which the iteration ends."""
_WORTH = 1e-5
"""Share of the cost that a shape has to save to be moved."""
_GRID = 8
"""Values of a shape, from the least to the largest, of which a first search takes the best to refine."""
_STEP = 0.25
"""Logarithmic step to both sides of a value that is refined."""
DEFAULT_SEED = 0


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
    random_state : seed of the random point from which a search begins as well, where nothing is known of several
        shapes of a joint; None for ``DEFAULT_SEED``, so that results can be had again.
    """

    def __init__(
        self,
        chain: Mechanism,
        base: BaseParameters,
        recordings: Sequence[Sequence[Segment]],
        *,
        random_state: int | None = None,
    ) -> None:
        self._chain, self._base = chain, base
        self._seed = DEFAULT_SEED if random_state is None else random_state
        frictionless = TorqueModel(chain, base, FrictionModel(()))
        rows = sum(_thinned(segment).n_rows for segments in recordings for segment in segments)
        fewer = max(1, ceil(rows / _MOST_ROWS))
        self.segments = [[_thinned(segment, fewer) for segment in segments] for segments in recordings]
        self._fixed = [[_fixed_rows(frictionless, segment) for segment in segments] for segments in self.segments]
        self._fixed_normals = [[rows.transpose(0, 2, 1) @ rows for rows in segments] for segments in self._fixed]
        self._kept: dict[tuple[int, int, int, object, object], Array] = {}

    def fit(
        self,
        friction: FrictionModel,
        *,
        without: Sequence[int] = (),
        start: FittedFriction | None = None,
        roughly: bool = False,
        progress: Callable[[float], None] | None = None,
    ) -> FittedFriction:
        """Return ``friction`` with its shapes fitted.

        Parameters
        ----------
        without : numbers of recordings to leave out.
        start : where to begin, instead of at nominal shapes and an unknown load; it may lack some of the shapes.
        roughly : stop after one pass from ``start``, which tells compositions apart.
        """
        used = [(i, k) for i, segments in enumerate(self.segments) for k in range(len(segments)) if i not in without]
        fit = _Fit(self, used, friction)
        if start is None:
            unloaded = FrictionModel(tuple(joint.unloaded() for joint in friction.joints))
            base_parameters = _Fit(self, used, unloaded).linear(None)
        else:
            base_parameters = start.base_parameters
            fit.begin_at(start.friction)
        random = np.random.default_rng(self._seed)
        passes = _PASSES if start is None else 1 if roughly else _PASSES_ON
        return fit.run(base_parameters, random, passes, progress)

    def fixed(self, at: tuple[int, int], joint: int) -> Array:
        """Return what no friction changes: the filtered rows ``[W tau]`` (rows, b + 1) of a joint in a segment."""
        return np.asarray(self._fixed[at[0]][at[1]][joint])

    def fixed_normal(self, at: tuple[int, int], joint: int) -> Array:
        """Return the normal equations (b + 1, b + 1) of ``fixed``."""
        return np.asarray(self._fixed_normals[at[0]][at[1]][joint])

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
        self._fixed: dict[int, tuple[Array, Array]] = {}
        self._kept: dict[tuple[int, object, object], Array] = {}

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

    def begin_at(self, friction: FrictionModel) -> None:
        """Take over those shapes that ``friction`` has as well; they are refined, the others searched for."""
        for j, (wanted, known) in enumerate(zip(self.original.joints, friction.joints, strict=True)):
            for name in wanted.free:
                if name in known.shapes:
                    self.shapes[j][name] = float(np.clip(known.shapes[name], *self.bounds[j][name]))

    def run(
        self, base_parameters: Array, random: np.random.Generator, passes: int, progress: Callable[[float], None] | None
    ) -> FittedFriction:
        searching = not self.original.is_fitted
        for i in range(passes):
            before = self._load(base_parameters)
            normals = [self._eliminated(j) for j in range(self.original.n_joints)]
            self._solved(normals)
            moved = 0.0
            for j in range(self.original.n_joints) if searching else ():
                others = _others(normals, self.weights, j)
                moved = max(moved, self._search(j, others, random))
                normals[j] = self._eliminated(j)
                if progress is not None:
                    progress((i + (j + 1) / self.original.n_joints) / passes)
            base_parameters = self._solved(normals)
            if self._load_change(before, base_parameters) < _LOAD_SETTLED and moved < _SHAPES_SETTLED:
                break
        if progress is not None:
            progress(1.0)
        fitted = FrictionModel(tuple(self.joint(j) for j in range(self.original.n_joints)))
        return FittedFriction(fitted, base_parameters)

    def _load(self, base_parameters: Array | None) -> list[Array]:
        """Take over the load that base parameters say, where friction depends on it; return it."""
        plain = [self.data.segment(at).motion for at in self.used]
        self._kept.clear()
        self.motions = plain
        if base_parameters is None or not self.original.needs_load:
            return []
        load = [self.data.link_torque(at, base_parameters) for at in self.used]
        self.motions = [replace(motion, link_torque=own) for motion, own in zip(plain, load, strict=True)]
        return load

    def _load_change(self, before: Sequence[Array], base_parameters: Array) -> float:
        changes = [
            float(np.linalg.norm(load - self.data.link_torque(at, base_parameters)) / np.linalg.norm(load))
            for at, load in zip(self.used, before, strict=False)
        ]
        return max(changes, default=0.0)

    def _solved(self, normals: Sequence[Normal]) -> Array:
        """Return the base parameters (b,), the joints weighted by their residuals."""
        theta, self.weights = joint_weights(normals, self.weights, len(self.effort))
        return theta

    def _rows(self, j: int, friction: JointFriction, part: int, *, keep: bool = True) -> Array:
        """Return the filtered columns of one part of a joint's friction, all recordings together.

        They are kept until the load is renewed, unless they are only tried.
        """
        key = (j, friction.parts[part], friction.law)
        if key in self._kept:
            return self._kept[key]
        segments = zip(self.used, self.motions, strict=True)
        rows = np.vstack([self.data.columns(at, motion, friction, j, part) for at, motion in segments])
        if keep:
            self._kept[key] = rows
        return rows

    def _rigid_and_effort(self, j: int) -> tuple[Array, Array]:
        """Return the rows ``[W tau]`` of a joint and their normal equations."""
        if j not in self._fixed:
            rows = np.vstack([self.data.fixed(at, j) for at in self.used])
            self._fixed[j] = rows, np.sum([self.data.fixed_normal(at, j) for at in self.used], axis=0)
        return self._fixed[j]

    def _eliminated(self, j: int) -> Normal:
        friction = self.joint(j)
        columns = np.hstack([self._rows(j, friction, part) for part in range(len(friction.parts))])
        fixed, normal = self._rigid_and_effort(j)
        return eliminate(columns.T @ columns, columns.T @ fixed, normal)

    def _search(self, j: int, others: Normal, random: np.random.Generator) -> float:
        """Improve the shapes of joint j; return how far they moved, in their logarithms."""
        bounds = self.bounds[j]
        if not bounds:
            return 0.0
        before = self._values(j)
        unknown = [name for name in bounds if name not in self.shapes[j]]
        starts = [before]
        if len(unknown) > 1:  # a single one is looked for everywhere in any case
            starts.append(before | {name: _anywhere(bounds[name], random) for name in unknown})
        found = [self._descend(j, others, dict(start), unknown) for start in starts]
        self.shapes[j] = min(found, key=lambda result: result[1])[0]
        return max(abs(log(self.shapes[j][name] / before[name])) for name in bounds)

    def _descend(
        self, j: int, others: Normal, values: dict[str, float], unknown: Sequence[str]
    ) -> tuple[dict[str, float], float]:
        """Minimise along one shape after the other."""
        cost = float("inf")
        for name, bounds in self.bounds[j].items():
            trial = self._cost_along(j, others, values, name, self.original.joints[j].free[name].nominal)
            low, high = map(log, bounds)
            present = (log(values[name]), trial(log(values[name])))
            tried = [present]
            if name in unknown:
                tried += [(x, trial(x)) for x in np.linspace(low, high, _GRID).tolist()]
            else:
                near = (present[0] - _STEP, present[0] + _STEP)
                tried += [(x, trial(x)) for x in near if low <= x <= high]
            vertex = _vertex(tried)
            if vertex is not None:
                tried.append((vertex, trial(vertex)))
            best = min(tried, key=lambda point: point[1])
            if best[1] >= (1.0 - _WORTH) * present[1]:
                best = present
            values[name], cost = exp(best[0]), best[1]
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
        fixed, gram = self._rigid_and_effort(j)
        known = np.hstack([np.empty((len(fixed), 0)), *(self._rows(j, friction, part) for part in kept)])
        known_own, known_fixed = known.T @ known, known.T @ fixed

        def cost(logarithm: float) -> float:
            tried = original.with_shapes({**values, name: exp(logarithm)})
            columns = np.hstack([self._rows(j, tried, part, keep=False) for part in changing])
            mixed = columns.T @ known
            own = np.block([[known_own, mixed.T], [mixed, columns.T @ columns]])
            rest = np.vstack([known_fixed, columns.T @ fixed])
            normal = eliminate(own, rest, gram)
            _, value = others.plus(normal, float(self.weights[j])).minimum()
            return value * (1.0 + _NOMINAL * (logarithm - log(nominal)) ** 2)

        return cost


def _vertex(points: Sequence[tuple[float, float]]) -> float | None:
    """Return where the parabola through the least of some points (x, y) and its neighbours has its minimum."""
    points = sorted(set(points))
    i = min(range(len(points)), key=lambda k: points[k][1])
    if not 0 < i < len(points) - 1:
        return None
    (a, left), (x, y), (b, right) = points[i - 1 : i + 2]
    slopes = (left - y) * (b - x), (right - y) * (x - a)
    if sum(slopes) <= 0.0:
        return None
    return x + 0.5 * (slopes[0] * (b - x) - slopes[1] * (x - a)) / sum(slopes)


def _anywhere(bounds: tuple[float, float], random: np.random.Generator) -> float:
    return exp(random.uniform(log(bounds[0]), log(bounds[1])))


def _depends(part: VelocityLaw | FrictionTerm, owner: str, law: str) -> bool:
    """Return whether a part changes with the shapes of ``owner``: warm-up scales the law's columns."""
    return part.name == owner or (owner == law and part.name == Warmup.name)


def _others(normals: Sequence[Normal], weights: Array, j: int) -> Normal:
    return weighted([n for i, n in enumerate(normals) if i != j], np.delete(weights, j), normals[j])


def _thinned(segment: Segment, fewer: int = 1) -> Segment:
    """Return the segment with the rows that its filtered torque has anything to say in, or one in ``fewer`` of them."""
    first, stop, step = segment.rows.indices(segment.motion.n_samples)
    fewer *= max(1, int(segment.low_pass.settling(_TRANSIENT) / (_ROWS_PER_TRANSIENT * step)))
    return replace(segment, rows=slice(first, stop, step * fewer))


def _fixed_rows(frictionless: TorqueModel, segment: Segment) -> Array:
    """Return ``[W tau]`` (n, rows, b + 1), joint by joint in memory."""
    rigid = frictionless.rigid_rows(segment)
    effort = segment.effort[segment.rows]
    return np.ascontiguousarray(np.concatenate([rigid, effort[:, :, None]], axis=2).transpose(1, 0, 2))
