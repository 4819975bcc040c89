"""Calibrate sensors: tare and gain of each force sensor, and the direction of gravity."""

from __future__ import annotations

from sqlalchemy.orm import Session

from core.signals import SignalSettings
from service.jobs.context import JobContext, Kind
from service.jobs.kinds.references import recordings_of, sources_of
from service.jobs.models import CalibrateSensorsRequest, CalibrateSensorsResult, JobKind
from service.jobs.parallel_robots import calibrate_force_sensors

TIME_LIMIT = 600.0
FIGURES = ("tare", "gain", "gravity")
"""Of the calibration's document: what a request to identify takes."""


def check(session: Session, request: CalibrateSensorsRequest) -> None:
    SignalSettings.from_document(request.signals.settings())
    recordings_of(session, request.recordings, request.robot)


async def run(context: JobContext, request: CalibrateSensorsRequest) -> CalibrateSensorsResult:
    rows = await context.read(recordings_of, request.recordings, request.robot)
    context.enter("calibrate")
    found = await context.compute(
        calibrate_force_sensors,
        model=context.robot(request.robot).settings.model,
        sources=sources_of(context.settings.data_dir, rows),
        known=None if request.known is None else (request.known.name, request.known.value),
        without=request.without,
        signals=request.signals.settings(),
    )
    told = {name: found[name] for name in CalibrateSensorsResult.model_fields if name in found}
    return CalibrateSensorsResult.model_validate({**told, "sensors": {name: found[name] for name in FIGURES}})


CALIBRATE_SENSORS = Kind(
    name=JobKind.CALIBRATE_SENSORS,
    request=CalibrateSensorsRequest,
    phases={"calibrate": 1.0},
    computes=True,
    time_limit=TIME_LIMIT,
    check=check,
    run=run,
)
