"""The payload of a known robot: mass, centre of mass and inertia of what it carries.

What the arm alone leaves unexplained in a loaded run is the torque of a body that moves with the last link (of a
parallel robot: with its platform), linear in that body's ten inertial parameters (Khalil, Gautier and Lemoine 2007).
They are estimated together with the arm's own linear parameters: from runs with and without the payload, best of one
motion, since what the model gets wrong in both then cancels; or from loaded runs alone, with an identified arm as the
prior. A loaded run also tells how the friction of joints that carried nothing before grows with the load, which is
evaluated with the payload in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.dynamics.base_parameters import BaseParameters, random_states, reduce_columns
from core.dynamics.physical_consistency import inconsistent_links
from core.errors import IdentificationError, InputError
from core.estimators import Block, Observations, PriorLeastSquares, WeightedLeastSquares, coloured_covariance
from core.models import Mechanism
from core.models.chain import INERTIAL_NAMES
from core.pipelines.identification import Identification
from core.pipelines.training import prepared
from core.recordings.recording import Recording
from core.signals import Segment

Array = NDArray[np.float64]

_SETTLED = 1e-3
"""Change, as a share, at which the payload counts as settled."""
_WORTH_SETTLED = 0.05
"""The same of what samples are worth against the prior."""
_MAX_ITERATIONS = 20
_SEPARATE = 1e-6
"""Coefficient of another parameter from which on a combination is not the parameter alone."""
_MASS_KNOWN = 0.1
_POINT_KNOWN = 0.02
_SPREAD_KNOWN = 0.05
"""A mass counts as identified to this share of itself, a first moment to the mass times so many m, an inertia
to the mass times so many m squared: standard deviations beyond these say nothing about an object one can hold."""


@dataclass(frozen=True, eq=False)
class Payload:
    """A body carried by a robot.

    Attributes
    ----------
    frame : the last joint's of a chain, or the platform's: what the following are given in.
    parameters : (10,) m mx my mz Ixx Ixy Iyy Ixz Iyz Izz about the origin of the frame; kg, kg·m, kg·m². Those that
        no motion shows are zero.
    covariance : (10, 10), of the residual, which is coloured, and of the arm's parameters.
    identified : names of the parameters that the runs determine.
    relations : what a parameter stands for where it cannot be told apart from others, by name.
    rms_without, rms_with : (n,) residual of the loaded runs without and with the payload, N·m (N); None where there
        were no runs, but two results.
    covariance_kind : how the covariance was found.
    """

    frame: str
    parameters: Array
    covariance: Array
    identified: tuple[str, ...]
    relations: dict[str, str]
    rms_without: Array | None
    rms_with: Array | None
    covariance_kind: str

    @property
    def mass(self) -> float:
        """kg."""
        return float(self.parameters[0])

    @property
    def std(self) -> Array:
        """Standard deviations (10,) of the parameters."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def centre(self) -> Array:
        """Centre of mass (3,) in the frame, m."""
        return np.asarray(self.parameters[1:4] / self.mass)

    @property
    def centre_std(self) -> Array:
        """Standard deviations (3,) of the centre of mass, m."""
        slope = np.column_stack([-self.centre, np.eye(3)]) / self.mass
        return np.sqrt(np.diag(slope @ self.covariance[:4, :4] @ slope.T))

    @property
    def inertia(self) -> Array:
        """Inertia (3, 3) about the centre of mass, axes of the frame, kg·m²."""
        xx, xy, yy, xz, yz, zz = self.parameters[4:]
        about_origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        c = self.centre
        return np.asarray(about_origin - self.mass * ((c @ c) * np.eye(3) - np.outer(c, c)))

    @property
    def is_physical(self) -> bool:
        """Whether a body can have these parameters."""
        return not inconsistent_links(self.parameters[None])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know before relying on the result."""
        found = []
        weak = [name for name in INERTIAL_NAMES if name not in self.identified]
        if weak:
            found.append(f"{', '.join(weak)} of the payload are not identified by these runs")
        if not self.is_physical:
            found.append("no body has exactly these parameters; trust those that are identified only")
        return tuple(found)

    def to_document(self) -> dict[str, Any]:
        """Return JSON-serialisable data."""
        known = bool(self.mass > 0.0)
        return {
            "frame": self.frame,
            "mass": self.mass,
            "mass_std": float(self.std[0]),
            "centre": self.centre.tolist() if known else None,
            "centre_std": self.centre_std.tolist() if known else None,
            "inertia": self.inertia.tolist() if known else None,
            "names": list(INERTIAL_NAMES),
            "parameters": self.parameters.tolist(),
            "std": self.std.tolist(),
            "covariance": self.covariance.tolist(),
            "covariance_kind": self.covariance_kind,
            "identified": list(self.identified),
            "relations": self.relations,
            "rms_without": None if self.rms_without is None else self.rms_without.tolist(),
            "rms_with": None if self.rms_with is None else self.rms_with.tolist(),
            "warnings": list(self.warnings),
        }


def identify_payload(arm: Identification, loaded: Sequence[Recording], unloaded: Sequence[Recording] = ()) -> Payload:
    """Estimate what an identified robot carries.

    Parameters
    ----------
    arm : the robot, identified without the payload, in N·m (N); with load-dependent friction, if it has any.
    loaded : runs with the payload.
    unloaded : runs without it, best of the same motion. With them the arm is estimated once more, beside the
        payload; without them the arm's parameters and their covariance are the prior.

    Raises
    ------
    InputError
        There is no run, or it is of another robot.
    IdentificationError
        The arm is identified in A, so that masses have no scale; or the runs do not determine the payload.
    RecordingError
        A run cannot be prepared.
    """
    if not loaded:
        raise InputError("there is no run with the payload", code="recordings-missing")
    if arm.unit == "A":
        raise IdentificationError(
            "the arm is identified in A: without drive gains a payload has no scale; give gains",
            code="gains-undetermined",
        )
    for recording in (*loaded, *unloaded):
        if recording.n_joints != arm.model.n_joints:
            raise InputError(
                f"{recording.name}: it is of {recording.n_joints} joints, the arm has {arm.model.n_joints}",
                code="joint-count-differs",
            )
    runs = PayloadRuns(arm, loaded, unloaded)
    visible = runs.visible
    bare = bool(unloaded)
    known = len(arm.names)
    inflation = np.ones(arm.model.n_joints)
    coef = np.append(arm.parameters_, np.zeros(visible.count))
    for _ in range(_MAX_ITERATIONS):
        observations = runs.observations(coef)
        prior = PriorLeastSquares(arm.parameters_, arm.covariance_, inflation)
        fitted = (WeightedLeastSquares() if bare else prior).fit_observations(observations)
        before, coef = coef, fitted.coef_
        change, size = np.linalg.norm(coef[known:] - before[known:]), np.linalg.norm(coef[known:])
        coloured = coloured_covariance(fitted, observations)
        settled = bare or np.abs(inflation / coloured.inflation - 1.0).max() < _WORTH_SETTLED
        inflation = coloured.inflation
        if settled and change < _SETTLED * size:
            break
    matrix = coloured.matrix[known:, known:]
    found = coef[known:]
    return payload_of(
        arm.model,
        visible,
        found,
        matrix,
        coloured.kind,
        rms_without=_rms([run.residual(np.append(arm.parameters_, 0.0 * found)) for run in runs.loaded]),
        rms_with=_rms([run.residual(coef) for run in runs.loaded]),
    )


def payload_of(
    model: Mechanism,
    visible: BaseParameters,
    values: Array,
    covariance: Array,
    covariance_kind: str,
    *,
    rms_without: Array | None = None,
    rms_with: Array | None = None,
) -> Payload:
    """Return the payload that has the visible parameters (k,) ``values`` with their covariance (k, k)."""
    full = np.zeros(10)
    full[visible.independent] = values
    full_covariance = np.zeros((10, 10))
    full_covariance[np.ix_(visible.independent, visible.independent)] = covariance
    names = visible.base_names
    relations = zip(names, visible.relations, visible.projection, visible.independent, strict=True)
    mixed = {
        name: text for name, text, row, own in relations if np.abs(np.delete(row, own)).max(initial=0.0) > _SEPARATE
    }
    return Payload(
        frame=model.moved_body.frame,
        parameters=full,
        covariance=full_covariance,
        identified=tuple(n for n in _identified(full, np.sqrt(np.diag(full_covariance)), names) if n not in mixed),
        relations=mixed,
        rms_without=rms_without,
        rms_with=rms_with,
        covariance_kind=covariance_kind,
    )


class PayloadRuns:
    """Prepared runs with and without a payload.

    Attributes
    ----------
    visible : what any motion can show of a body that the robot carries.
    names : (k,) of those parameters.
    loaded : the runs with the payload.
    """

    def __init__(self, arm: Identification, loaded: Sequence[Recording], unloaded: Sequence[Recording]) -> None:
        self._arm = arm
        self.visible = visible_parameters(arm.model)
        self.names = self.visible.base_names
        carried = [segment for r in loaded for segment in _segments(arm, r)]
        self.loaded = [_LoadedRun(arm, segment, self.visible) for segment in carried]
        self._unloaded = [segment for r in unloaded for segment in _segments(arm, r)]
        self._oversampling = max(segment.oversampling for segment in (*carried, *self._unloaded))

    def observations(self, parameters: Array) -> Observations:
        """Return all rows; friction is loaded by these parameters (p + k,), the arm's, then the payload's."""
        arm = self._arm
        base = parameters[: arm.base.count]

        def blocks() -> Iterator[Block]:
            for motion, run in enumerate(self.loaded):
                for columns, effort in run.observations(parameters):
                    yield Block(columns, effort, motion)
            for motion, segment in enumerate(self._unloaded, start=len(self.loaded)):
                for columns, effort in arm.torque_model.observations(segment, base):
                    absent = np.zeros((*columns.shape[:2], len(self.names)))
                    yield Block(np.concatenate([columns, absent], axis=2), effort, motion)

        names = (*arm.names, *self.names)
        return Observations(names, arm.model.n_joints, blocks, oversampling=self._oversampling)


class _LoadedRun:
    """One uninterrupted motion with the payload; parameters are the arm's, then the k visible of the payload."""

    def __init__(self, arm: Identification, segment: Segment, visible: BaseParameters) -> None:
        self._arm = arm
        self._segment = segment
        motion = segment.motion
        regressor = arm.model.regressor(*arm.model.from_joints(motion.q, motion.qd, motion.qdd))
        self._raw = visible.columns(regressor[..., arm.model.moved_body.columns])
        self._payload = self._filtered(self._raw)

    def observations(self, parameters: Array) -> Iterator[tuple[Array, Array]]:
        """Yield the columns (m, n, p + k) and the torque (m, n), friction loaded by these parameters."""
        start = 0
        for columns, effort in self._arm.torque_model.observations(self._loaded(parameters)):
            part = slice(start, start + len(effort))
            start = part.stop
            yield np.concatenate([columns, self._payload[part]], axis=2), effort

    def residual(self, parameters: Array) -> Array:
        """Return the torque (m, n) that parameters leave unexplained."""
        return np.concatenate([effort - columns @ parameters for columns, effort in self.observations(parameters)])

    def _loaded(self, parameters: Array) -> Segment:
        model, known = self._arm.torque_model, len(self._arm.names)
        rigid = model.link_torque(self._segment.motion, parameters[: model.base.count])
        motion = replace(self._segment.motion, link_torque=rigid + self._raw @ parameters[known:])
        return replace(self._segment, motion=motion)

    def _filtered(self, values: Array) -> Array:
        return self._segment.low_pass.apply(values)[self._segment.rows]


def _segments(arm: Identification, recording: Recording) -> Sequence[Segment]:
    return prepared(recording, arm.model, arm.effort, arm.signals).segments


def visible_parameters(model: Mechanism) -> BaseParameters:
    """Return what any motion can show of a body that a robot carries."""
    regressor = model.regressor(*random_states(model, 60, seed=0))
    stacked = regressor[..., model.moved_body.columns].reshape(-1, 10)
    return reduce_columns(stacked, INERTIAL_NAMES, preferred=(INERTIAL_NAMES[:1], INERTIAL_NAMES[1:4]))


def _identified(parameters: Array, std: Array, visible: Sequence[str]) -> Iterator[str]:
    mass = float(parameters[0])  # nothing is known of a payload that weighs less than nothing
    limits = [_MASS_KNOWN * mass] + [_POINT_KNOWN * mass] * 3 + [_SPREAD_KNOWN**2 * mass] * 6
    for name, deviation, limit in zip(INERTIAL_NAMES, std, limits, strict=True):
        if name in visible and deviation < limit:
            yield name


def _rms(parts: Sequence[Array]) -> Array:
    return np.asarray(np.sqrt(np.mean(np.concatenate(parts) ** 2, axis=0)))
