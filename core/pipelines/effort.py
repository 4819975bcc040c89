"""Which recorded signal is explained, and in which unit: torque, or current where no gain is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import IdentificationError, InputError
from core.models import Mechanism
from core.pipelines.drive_gains import from_targets
from core.recordings.recording import Recording

Array = NDArray[np.float64]

FROM_RECORDING = "from-recording"
"""Stands for drive gains read from the recordings' own targets."""


@dataclass(frozen=True, eq=False)
class Effort:
    """How a recording's samples become the effort to be explained.

    Attributes
    ----------
    signal : ``current`` (times the gains, where known) or the measured ``torque``.
    gains : (n,) N·m/A (N/A), or None.
    unit : of the effort: ``N·m``, ``N``, ``N·m, N`` for mixed joints, or ``A``.
    """

    signal: Literal["current", "torque"]
    gains: Array | None
    unit: str

    def of(self, recording: Recording) -> Array:
        """Return the effort (N, n) of a recording's samples.

        Raises
        ------
        IdentificationError
            The recording lacks the signal.
        """
        values = recording.current if self.signal == "current" else recording.torque
        if values is None:
            raise IdentificationError(
                f"{recording.name}: there is no {self.signal} in it, which the estimate is made from",
                code="signal-missing",
                signal=self.signal,
            )
        return values if self.gains is None or self.signal == "torque" else values * self.gains

    def to_document(self) -> dict[str, Any]:
        gains = None if self.gains is None else self.gains.tolist()
        return {"signal": self.signal, "gains": gains, "unit": self.unit}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        gains = document["gains"]
        return cls(document["signal"], None if gains is None else np.array(gains), document["unit"])


def choose_effort(model: Mechanism, recordings: Sequence[Recording], gains: ArrayLike | str | None) -> Effort:
    """Return what to estimate from: current with gains, else measured torque, else current in A.

    Parameters
    ----------
    gains : (n,) drive gains, ``from-recording``, or None for those of the model, if it has any.

    Raises
    ------
    InputError
        The gains are not n positive numbers.
    IdentificationError
        The recordings do not tell their gains.
    """
    unit = ", ".join(sorted({"N·m" if kind == "revolute" else "N" for kind in model.joint_types}, reverse=True))
    if isinstance(gains, str):
        if gains != FROM_RECORDING:
            raise InputError(f"gains must be numbers, {FROM_RECORDING!r} or None, got {gains!r}")
        return Effort("current", from_targets(recordings).complete(), unit)
    if gains is None and model.drive_gains is None:
        measured = all(recording.torque is not None for recording in recordings)
        return Effort("torque", None, unit) if measured else Effort("current", None, "A")
    values = np.asarray(model.drive_gains if gains is None else gains, dtype=np.float64)
    if values.shape != (model.n_joints,) or not np.all(np.isfinite(values) & (values > 0.0)):
        raise InputError(
            f"gains must be {model.n_joints} positive numbers in N·m/A, got {values.tolist()}",
            code="gains-invalid",
        )
    return Effort("current", values, unit)
