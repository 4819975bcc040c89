"""Errors on motion that an estimate has not seen: leave one recording out, or one block of a single recording."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import RecordingError
from core.estimators import Estimator
from core.friction import FrictionModel
from core.pipelines.estimation import TrainingData, compared, estimate
from core.pipelines.friction_shapes import FittedFriction, FrictionData
from core.pipelines.torque_model import TorqueModel
from core.signals import Segment
from core.validation import SUBSETS, PredictedMotion, ValidationReport, validation_report

Array = NDArray[np.float64]
Scheme = Literal["recording", "block"]

_BLOCKS = 5
_NEGLIGIBLE = 0.01
"""Rows next to a block's border are left out until the filter has forgotten the other side to this share."""


@dataclass(frozen=True)
class CrossValidation:
    """Scores of one composition of friction.

    Attributes
    ----------
    scheme : ``recording``, or ``block`` where there is a single recording, cut into contiguous blocks. Blocks of
        one motion have more in common than recordings, so their scores flatter.
    rms_moving : (folds, n) RMS residual over moving samples, each predicted from the other folds.
    report : errors of all folds.
    """

    scheme: Scheme
    rms_moving: Array
    report: ValidationReport

    @property
    def mean(self) -> float:
        """Mean over joints and folds of the RMS residual while moving."""
        return float(np.nanmean(self.rms_moving))

    def to_document(self) -> dict[str, Any]:
        report = self.report.to_document()
        return {
            "scheme": self.scheme,
            "mean_rms_moving": self.mean,
            "rms_moving": [_finite(value) for value in np.nanmean(self.rms_moving, axis=0)],
            "recordings": report["recordings"],
            "pooled": {key: value for key, value in report.items() if key.split("_")[-1] in SUBSETS},
            "standing_within_friction": report["standing_within_friction"],
            "jolts": report["jolts"],
        }


class Folds:
    """The folds of a cross-validation, ready to score any friction.

    Parameters
    ----------
    model : its friction is what is scored, or compared; see ``score``.
    data : all recordings.
    random_state : as of ``FrictionData``.
    """

    def __init__(
        self, model: TorqueModel, data: TrainingData, moving_threshold: float, *, random_state: int | None = None
    ) -> None:
        self.model, self.data, self.moving_threshold = model, data, moving_threshold
        self.scheme: Scheme = "recording" if len(data.segments) > 1 else "block"
        self.groups = list(data.segments) if self.scheme == "recording" else _in_blocks(data.segments[0])
        self.shapes = FrictionData(model.chain, model.base, self.groups, random_state=random_state)

    def start(self, friction: FrictionModel) -> FittedFriction | None:
        """Return shapes and load fitted to all data; None where friction has no use for them."""
        return self.shapes.fit(friction) if friction.needs_load or not friction.is_fitted else None

    def score(
        self,
        model: TorqueModel,
        estimator: Estimator,
        start: FittedFriction | None,
        progress: Callable[[float], None] | None = None,
    ) -> CrossValidation:
        """Return the scores of a model's friction.

        Shapes, load and parameters are estimated without the fold they are scored on.

        Parameters
        ----------
        start : as ``start`` returns it; the folds' own searches for shapes begin there.
        """
        motions: list[PredictedMotion] = []
        rms = []
        for i, held_out in enumerate(self.groups):
            fitted = start and self.shapes.fit(model.friction, without=[i], start=start)
            others = replace(self.data, segments=[group for k, group in enumerate(self.groups) if k != i])
            found = estimate(model, others, copy.deepcopy(estimator), fitted)
            own = [compared(s, found.model, found.estimator.coef_, self.moving_threshold) for s in held_out]
            rms.append(validation_report(own).pooled["moving"].rms)
            motions += own
            if progress is not None:
                progress((i + 1) / len(self.groups))
        return CrossValidation(self.scheme, np.array(rms), validation_report(motions))


def _in_blocks(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Cut one recording into contiguous blocks of equal length, with a guard on both sides of each border."""
    total = sum(segment.n_rows for segment in segments)
    blocks: list[list[Segment]] = [[] for _ in range(_BLOCKS)]
    before = 0
    for segment in segments:
        first, stop, step = segment.rows.indices(segment.motion.n_samples)
        guard = segment.low_pass.settling(_NEGLIGIBLE) // step + 1
        for k in range(_BLOCKS):
            low = max(0, k * total // _BLOCKS - before)
            high = min(segment.n_rows, (k + 1) * total // _BLOCKS - before)
            low, high = low + (guard if low > 0 else 0), high - (guard if high < segment.n_rows else 0)
            if high - low > guard:
                rows = slice(first + low * step, min(stop, first + high * step), step)
                blocks[k].append(replace(segment, recording=f"{segment.recording} block {k + 1}", rows=rows))
        before += segment.n_rows
    if not all(blocks):
        raise RecordingError(
            f"{segments[0].recording}: it is too short to be cut into {_BLOCKS} blocks for cross-validation; record "
            "longer, or give several recordings",
            code="recording-too-short",
        )
    return blocks


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
