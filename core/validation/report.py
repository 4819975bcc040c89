"""Errors on one or several recordings, pooled and one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from core.validation.energy import EnergyBalance
from core.validation.errors import SUBSETS, TorqueErrors
from core.validation.jolts import Jolt, find_jolts
from core.validation.motion import PredictedMotion
from core.validation.whiteness import Whiteness

Array = NDArray[np.float64]

Errors = Mapping[str, TorqueErrors]
"""Errors by subset: all, moving, standing."""


@dataclass(frozen=True)
class ValidationReport:
    """How well torque is predicted.

    Attributes
    ----------
    pooled : errors over the samples of all recordings together, by subset.
    recordings : errors of each recording, by its name and subset.
    jolts : bursts that hold much of the error.
    standing_within_friction : (n,) share of a joint's standing samples whose torque lies between those at which
        predicted friction would let go. A standing joint's torque is a matter of its past, so this judges it
        where an RMS cannot. NaN for a joint that never stands, or where no bracket is known.
    energy : work measured and predicted, where the velocity is known.
    whiteness : how long residuals stay alike, where motions are long enough to tell.
    confidence_band : (n,) half-width of the 95 % band of the expected torque, RMS over all samples, where the
        covariance of the parameters was given. A measured torque scatters around it by the residual.
    """

    pooled: Errors
    recordings: Mapping[str, Errors]
    jolts: tuple[Jolt, ...]
    standing_within_friction: Array
    energy: EnergyBalance | None = None
    whiteness: Whiteness | None = None
    confidence_band: Array | None = None

    def to_document(self) -> dict[str, Any]:
        """Return JSON-serialisable data: ``rms_all``, ``rms_moving``, ... per joint, then by recording."""
        return {
            **_flat(self.pooled),
            "recordings": {name: _flat(errors) for name, errors in self.recordings.items()},
            "jolts": [jolt.to_document() for jolt in self.jolts],
            "energy": self.energy.to_document() if self.energy else None,
            "whiteness": self.whiteness.to_document() if self.whiteness else None,
            "confidence_band": None if self.confidence_band is None else self.confidence_band.tolist(),
            "standing_within_friction": [float(v) if np.isfinite(v) else None for v in self.standing_within_friction],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        energy, whiteness, band = document["energy"], document["whiteness"], document.get("confidence_band")
        return cls(
            pooled=_nested(document),
            recordings={name: _nested(errors) for name, errors in document["recordings"].items()},
            jolts=tuple(Jolt(**jolt) for jolt in document["jolts"]),
            energy=EnergyBalance.from_document(energy) if energy else None,
            whiteness=Whiteness.from_document(whiteness) if whiteness else None,
            confidence_band=None if band is None else np.array(band),
            standing_within_friction=np.array(
                [np.nan if v is None else v for v in document["standing_within_friction"]]
            ),
        )


def validation_report(motions: Sequence[PredictedMotion], *, confidence_band: Array | None = None) -> ValidationReport:
    """Return the report on motions, of which several may belong to one recording."""
    by_recording: dict[str, list[PredictedMotion]] = {}
    for motion in motions:
        by_recording.setdefault(motion.recording, []).append(motion)
    jolts = [jolt for m in motions for jolt in find_jolts(m.recording, m.times, m.measured - m.predicted)]
    return ValidationReport(
        pooled=_errors(motions),
        recordings={name: _errors(parts) for name, parts in by_recording.items()},
        jolts=tuple(jolts),
        energy=EnergyBalance.of(motions),
        whiteness=Whiteness.of(motions),
        standing_within_friction=_within_friction(motions),
        confidence_band=confidence_band,
    )


def _within_friction(motions: Sequence[PredictedMotion]) -> Array:
    n = motions[0].measured.shape[1]
    held, standing = np.zeros(n), np.zeros(n)
    for motion in motions:
        if motion.bracket is not None:
            lower, upper = motion.bracket
            held += np.sum(~motion.moving & (lower <= motion.measured) & (motion.measured <= upper), axis=0)
            standing += np.sum(~motion.moving, axis=0)
    return np.asarray(np.divide(held, standing, out=np.full(n, np.nan), where=standing > 0.0))


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
