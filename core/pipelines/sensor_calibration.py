"""Tare and gain of each joint's force sensor and the direction of gravity, together with the base parameters.

A sensor shows ``y = tare + gain K(g) x``, x the base parameters and K their regressor, which is affine in gravity g:
``K = K_0 + g_x K_x + g_y K_y + g_z K_z``. The size of g is taken as known. Gains and x come as a product, so that one
number has to be known besides: the mean of the gains (one, by default), or a base parameter, such as a platform that
was weighed. Gauss and Newton's method makes of all this a sequence of linear estimates, by the estimators that
everything else is estimated with; its last one gives the covariance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.dynamics.base_parameters import BaseParameters, reduce_to_base
from core.errors import IdentificationError, InputError
from core.estimators import (
    Block,
    Estimator,
    Observations,
    OrdinaryLeastSquares,
    WeightedLeastSquares,
    coloured_covariance,
)
from core.friction import friction_model
from core.models import Mechanism
from core.pipelines.effort import choose_effort
from core.pipelines.torque_model import TorqueModel
from core.pipelines.training import check_motion, prepared
from core.recordings.recording import Recording
from core.signals import Segment, SignalSettings

Array = NDArray[np.float64]

_MAX_ITERATIONS = 30
_SETTLED = 1e-3
"""Change of each unknown, in standard deviations, from which on another iteration is of no use."""
_ROUNDING = 1e-10
"""The same as a share of the largest value of its kind, where noise is next to nothing."""
_MOVING = 0.02  # rad/s, m/s


@dataclass(frozen=True, eq=False)
class SensorCalibration:
    """What force sensors make of forces, and how the robot stands.

    Attributes
    ----------
    model : the robot under the gravity that was found.
    base : the base parameters of ``parameters``.
    parameters : (b,) base parameters.
    tare : (n,) N·m (N), what sensors show without load.
    gain : (n,) shown over true.
    covariance : (b + 2 n + 3, b + 2 n + 3) of parameters, tare, gain and gravity; for coloured residuals.
    covariance_kind : how it was found.
    residual_std : (n,) of what is left unexplained, N·m (N).
    normalised_condition_number : of the last linear estimate, with columns of length one.
    gauge : what the scale of gains and parameters is taken from.
    """

    model: Mechanism
    base: BaseParameters
    parameters: Array
    tare: Array
    gain: Array
    covariance: Array
    covariance_kind: str
    residual_std: Array
    normalised_condition_number: float
    gauge: str

    @property
    def gravity(self) -> Array:
        """Gravity (3,) in the frame of the base, m/s²."""
        return self.model.gravity

    @property
    def parameters_std(self) -> Array:
        return self._std(0, self.base.count)

    @property
    def tare_std(self) -> Array:
        return self._std(self.base.count, self.tare.size)

    @property
    def gain_std(self) -> Array:
        return self._std(self.base.count + self.tare.size, self.gain.size)

    @property
    def gravity_std(self) -> Array:
        return self._std(self.base.count + 2 * self.tare.size, 3)

    def _std(self, first: int, count: int) -> Array:
        return np.sqrt(np.diag(self.covariance)[first : first + count])

    def corrected(self, recording: Recording) -> Recording:
        """Return a recording with true forces in place of those that the sensors show.

        Raises
        ------
        InputError
            It has no measured torque, or is of another number of joints.
        """
        if recording.torque is None or recording.n_joints != self.tare.size:
            raise InputError(
                f"{recording.name}: a calibration of {self.tare.size} sensors needs as many measured forces",
                code="signal-missing",
            )
        provenance = {**recording.provenance, "sensor_calibration": self.to_document()}
        return replace(recording, torque=(recording.torque - self.tare) / self.gain, provenance=provenance)

    def to_document(self) -> dict[str, Any]:
        """Return JSON-serialisable data."""
        return {
            "joint_names": list(self.model.joint_names),
            "tare": self.tare.tolist(),
            "tare_std": self.tare_std.tolist(),
            "gain": self.gain.tolist(),
            "gain_std": self.gain_std.tolist(),
            "gauge": self.gauge,
            "gravity": self.gravity.tolist(),
            "gravity_std": self.gravity_std.tolist(),
            "names": list(self.base.base_names),
            "parameters": self.parameters.tolist(),
            "parameters_std": self.parameters_std.tolist(),
            "residual_std": self.residual_std.tolist(),
            "normalised_condition_number": self.normalised_condition_number,
            "covariance_kind": self.covariance_kind,
        }


def calibrate_sensors(
    model: Mechanism,
    recordings: Sequence[Recording],
    *,
    known: tuple[str, float] | None = None,
    without: Sequence[str] = (),
    signals: SignalSettings | None = None,
) -> SensorCalibration:
    """Estimate tares, gains, the direction of gravity and base parameters from measured forces.

    Parameters
    ----------
    model : its gravity is where the search begins, and of the right size.
    recordings : with measured torque (force), of motion that excites all base parameters.
    known : name and value of a base parameter (``BaseParameters.base_names``) that gives the scale; by default gains
        are one in the mean.
    without : base parameters taken for zero, as of ``identify``.
    signals : how recordings are prepared.

    Raises
    ------
    RecordingError
        A recording cannot be prepared.
    InputError
        There is no recording, no gravity, or no such base parameter.
    IdentificationError
        A recording has no measured torque, the data do not determine all unknowns, or the iteration did not settle.
    """
    settings = signals or SignalSettings()
    if not recordings:
        raise InputError("there is no recording to estimate from", code="recordings-missing")
    effort = replace(choose_effort(model.with_drive_gains(None), recordings, None), signal="torque", gains=None)
    segments = [s for recording in recordings for s in prepared(recording, model, effort, settings).segments]
    check_motion(segments, model, _MOVING)
    return calibrate_segments(model, segments, known=known, without=without)


def calibrate_segments(
    model: Mechanism,
    segments: Sequence[Segment],
    *,
    known: tuple[str, float] | None = None,
    without: Sequence[str] = (),
) -> SensorCalibration:
    """Do the same from segments that are prepared already."""
    size = float(np.linalg.norm(model.gravity))
    if size == 0.0:
        raise InputError(f"{model.name} knows no gravity, whose direction could be found", code="gravity-missing")
    base = reduce_to_base(model).without(without)
    if known is not None and (known[0] not in base.base_names or not known[1] > 0.0):
        raise InputError(
            f"{known[0]} = {known[1]:g} gives no scale; take a positive one of the base parameters "
            f"{', '.join(base.base_names)}",
            code="parameter-not-base",
        )
    sensors = _Sensors(model, base, segments, known)
    state = sensors.settled(
        sensors.start(), OrdinaryLeastSquares()
    )  # while far away, what is left is no noise to weigh
    state = sensors.settled(state, WeightedLeastSquares())
    observations = sensors.observations(state)
    fitted = WeightedLeastSquares().fit_observations(observations)
    coloured = coloured_covariance(fitted, observations)
    slopes = sensors.slopes(state)
    return SensorCalibration(
        model=model.with_gravity(state.gravity),
        base=base,
        parameters=state.parameters,
        tare=state.tare,
        gain=state.gain,
        covariance=slopes @ coloured.matrix @ slopes.T,
        covariance_kind=coloured.kind,
        residual_std=fitted.residual_std_,
        normalised_condition_number=fitted.normalised_condition_number_,
        gauge="the mean of the gains is 1" if known is None else f"{known[0]} is {known[1]:g}",
    )


@dataclass(frozen=True)
class _State:
    parameters: Array  # (b,)
    tare: Array  # (n,)
    gain: Array  # (n,)
    gravity: Array  # (3,)

    @property
    def across(self) -> Array:
        """Two vectors (2, 3) as long as gravity, across it and each other: small turns of gravity are along them."""
        _, size, directions = np.linalg.svd(self.gravity[None])
        return np.asarray(size[0] * directions[1:])


class _Sensors:
    """What sensors show, linearised: unknowns are free base parameters, tares, free gains, and two turns of gravity."""

    def __init__(
        self, model: Mechanism, base: BaseParameters, segments: Sequence[Segment], known: tuple[str, float] | None
    ) -> None:
        self._model, self._base, self._segments = model, base, segments
        n = model.n_joints
        self._free = [i for i, name in enumerate(base.base_names) if known is None or name != known[0]]
        self._known = known
        # mean-one gains: the last makes up for the others
        self._gains = np.eye(n) if known else np.vstack([np.eye(n - 1), -np.ones((1, n - 1))])
        self._columns = [self._of_gravity(segment) for segment in segments]
        numbers = range(1, n + 1)
        self.names = (
            *(base.base_names[i] for i in self._free),
            *(f"tare{j}" for j in numbers),
            *(f"gain{j}" for j in list(numbers)[: self._gains.shape[1]]),
            *("gravity turn 1", "gravity turn 2"),
        )

    def _of_gravity(self, segment: Segment) -> Array:
        """Return K_0, K_x, K_y, K_z (4, m, n, b) of a segment's rows, filtered like its effort."""
        none = friction_model("none", self._model.n_joints)
        fields = np.vstack([np.zeros(3), np.eye(3)])
        robots = [TorqueModel(self._model.with_gravity(gravity), self._base, none) for gravity in fields]
        rows = np.array([robot.rigid_rows(segment) for robot in robots])
        rows[1:] -= rows[0]
        return rows

    def start(self) -> _State:
        """Return the linear estimate for true gains and the model's gravity, brought to scale."""
        n, gravity = self._model.n_joints, self._model.gravity
        tares = np.eye(n)

        def blocks() -> Iterator[Block]:
            for motion, (segment, columns) in enumerate(zip(self._segments, self._columns, strict=True)):
                regressor = np.tensordot(np.append(1.0, gravity), columns, 1)
                all_tares = np.broadcast_to(tares, (len(regressor), n, n))
                yield Block(np.concatenate([regressor, all_tares], axis=2), segment.effort[segment.rows], motion)

        names = (*self._base.base_names, *(f"tare{j}" for j in range(1, n + 1)))
        coef = OrdinaryLeastSquares().fit_observations(Observations(names, n, blocks)).coef_
        parameters, gain = coef[: self._base.count], np.ones(n)
        if self._known is not None:
            scale = parameters[self._base.base_names.index(self._known[0])] / self._known[1]
            if not scale > 0.0:
                raise IdentificationError(
                    f"{self._known[0]} comes out negative from these data, and cannot be {self._known[1]:g}",
                    code="scale-impossible",
                )
            parameters, gain = parameters / scale, gain * scale
        return _State(parameters, coef[self._base.count :], gain, gravity)

    def settled(self, state: _State, estimator: Estimator) -> _State:
        """Return the state from which another linear estimate leads nowhere."""
        for _ in range(_MAX_ITERATIONS):
            fitted = estimator.fit_observations(self.observations(state))
            change = np.abs(fitted.coef_ - self.unknowns(state))
            state = self.moved(state, fitted.coef_)
            enough = np.maximum(_SETTLED * np.sqrt(np.diag(fitted.covariance_)), _ROUNDING * self._sizes(state))
            if np.all(change < enough):
                return state
        raise IdentificationError(
            f"tares, gains and gravity did not settle within {_MAX_ITERATIONS} iterations; the motion excites them too "
            "little: tilt the platform, and move it faster",
            code="estimator-not-converged",
        )

    def observations(self, state: _State) -> Observations:
        """Return the linearised rows, for unknowns that begin at ``unknowns(state)``."""
        n = self._model.n_joints
        at = self.unknowns(state)

        def blocks() -> Iterator[Block]:
            for motion, (segment, columns) in enumerate(zip(self._segments, self._columns, strict=True)):
                regressor = np.tensordot(np.append(1.0, state.gravity), columns, 1)
                force = regressor @ state.parameters
                turns = np.stack(
                    [np.tensordot(turn, columns[1:], 1) @ state.parameters for turn in state.across], axis=-1
                )
                scaled = state.gain[:, None]
                tares = np.broadcast_to(np.eye(n), (len(force), n, n))
                gains = force[:, :, None] * self._gains
                slopes = np.concatenate([scaled * regressor[:, :, self._free], tares, gains, scaled * turns], axis=2)
                shown = state.tare + state.gain * force
                yield Block(slopes, segment.effort[segment.rows] - shown + slopes @ at, motion)

        oversampling = max(segment.oversampling for segment in self._segments)
        return Observations(self.names, n, blocks, oversampling=oversampling)

    def unknowns(self, state: _State) -> Array:
        gains = state.gain[: self._gains.shape[1]]
        return np.concatenate([state.parameters[self._free], state.tare, gains, np.zeros(2)])

    def moved(self, state: _State, unknowns: Array) -> _State:
        """Return the state at other unknowns."""
        n, ends = self._model.n_joints, np.cumsum([len(self._free), self._model.n_joints, self._gains.shape[1]])
        free, tare, gains, turns = np.split(unknowns, ends)
        parameters = state.parameters.copy()
        parameters[self._free] = free
        gain = gains if gains.size == n else np.append(gains, n - gains.sum())
        gravity = state.gravity + turns @ state.across
        gravity *= np.linalg.norm(state.gravity) / np.linalg.norm(gravity)
        return _State(parameters, tare, gain, gravity)

    def _sizes(self, state: _State) -> Array:
        """Return the largest value of the kind of each unknown."""
        kinds = (state.parameters, state.tare, state.gain, np.ones(1))
        counts = (len(self._free), self._model.n_joints, self._gains.shape[1], 2)
        return np.concatenate([np.full(count, np.abs(kind).max()) for kind, count in zip(kinds, counts, strict=True)])

    def slopes(self, state: _State) -> Array:
        """Return the derivatives (b + 2 n + 3, u) of parameters, tare, gain and gravity in the unknowns."""
        b, n, f, g = self._base.count, self._model.n_joints, len(self._free), self._gains.shape[1]
        slopes = np.zeros((b + 2 * n + 3, f + n + g + 2))
        slopes[self._free, np.arange(f)] = 1.0
        slopes[b : b + n, f : f + n] = np.eye(n)
        slopes[b + n : b + 2 * n, f + n : f + n + g] = self._gains
        slopes[b + 2 * n :, f + n + g :] = state.across.T
        return slopes
