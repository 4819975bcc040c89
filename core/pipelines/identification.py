"""Identification: from recordings of a robot to parameters that predict its torque."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.dynamics.base_parameters import BaseParameters, reduce_to_base
from core.errors import IdentificationError, InputError
from core.estimators import (
    Block,
    ConsistentLeastSquares,
    Estimator,
    Observations,
    ParameterStructure,
    coloured_covariance,
    make_estimator,
)
from core.estimators.identifiability import undetermined
from core.friction import FrictionModel, friction_model
from core.models import SerialChain
from core.pipelines.effort import Effort, choose_effort
from core.pipelines.provenance import software_versions
from core.pipelines.simulated_instruments import SimulatedInstruments
from core.pipelines.torque_model import TorqueModel
from core.recordings.recording import Recording
from core.signals import Preparation, Segment, SignalSettings, prepare
from core.signals.motion import JointMotion
from core.validation import PredictedMotion, ValidationReport, Verdict, judge, validation_report
from core.validation.verdict import MAX_CONDITION_NUMBER

Array = NDArray[np.float64]
Progress = Callable[[str, float], None]
"""Called with the phase and the fraction of it that is done; may raise to stop the computation."""

_KIND = "identification"
_VERSION = 1


@dataclass(frozen=True, eq=False)
class Identification:
    """A result that stands alone: model, parameters, uncertainty, errors and where all of it came from.

    Attributes
    ----------
    model, base, friction : what ``parameters_`` multiply; see ``TorqueModel``.
    parameters_ : (p,) base parameters, then friction, in the order of ``names``; SI units, with A for N·m
        where ``effort.unit`` is A.
    covariance_ : (p, p), for residuals that are coloured, as those of filtered torque are; drift from one
        recording to the next is not in it. ``covariance_kind`` says how it was found.
    residual_std_ : (n,) of the training residual.
    condition_number_, normalised_condition_number_ : of the observation matrix, raw and with columns of
        length one.
    undetermined_ : parameters that the data hardly determine, where the condition number exceeds 1e4.
    estimator : name and parameters of the estimator.
    consistent : standard parameters that a real robot can have, and what bounds them (the document of
        ``ConsistentParameters``), where the estimator found such; otherwise None.
    effort : the recorded signal that is explained, its gains and its unit.
    signals : how signals are prepared.
    moving_threshold : rad/s (m/s); a joint faster than this moves.
    train, validation : errors on the training data, and on held-out motion where there was any.
    provenance : recordings with their hashes, signal processing, digests, software.
    """

    model: SerialChain
    base: BaseParameters
    friction: FrictionModel
    parameters_: Array
    covariance_: Array
    covariance_kind: str
    residual_std_: Array
    condition_number_: float
    normalised_condition_number_: float
    undetermined_: tuple[str, ...]
    estimator: Mapping[str, Any]
    consistent: Mapping[str, Any] | None
    effort: Effort
    signals: SignalSettings
    moving_threshold: float
    train: ValidationReport
    validation: ValidationReport | None
    provenance: Mapping[str, Any]

    @property
    def torque_model(self) -> TorqueModel:
        return TorqueModel(self.model, self.base, self.friction)

    @property
    def names(self) -> tuple[str, ...]:
        """Names (p,) of the parameters."""
        return self.torque_model.names

    @property
    def unit(self) -> str:
        """Unit of predicted torque."""
        return self.effort.unit

    @property
    def relative_std_(self) -> Array:
        """Standard deviation of each parameter (p,) as a share of its value."""
        deviation = np.sqrt(np.diag(self.covariance_))
        size = np.abs(self.parameters_)
        return np.divide(deviation, size, out=np.full_like(size, np.inf), where=size > 0.0)

    @property
    def verdict(self) -> Verdict:
        """What to think of this result, in plain words."""
        return judge(self.train, self.validation, self.condition_number_, self.undetermined_)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should look at before relying on the result."""
        found = []
        if self.undetermined_:
            found.append(
                f"condition number {self.condition_number_:.3g} exceeds {MAX_CONDITION_NUMBER:g}: "
                f"{', '.join(self.undetermined_)} are hardly determined by these data"
            )
        if self.consistent:
            found += _limits_of(self.consistent)
        reports = (self.train, self.validation) if self.validation else (self.train,)
        found += [str(jolt) for report in reports for jolt in report.jolts]
        return tuple(found)

    def predict(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        period: float | None = None,
        smooth: bool = False,
    ) -> Array:
        """Return torques (N, n) along a motion, in the result's unit.

        Parameters
        ----------
        q, qd, qdd : (N, n) consecutive samples.
        period : s between them, for friction that remembers; by default that of the estimate's rows.
        smooth : round off the jump of dry friction at a reversal, as a controller needs it.

        Raises
        ------
        InputError
            A shape is wrong.
        """
        position, rate, acceleration = (np.atleast_2d(np.asarray(v, dtype=np.float64)) for v in (q, qd, qdd))
        expected = (len(position), self.model.n_joints)
        for name, value in (("q", position), ("qd", rate), ("qdd", acceleration)):
            if value.shape != expected:
                raise InputError(f"{name} has shape {value.shape}, expected {expected}")
        motion = JointMotion(period or 1.0 / self.signals.rate, position, rate, acceleration)
        return self.torque_model.torque(motion, self.parameters_, smooth=smooth)

    def validate(self, recordings: Sequence[Recording], progress: Progress | None = None) -> ValidationReport:
        """Return the errors on other recordings, prepared like those of the training.

        Raises
        ------
        RecordingError, IdentificationError
            A recording cannot be prepared, lacks the signal, or is of a robot with other joints.
        """
        motions = []
        for i, recording in enumerate(recordings):
            for segment in _prepared(recording, self.model, self.effort, self.signals).segments:
                predicted = self.torque_model.predict(segment, self.parameters_)
                motions.append(_compared(segment, predicted, self.moving_threshold))
            _report(progress, "validating", (i + 1) / len(recordings))
        return validation_report(motions)

    def summary(self) -> dict[str, Any]:
        """Return the figures that people and programs look at first, JSON-serialisable."""
        train, validation = self.train.to_document(), self.validation
        rows = zip(self.names, self.parameters_, self.relative_std_, strict=True)
        parameters = [
            {"name": name, "value": float(value), "relative_std": _finite(share)} for name, value, share in rows
        ]
        relations = zip(parameters[: self.base.count], self.base.relations, strict=True)
        return {
            "unit": self.unit,
            "base_parameters": [{**row, "relation": relation} for row, relation in relations],
            "friction_parameters": parameters[self.base.count :],
            "condition_number": self.condition_number_,
            "normalised_condition_number": self.normalised_condition_number_,
            "train": {"rms": train["rms_all"], "relative": train["relative_all"], **train},
            "validate": validation.to_document() if validation else None,
            "warnings": list(self.warnings),
            "verdict": self.verdict.to_document(),
        }

    def to_document(self) -> dict[str, Any]:
        """Return everything as JSON-serialisable data; ``from_document`` gives the same result back."""
        return {
            "kind": _KIND,
            "version": _VERSION,
            **self.summary(),
            "model": self.model.to_document(),
            "base": self.base.to_document(),
            "friction": self.friction.specification,
            "parameters": self.parameters_.tolist(),
            "covariance": self.covariance_.tolist(),
            "covariance_kind": self.covariance_kind,
            "residual_std": self.residual_std_.tolist(),
            "undetermined": list(self.undetermined_),
            "estimator": dict(self.estimator),
            "consistent": dict(self.consistent) if self.consistent else None,
            "effort": self.effort.to_document(),
            "signals": self.signals.to_document(),
            "moving_threshold": self.moving_threshold,
            "provenance": dict(self.provenance),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the result that ``to_document`` described.

        Raises
        ------
        InputError
            The document is of another kind or version, or incomplete.
        """
        if document.get("kind") != _KIND or document.get("version") != _VERSION:
            raise InputError(
                f"not an identification of version {_VERSION}: kind {document.get('kind')!r}, version "
                f"{document.get('version')!r}",
                code="document-foreign",
            )
        try:
            model = SerialChain.from_document(document["model"])
            validation = document["validate"]
            return cls(
                model=model,
                base=BaseParameters.from_document(document["base"]),
                friction=friction_model(document["friction"], model.n_joints),
                parameters_=np.array(document["parameters"]),
                covariance_=np.array(document["covariance"]),
                covariance_kind=document["covariance_kind"],
                residual_std_=np.array(document["residual_std"]),
                condition_number_=document["condition_number"],
                normalised_condition_number_=document["normalised_condition_number"],
                undetermined_=tuple(document["undetermined"]),
                estimator=document["estimator"],
                consistent=document["consistent"],
                effort=Effort.from_document(document["effort"]),
                signals=SignalSettings.from_document(document["signals"]),
                moving_threshold=document["moving_threshold"],
                train=ValidationReport.from_document(document["train"]),
                validation=ValidationReport.from_document(validation) if validation else None,
                provenance=document["provenance"],
            )
        except KeyError as error:
            raise InputError(f"incomplete identification: {error} is missing", code="document-foreign") from error


def identify(
    model: SerialChain,
    train: Sequence[Recording],
    validate: Sequence[Recording] = (),
    *,
    gains: ArrayLike | str | None = None,
    friction: str | Sequence[str] = "coulomb_viscous",
    estimator: str | Estimator = "wls",
    signals: SignalSettings | None = None,
    moving_threshold: float = 0.02,
    progress: Progress | None = None,
) -> Identification:
    """Estimate base and friction parameters of a robot.

    Parameters
    ----------
    model : geometry, gravity and whether there are rotor inertias.
    train, validate : recordings to estimate from, and held-out ones to judge by.
    gains : drive gains (n,) in N·m/A, ``from-recording`` for the controller's own, None for the model's. Where
        neither is known, measured torque is explained, or else current in A.
    friction : composition such as ``coulomb_viscous``, for all joints or one per joint.
    estimator : name, or an estimator.
    signals : how recordings are prepared.
    moving_threshold : rad/s (m/s); a joint faster than this moves.

    Raises
    ------
    RecordingError
        A recording cannot be prepared.
    IdentificationError
        The data do not determine the parameters; the detail names which, or which joint stands still.
    InputError
        A name or a shape is wrong.
    """
    settings = signals or SignalSettings()
    torque_model = TorqueModel(model, reduce_to_base(model), friction_model(friction, model.n_joints))
    chosen = make_estimator(estimator) if isinstance(estimator, str) else estimator
    if not train:
        raise InputError("there is no recording to estimate from", code="recordings-missing")
    train, validate = ([_for_joints_of(model, recording) for recording in group] for group in (train, validate))
    effort = choose_effort(model, train, gains)
    preparations = []
    for i, recording in enumerate(train):
        preparations.append(_prepared(recording, model, effort, settings))
        _report(progress, "preparing signals", (i + 1) / len(train))
    segments = [segment for preparation in preparations for segment in preparation.segments]
    _check_motion(segments, model, moving_threshold)
    observations = _observations(torque_model, train, segments, settings, progress)
    factors = observations.factors
    _report(progress, "estimating", 0.0)
    chosen.fit_observations(observations)
    _report(progress, "estimating", 0.5)
    covariance = coloured_covariance(chosen, observations)
    _report(progress, "estimating", 1.0)
    ill = chosen.condition_number_ > MAX_CONDITION_NUMBER
    motions = [
        _compared(segment, torque_model.predict(segment, chosen.coef_), moving_threshold) for segment in segments
    ]
    result = Identification(
        model=model,
        base=torque_model.base,
        friction=torque_model.friction,
        parameters_=chosen.coef_,
        covariance_=covariance.matrix,
        covariance_kind=covariance.kind,
        residual_std_=chosen.residual_std_,
        condition_number_=chosen.condition_number_,
        normalised_condition_number_=chosen.normalised_condition_number_,
        undetermined_=tuple(undetermined(factors.stacked()[0], torque_model.names, MAX_CONDITION_NUMBER))
        if ill
        else (),
        estimator={"name": type(chosen).__name__, "params": chosen.get_params()},
        consistent=chosen.consistent_.to_document() if isinstance(chosen, ConsistentLeastSquares) else None,
        effort=effort,
        signals=settings,
        moving_threshold=moving_threshold,
        train=validation_report(motions),
        validation=None,
        provenance={
            "train": [{**r.provenance, "name": r.name} for r in train],
            "validate": [{**r.provenance, "name": r.name} for r in validate],
            "preparation": [preparation.account for preparation in preparations],
            "model_digest": model.digest(),
            "rows": factors.n_rows,
            "software": software_versions(),
        },
    )
    if not validate:
        return result
    return replace(result, validation=result.validate(validate, progress))


def _prepared(recording: Recording, model: SerialChain, effort: Effort, settings: SignalSettings) -> Preparation:
    recording = _for_joints_of(model, recording)
    return prepare(recording, effort.of(recording), settings)


def _observations(
    model: TorqueModel,
    recordings: Sequence[Recording],
    segments: Sequence[Segment],
    settings: SignalSettings,
    progress: Progress | None,
) -> Observations:
    total = sum(segment.n_rows for segment in segments)
    read = 0

    def blocks() -> Iterator[Block]:
        nonlocal read
        for motion, segment in enumerate(segments):
            for columns, effort in model.observations(segment):
                yield Block(columns, effort, motion)
                if read < total:  # later passes are part of estimating
                    read += len(effort)
                    _report(progress, "reading motion", read / total)

    structure = ParameterStructure(model.chain, model.base, model.names, model.nonnegative)
    return Observations(
        model.names,
        model.chain.n_joints,
        blocks,
        structure=structure,
        instruments=SimulatedInstruments(model, recordings, segments, settings),
    )


def _compared(segment: Segment, predicted: Array, moving_threshold: float) -> PredictedMotion:
    return PredictedMotion(
        recording=segment.recording,
        times=segment.times,
        measured=segment.effort[segment.rows],
        predicted=predicted,
        moving=np.abs(segment.motion.qd[segment.rows]) > moving_threshold,
    )


def _for_joints_of(model: SerialChain, recording: Recording) -> Recording:
    """Return the recording with its joints in the model's order, by name where the file names them."""
    recording = recording.for_joints(model.joint_names)
    if recording.n_joints != model.n_joints:
        raise InputError(
            f"{recording.name}: it is of {recording.n_joints} joints, {model.name} has {model.n_joints}",
            code="joint-count-differs",
        )
    return recording


def _check_motion(segments: Sequence[Segment], model: SerialChain, moving_threshold: float) -> None:
    fastest = np.max([np.abs(s.motion.qd[s.rows]).max(axis=0) for s in segments], axis=0)
    still = [model.joint_names[j] for j in np.flatnonzero(fastest <= moving_threshold)]
    if still:
        raise IdentificationError(
            f"{', '.join(still)} never move faster than {moving_threshold:g} rad/s (m/s) in the training data, "
            "so neither friction nor inertia of theirs can be estimated; let every joint move",
            code="too-little-motion",
            joints=still,
        )


def _limits_of(consistent: Mapping[str, Any]) -> list[str]:
    """Return what standard parameters owe to the prior and to physics rather than to the data."""
    reasons = {
        "not_identified": "follow the prior, the data do not identify them",
        "on_bound": "end on a bound of what is physically possible",
        "made_up": "have no inertia in the model that a body can have; a plausible prior was made up",
    }
    return [f"{', '.join(consistent[key])} {why}" for key, why in reasons.items() if consistent[key]]


def _report(progress: Progress | None, phase: str, fraction: float) -> None:
    if progress is not None:
        progress(phase, fraction)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
