"""What workers compute for parallel robots: what their force sensors and drives are like.

The web process imports this module to name its functions, so the numerical packages are imported inside.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
