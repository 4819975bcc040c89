"""From recordings of a robot to the parameters that predict its torque: one call, all steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from core.dynamics.base_parameters import reduce_to_base
from core.errors import InputError
from core.estimators import ConsistentLeastSquares, Estimator, make_estimator
from core.estimators.identifiability import Conditioning
from core.friction import friction_model
from core.models import LegDrives, Mechanism
from core.pipelines.cross_validation import Folds
from core.pipelines.effort import Effort, choose_effort
from core.pipelines.effort_delay import segments_delay
from core.pipelines.estimation import Estimate, Progress, TrainingData, compared, estimate, phase_reporter, report
from core.pipelines.friction_selection import AUTO, select_friction
from core.pipelines.friction_shapes import FittedFriction, FrictionData
from core.pipelines.held_out import check_held_out
from core.pipelines.identification import Identification
from core.pipelines.plausibility import check_plausible, suspicious_links
from core.pipelines.provenance import software_versions
from core.pipelines.shape_uncertainty import Uncertainty, uncertainty
from core.pipelines.torque_model import TorqueModel
from core.pipelines.training import check_motion, for_joints_of, prepared, training_data
from core.recordings.recording import Recording
from core.signals import SignalSettings
from core.validation import torque_sensitivity, validation_report

PLAIN_FRICTION = "coulomb_viscous"
"""What friction is taken for unless a composition is named; its columns are in units like those of the rigid body."""


def identify(
    model: Mechanism,
    train: Sequence[Recording],
    validate: Sequence[Recording] = (),
    *,
    gains: ArrayLike | str | None = None,
    friction: str | Sequence[str] = PLAIN_FRICTION,
    estimator: str | Estimator = "wls",
    signals: SignalSettings | None = None,
    moving_threshold: float = 0.02,
    cross_validate: bool = False,
    stop_margin: float | Literal["auto"] = "auto",
    preferred: Sequence[str] = (),
    without: Sequence[str] = (),
    random_state: int = 0,
    progress: Progress | None = None,
) -> Identification:
    """Estimate base and friction parameters of a robot.

    Parameters
    ----------
    model : geometry, gravity and whether there are rotor inertias.
    train, validate : recordings to estimate from, and held-out ones to judge by.
    gains : drive gains (n,) in N·m/A, ``from-recording`` for the controller's own, None for the model's. Where
        neither is known, measured torque is explained, or else current in A.
    friction : composition such as ``arctan+load+hysteresis``, for all joints or one per joint; ``auto`` takes the
        one with the best score in cross-validation.
    estimator : name, or an estimator.
    signals : how recordings are prepared.
    moving_threshold : rad/s (m/s); a joint faster than this moves.
    cross_validate : score the result by leaving one training recording out at a time, or one block of a single
        recording.
    stop_margin : s before its last moving sample from which a training recording is left out; ``auto`` leaves
        out 0.25 s, where a recording comes to rest with a jolt, and says so.
    preferred : names of standard parameters to build base parameters around, which then come first.
    without : base parameters that are taken for zero: those that the data do not tell, see
        ``Identification.not_identifiable``.
    random_state : seed of whatever is drawn: the points from which the search for shapes of friction begins.

    Raises
    ------
    RecordingError
        A recording cannot be prepared, or is in units that are impossible for the robot.
    IdentificationError
        The data do not determine the parameters; the detail names which, or which joint stands still.
    InputError
        A name or a shape is wrong, or the recordings share samples; a preferred parameter cannot be one,
        or one to do without is none.
    """
    settings = signals or SignalSettings()
    _check_choices(stop_margin, random_state)
    automatic = friction == AUTO
    initial = friction_model(PLAIN_FRICTION if automatic else friction, model.n_joints)
    torque_model = TorqueModel(model, reduce_to_base(model, preferred=preferred).without(without), initial)
    chosen = make_estimator(estimator) if isinstance(estimator, str) else estimator
    if not train:
        raise InputError("there is no recording to estimate from", code="recordings-missing")
    check_held_out(train, validate)
    train, validate = ([for_joints_of(model, recording) for recording in group] for group in (train, validate))
    effort = choose_effort(model, train, gains)
    suspicions = list(suspicious_links(model))
    suspicions += [what for recording in (*train, *validate) for what in check_plausible(model, recording, effort)]
    held_out = [prepared(recording, model, effort, settings) for recording in validate]
    data, accounts, jolted = training_data(
        torque_model, train, effort, settings, stop_margin, moving_threshold, progress
    )
    check_motion(data.all_segments, model, moving_threshold)
    folds = None
    if automatic or cross_validate:
        folds = Folds(torque_model, data, moving_threshold, random_state=random_state)
    selection, scores = None, None
    fitted: FittedFriction | None
    if automatic and folds is not None:
        selection = select_friction(folds, chosen, phase_reporter(progress, "choosing friction"))
        torque_model = replace(torque_model, friction=friction_model(selection.friction, model.n_joints))
        scores, fitted = selection.scores, selection.fitted
    else:
        fitted = _fitted_friction(torque_model, data, random_state, phase_reporter(progress, "fitting friction"))
    if cross_validate and folds is not None and scores is None:
        scores = folds.score(torque_model, chosen, fitted, phase_reporter(progress, "cross-validating"))
    found = estimate(torque_model, data, chosen, fitted, progress)
    certain = uncertainty(found, torque_model.friction, data.all_segments)
    report(progress, "estimating", 1.0)
    result = replace(
        _result(found, certain, data, effort, moving_threshold),
        cross_validation=scores.to_document() if scores else None,
        friction_selection=selection.to_document() if selection else None,
        provenance={
            "train": [{**r.provenance, "name": r.name} for r in data.recordings],
            "validate": [{**r.provenance, "name": r.name} for r in validate],
            "preparation": accounts,
            "validation_preparation": [preparation.account for preparation in held_out],
            "suspicions": suspicions,
            "jolted_stops": [stop.to_document() for stop in jolted],
            "effort_delay": _delay(found, data),
            "model_digest": model.digest(),
            "rows": found.observations.factors.n_rows,
            "effective_samples": certain.covariance.effective_samples,
            "random_state": random_state,
            "without": list(without),
            "software": software_versions(),
        },
    )
    return replace(result, validation=result.judged_on(held_out, progress)) if held_out else result


def _result(
    found: Estimate, certain: Uncertainty, data: TrainingData, effort: Effort, moving_threshold: float
) -> Identification:
    """Return the result of an estimate, not yet validated."""
    model, fitted, factors = found.model, found.estimator, found.observations.factors
    conditioning = Conditioning.of(
        factors.stacked()[0],
        fitted.condition_number_,
        fitted.normalised_condition_number_,
        model.names,
        comparable_units=set(model.friction.composition) == {PLAIN_FRICTION} and not isinstance(model.chain, LegDrives),
    )
    motions = [compared(segment, model, fitted.coef_, moving_threshold) for segment in data.all_segments]
    return Identification(
        model=model.chain,
        base=model.base,
        friction=model.friction,
        parameters_=fitted.coef_,
        covariance_=certain.covariance.matrix,
        covariance_kind=certain.covariance.kind,
        consistent=fitted.consistent_.to_document() if isinstance(fitted, ConsistentLeastSquares) else None,
        residual_std_=fitted.residual_std_,
        sensitivity_=torque_sensitivity(factors, fitted.coef_),
        condition_number_=conditioning.raw,
        normalised_condition_number_=conditioning.normalised,
        undetermined_=conditioning.undetermined,
        estimator={"name": type(fitted).__name__, "params": fitted.get_params()},
        effort=effort,
        signals=data.settings,
        moving_threshold=moving_threshold,
        train=validation_report(motions, confidence_band=certain.band),
        validation=None,
        cross_validation=None,
        friction_selection=None,
        provenance={},
        shapes_=certain.shapes,
    )


def _delay(found: Estimate, data: TrainingData) -> dict[str, list[Any]] | None:
    """Return how far torque lags behind position beyond the delay that is taken out; None where that cannot be told."""
    coefficients, cutoff = found.estimator.coef_, data.settings.torque_cutoff
    delay = segments_delay(data.all_segments, found.model, coefficients, cutoff)
    return delay.to_document() if delay else None


def _fitted_friction(
    model: TorqueModel, data: TrainingData, random_state: int, progress: Callable[[float], None]
) -> FittedFriction | None:
    friction = model.friction
    if friction.is_fitted and not friction.needs_load:
        return None
    shapes = FrictionData(model.chain, model.base, data.segments, random_state=random_state)
    return shapes.fit(friction, progress=progress)


def _check_choices(stop_margin: float | Literal["auto"], random_state: int) -> None:
    if isinstance(random_state, bool) or not isinstance(random_state, int) or random_state < 0:
        raise InputError(f"random_state must be a number from 0 on, got {random_state!r}", code="random-state-invalid")
    if stop_margin != "auto" and not (isinstance(stop_margin, int | float) and 0.0 <= stop_margin < np.inf):
        raise InputError(f"stop_margin must be auto or seconds, got {stop_margin!r}", code="stop-margin-invalid")
