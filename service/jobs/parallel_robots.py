"""What workers compute for parallel robots: what their force sensors and drives are like.

The web process imports this module to name its functions, so the numerical packages are imported inside.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.jobs.computations import IdentifiedModel, RecordingSource, identified, read_all, reporter

if TYPE_CHECKING:
    from service.jobs.worker import TaskChannel


@dataclass(frozen=True)
class IdentifiedDrives:
    """An identification of drives as it is stored, and gains and screw inertia with their standard deviations."""

    result: IdentifiedModel
    found: dict[str, list[float]]


def calibrate_force_sensors(
    channel: TaskChannel,
    *,
    model: str,
    sources: Sequence[RecordingSource],
    known: tuple[str, float] | None,
    without: Sequence[str],
    signals: dict[str, Any],
) -> dict[str, Any]:
    """Return the document of a calibration; arguments as `core.pipelines.sensor_calibration.calibrate_sensors`."""
    from core.models import resolve
    from core.pipelines.sensor_calibration import calibrate_sensors
    from core.signals import SignalSettings

    recordings = read_all(sources)
    channel.report(0.1, "estimating")
    settings = SignalSettings.from_document(signals)
    return calibrate_sensors(resolve(model), recordings, known=known, without=without, signals=settings).to_document()


def identify_leg_drives(
    channel: TaskChannel,
    *,
    document: dict[str, Any],
    sources: Sequence[RecordingSource],
    friction: str | list[str],
    signals: dict[str, Any],
    stop_margin: float | str,
) -> IdentifiedDrives:
    """Explain motor currents by the forces of a stored result; arguments as `core.pipelines.leg_drives`."""
    from core.pipelines.identification import Identification
    from core.pipelines.leg_drives import found_drives, identify_drives
    from core.signals import SignalSettings

    result = identify_drives(
        Identification.from_document(document),
        read_all(sources),
        friction=friction,
        signals=SignalSettings.from_document(signals),
        stop_margin=stop_margin,
        progress=reporter(channel),
    )
    return IdentifiedDrives(identified(result), found_drives(result).to_document())


@dataclass(frozen=True)
class WrenchEstimate:
    """The wrench (6,) that acts on a platform from outside: force N, moment N·m about the platform's origin, in {B}.

    ``std`` (6,) is what the sensors' residuals make of it. It is for ``controller_time`` s, which is ``delay`` s
    before the newest sample.
    """

    controller_time: float
    delay: float
    wrench: list[float]
    std: list[float]


def platform_of_result(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a platform with the parameters that a result of its sensors found, and ``residual_std``.

    Raises
    ------
    InputError
        ``sensors-needed``: it is another kind of result.
    """
    from core.errors import InputError
    from core.models import SixUPRU
    from core.pipelines.identification import Identification

    result = Identification.from_document(document)
    if not isinstance(result.model, SixUPRU) or result.unit != "N":
        raise InputError(
            f"{result.model.name}: wrenches are told by the force sensors of a 6-UPRU robot, in N; this result is in "
            f"{result.unit}",
            code="sensors-needed",
        )
    standard = result.base.standard(result.parameters_[: result.base.count], result.model.parameters)
    platform = result.model.with_parameters(standard)
    return {"platform": platform.to_document(), "residual_std": result.residual_std_.tolist()}


def estimate_wrench(
    *,
    platform: dict[str, Any],
    residual_std: list[float],
    sensors: dict[str, Any] | None,
    ring: Path,
    rate_hz: float,
) -> WrenchEstimate | None:
    """Estimate the wrench from the newest samples of a ring; None where these are too few, or some are missing.

    ``platform`` and ``residual_std`` are those of `platform_of_result`, ``sensors`` those it was identified with.

    Raises
    ------
    RingError, InputError, KinematicsError
        There is no ring, or its samples are of no such robot.
    """
    from core.models import SixUPRU
    from core.streaming.external_wrench import ExternalWrench
    from core.streaming.ring import RingReader

    figures = {} if sensors is None else {"tare": sensors["tare"], "gain": sensors["gain"]}
    estimator = ExternalWrench(SixUPRU.from_document(platform), 1.0 / rate_hz, **figures)
    window = 2 * round(estimator.delay * rate_hz) + 1
    with RingReader.open(ring) as reader:
        signal = estimator.take(reader.latest(window)) if reader.head >= window else None
    if signal is None or signal.times.size == 0:
        return None
    return WrenchEstimate(
        controller_time=float(signal.times[-1]),
        delay=estimator.delay,
        wrench=signal.wrench[-1].tolist(),
        std=estimator.noise(residual_std).tolist(),
    )
