"""One estimate: shapes of friction, the load it grows with, and all parameters that torque is linear in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from core.estimators import Estimator
from core.estimators.observations import Block, Observations, ParameterStructure
from core.pipelines.friction_shapes import FittedFriction
from core.pipelines.simulated_instruments import SimulatedInstruments
from core.pipelines.torque_model import TorqueModel
from core.recordings.recording import Recording
from core.signals import Segment, SignalSettings
from core.validation import PredictedMotion

Array = NDArray[np.float64]
Progress = Callable[[str, float], None]
"""Called with the phase and the fraction of it that is done; may raise to stop the computation."""

_LOAD_PASSES = 4
_LOAD_SETTLED = 2e-3
"""Relative change of the link torque at which the load that friction grows with counts as known."""


def report(progress: Progress | None, phase: str, fraction: float) -> None:
    if progress is not None:
        progress(phase, fraction)


def phase_reporter(progress: Progress | None, phase: str) -> Callable[[float], None]:
    return lambda fraction: report(progress, phase, fraction)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What an estimate is made from.

    Attributes
    ----------
    recordings : as they were read.
    segments : those of each recording, or some of them.
    settings : how they were prepared.
    """

    recordings: Sequence[Recording]
    segments: Sequence[Sequence[Segment]]
    settings: SignalSettings

    @property
    def all_segments(self) -> list[Segment]:
        return [segment for segments in self.segments for segment in segments]

    def observations(
        self, model: TorqueModel, base_parameters: Array | None, progress: Progress | None
    ) -> Observations:
        """Return the rows of all segments, made when they are read; base parameters say the load of friction."""
        segments = self.all_segments
        total = sum(segment.n_rows for segment in segments)
        read = 0

        def blocks() -> Iterator[Block]:
            nonlocal read
            for motion, segment in enumerate(segments):
                for columns, effort in model.observations(segment, base_parameters):
                    yield Block(columns, effort, motion)
                    if read < total:  # later passes are part of estimating
                        read += len(effort)
                        report(progress, "reading motion", read / total)

        return Observations(
            model.names,
            model.chain.n_joints,
            blocks,
            structure=ParameterStructure(model.chain, model.base, model.names, model.nonnegative),
            instruments=SimulatedInstruments(model, self.recordings, segments, self.settings),
            oversampling=max(segment.oversampling for segment in segments),
        )


@dataclass(frozen=True, eq=False)
class Estimate:
    """Attributes: the model with all shapes, the estimator that has been fitted, and what it was fitted to."""

    model: TorqueModel
    estimator: Estimator
    observations: Observations


def estimate(
    model: TorqueModel,
    data: TrainingData,
    estimator: Estimator,
    fitted: FittedFriction | None,
    progress: Progress | None = None,
) -> Estimate:
    """Fit ``estimator`` to recordings.

    Where friction grows with the load, columns and load are iterated until both agree.

    Parameters
    ----------
    fitted : shapes of the model's friction and a first load; None where friction has no use for them.
    progress : told about the phases ``reading motion`` and ``estimating``, the latter up to its half.

    Raises
    ------
    IdentificationError
        The data do not determine all parameters; the detail names which.
    """
    base = None
    if fitted is not None:
        model, base = replace(model, friction=fitted.friction), fitted.base_parameters
    count = model.base.count
    for _ in range(_LOAD_PASSES):
        observations = data.observations(model, base, progress)
        _ = observations.factors  # read once, whatever the estimator reads
        report(progress, "estimating", 0.0)
        estimator.fit_observations(observations)
        report(progress, "estimating", 0.5)
        progress = None
        if base is None or not model.friction.needs_load:
            break
        change = _load_change(model, data.all_segments, base, estimator.coef_[:count])
        base = estimator.coef_[:count]
        if change < _LOAD_SETTLED:
            break
    return Estimate(model, estimator, observations)


def compared(segment: Segment, model: TorqueModel, parameters: Array, moving_threshold: float) -> PredictedMotion:
    """Return measured and predicted torque of a segment's rows, and what friction can hold at standstill."""
    return PredictedMotion(
        recording=segment.recording,
        times=segment.times,
        measured=segment.effort[segment.rows],
        predicted=model.predict(segment, parameters),
        moving=np.abs(segment.motion.qd[segment.rows]) > moving_threshold,
        bracket=model.bracket(segment, parameters),
        velocity=segment.motion.qd[segment.rows],
        bandwidth=segment.low_pass.cutoff,
    )


def _load_change(model: TorqueModel, segments: Sequence[Segment], before: Array, after: Array) -> float:
    torques = [(model.link_torque(s.motion, before), model.link_torque(s.motion, after)) for s in segments]
    difference = sum(float(np.sum((a - b) ** 2)) for b, a in torques)
    size = sum(float(np.sum(a**2)) for _, a in torques)
    return float(np.sqrt(difference / max(size, 1e-300)))
