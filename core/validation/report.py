"""Errors on one or several recordings, pooled and one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from core.validation.errors import SUBSETS, TorqueErrors
from core.validation.jolts import Jolt, find_jolts

Array = NDArray[np.float64]

Errors = Mapping[str, TorqueErrors]
"""Errors by subset: all, moving, standing."""


@dataclass(frozen=True)
class PredictedMotion:
    """Measured and predicted torque of an uninterrupted motion.

    Attributes
    ----------
    recording : name of the recording it is a part of.
    times : (N,) s, controller time.
    measured, predicted : (N, n) torque or current.
    moving : (N, n) which joint moves in which sample.
    """

    recording: str
    times: Array
    measured: Array
    predicted: Array
    moving: NDArray[np.bool_]


@dataclass(frozen=True)
class ValidationReport:
    """How well torque is predicted.

    Attributes
    ----------
    pooled : errors over the samples of all recordings together, by subset.
    recordings : errors of each recording, by its name and subset.
    jolts : bursts that hold much of the error.
    """

    pooled: Errors
    recordings: Mapping[str, Errors]
    jolts: tuple[Jolt, ...]

    def to_document(self) -> dict[str, Any]:
        """Return JSON-serialisable data: ``rms_all``, ``rms_moving``, ... per joint, then by recording."""
        return {
            **_flat(self.pooled),
            "recordings": {name: _flat(errors) for name, errors in self.recordings.items()},
            "jolts": [jolt.to_document() for jolt in self.jolts],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        return cls(
            pooled=_nested(document),
            recordings={name: _nested(errors) for name, errors in document["recordings"].items()},
            jolts=tuple(Jolt(**jolt) for jolt in document["jolts"]),
        )


def validation_report(motions: Sequence[PredictedMotion]) -> ValidationReport:
    """Return the report on motions, of which several may belong to one recording."""
    by_recording: dict[str, list[PredictedMotion]] = {}
    for motion in motions:
        by_recording.setdefault(motion.recording, []).append(motion)
    jolts = [jolt for m in motions for jolt in find_jolts(m.recording, m.times, m.measured - m.predicted)]
    return ValidationReport(
        pooled=_errors(motions),
        recordings={name: _errors(parts) for name, parts in by_recording.items()},
        jolts=tuple(jolts),
    )


def _errors(motions: Sequence[PredictedMotion]) -> Errors:
    measured = np.concatenate([m.measured for m in motions])
    predicted = np.concatenate([m.predicted for m in motions])
    moving = np.concatenate([m.moving for m in motions])
    chosen = {"all": np.ones_like(moving), "moving": moving, "standing": ~moving}
    return {subset: TorqueErrors.of(measured, predicted, chosen[subset]) for subset in SUBSETS}


def _flat(errors: Errors) -> dict[str, Any]:
    return {
        f"{figure}_{subset}": values for subset in SUBSETS for figure, values in errors[subset].to_document().items()
    }


def _nested(document: Mapping[str, Any]) -> Errors:
    def subset_of(subset: str) -> dict[str, Any]:
        end = f"_{subset}"
        return {key.removesuffix(end): value for key, value in document.items() if key.endswith(end)}

    return {subset: TorqueErrors.from_document(subset_of(subset)) for subset in SUBSETS}
