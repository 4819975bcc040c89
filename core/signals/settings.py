"""What is done to signals before anything is estimated from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any, Literal, Self, get_args

from core.errors import InputError

Velocity = Literal["measured", "differentiated"]
OnGap = Literal["split", "refuse"]
Kinematics = Literal["filtered", "fourier"]
TorqueFilter = Literal["butterworth", "five_point_cubic"]
Periods = Literal["separate", "averaged"]
Marked = Literal["report", "leave_out", "ignore"]


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
    torque_filter : ``butterworth``, or ``five_point_cubic`` run ``smoothing_passes`` times; whatever torque passes, the
        columns of the regressor pass as well.
    smoothing_passes : of the five-point cubic smoother, at the rate of the grid.
    delay : s by which torque lags behind position; see ``estimate_delay``. Taken out where torque is interpolated.
    marked : what becomes of outliers and frozen samples (``mark_samples``): ``report`` counts them, ``leave_out``
        interpolates across them and leaves their surroundings out of the estimate, ``ignore`` does not look for them.
    period : s of a repeated excitation, or None.
    periods : ``averaged`` replaces the periods by their mean.
    skipped_periods : at the start of each recording, before averaging.
    kinematics : ``filtered``, or ``fourier``: position is refitted by a Fourier series of ``period`` and
        ``fourier_order``, whose speed and acceleration are exact.

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
    torque_filter: TorqueFilter = "butterworth"
    smoothing_passes: int = 100
    delay: float = 0.0
    marked: Marked = "report"
    period: float | None = None
    periods: Periods = "separate"
    skipped_periods: int = 0
    kinematics: Kinematics = "filtered"
    fourier_order: int = 5

    def __post_init__(self) -> None:
        for name in ("rate", "torque_cutoff", "kinematic_cutoff", "max_gap"):
            value = getattr(self, name)
            if isinstance(value, bool) or not (isfinite(value) and value > 0.0):
                raise InputError(f"signal settings: {name} must be positive, got {value}", setting=name)
        if self.rate > _FASTEST:
            raise InputError(
                f"signal settings: a rate of {self.rate:g} Hz is beyond every controller; the most is {_FASTEST:g} Hz",
                setting="rate",
            )
        for name in ("torque_cutoff", "kinematic_cutoff"):
            value = getattr(self, name)
            if value >= 0.5 * self.rate:
                raise InputError(
                    f"signal settings: {name} of {value:g} Hz needs a rate above {2 * value:g} Hz, "
                    f"got {self.rate:g} Hz",
                    setting=name,
                )
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InputError(
                    f"signal settings: {name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}",
                    setting=name,
                )
        if not (isfinite(self.delay) and abs(self.delay) < _LONGEST_DELAY):
            raise InputError(
                f"signal settings: delay must be within +-{_LONGEST_DELAY:g} s, got {self.delay}", setting="delay"
            )
        self._check_counts()
        self._check_period()

    def _check_counts(self) -> None:
        lowest = {"order": 1, "smoothing_passes": 1, "skipped_periods": 0, "fourier_order": 1}
        for name, least in lowest.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"signal settings: {name} must be a whole number, got {value!r}", setting=name)
            if name == "order" and not 1 <= value <= 10:
                raise InputError(f"signal settings: order must be 1..10, got {value}", setting="order")
            if value < least:
                raise InputError(f"signal settings: {name} must be at least {least}, got {value}", setting=name)

    def _check_period(self) -> None:
        if self.period is None:
            if self.periods == "averaged" or self.kinematics == "fourier":
                raise InputError(
                    "signal settings: averaged periods and a Fourier refit need the period of the excitation, in s",
                    setting="period",
                )
            return
        if not (isfinite(self.period) and self.period > 0.0):
            raise InputError(f"signal settings: period must be positive, got {self.period}", setting="period")
        if self.kinematics == "fourier" and self.fourier_order / self.period >= 0.5 * self.rate:
            raise InputError(
                f"signal settings: harmonic {self.fourier_order} of a period of {self.period:g} s is too fast for a "
                f"rate of {self.rate:g} Hz",
                setting="fourier_order",
            )

    def to_document(self) -> dict[str, Any]:
        """Return JSON-serialisable data; ``from_document`` gives the same settings back."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        unknown = set(document) - {field.name for field in fields(cls)}
        if unknown:
            raise InputError(
                f"unknown signal settings: {', '.join(sorted(unknown))}; there are "
                f"{', '.join(field.name for field in fields(cls))}"
            )
        try:
            return cls(**document)
        except TypeError as error:
            raise InputError(f"signal settings: a number or a word is something else: {error}") from error


_FASTEST = 1e5  # Hz
_LONGEST_DELAY = 0.1
"""s; what lags behind by more is no delay of one controller."""
_CHOICES = {
    "velocity": get_args(Velocity),
    "on_gap": get_args(OnGap),
    "torque_filter": get_args(TorqueFilter),
    "marked": get_args(Marked),
    "periods": get_args(Periods),
    "kinematics": get_args(Kinematics),
}
