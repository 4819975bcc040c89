"""What is done to signals before anything is estimated from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any, Literal, Self, get_args

from core.errors import InputError

Velocity = Literal["measured", "differentiated"]
OnGap = Literal["split", "refuse"]


@dataclass(frozen=True)
class SignalSettings:
    """How recordings are resampled, filtered and differentiated.

    Attributes
    ----------
    rate : Hz, rows per second that enter the estimate. The grid that is filtered is as fast as the recording
        itself, an integer multiple of this.
    order : of the Butterworth low-pass filters; they run forward and backward, so without phase.
    torque_cutoff : Hz, of the filter that torque and all columns of the regressor pass alike.
    kinematic_cutoff : Hz, of the filter on position and velocity before they are differentiated.
    velocity : ``measured`` takes the recorded velocity, ``differentiated`` the central difference of the
        filtered position, for recordings whose velocity is poor.
    max_gap : s; where consecutive samples lie further apart, nothing is interpolated.
    on_gap : ``split`` treats both sides of a gap as motions of their own, ``refuse`` raises.

    Raises
    ------
    InputError
        A value is out of its range.
    """

    rate: float = 100.0
    order: int = 5
    torque_cutoff: float = 10.0
    kinematic_cutoff: float = 15.0
    velocity: Velocity = "measured"
    max_gap: float = 0.04
    on_gap: OnGap = "split"

    def __post_init__(self) -> None:
        for name in ("rate", "torque_cutoff", "kinematic_cutoff", "max_gap"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0.0):
                raise InputError(f"signal settings: {name} must be positive, got {value}", setting=name)
        if not 1 <= self.order <= 10:
            raise InputError(f"signal settings: order must be 1..10, got {self.order}", setting="order")
        for name in ("torque_cutoff", "kinematic_cutoff"):
            value = getattr(self, name)
            if value >= 0.5 * self.rate:
                raise InputError(
                    f"signal settings: {name} of {value:g} Hz needs a rate above {2 * value:g} Hz, "
                    f"got {self.rate:g} Hz",
                    setting=name,
                )
        for name, choices in (("velocity", get_args(Velocity)), ("on_gap", get_args(OnGap))):
            if getattr(self, name) not in choices:
                raise InputError(
                    f"signal settings: {name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}",
                    setting=name,
                )

    def to_document(self) -> dict[str, Any]:
        """Return JSON-serialisable data; ``from_document`` gives the same settings back."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        unknown = set(document) - {field.name for field in fields(cls)}
        if unknown:
            raise InputError(f"unknown signal settings: {', '.join(sorted(unknown))}")
        return cls(**document)
