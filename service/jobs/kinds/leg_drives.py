"""Leg drives: from the forces of a parallel robot's sensors to the currents of its motors; a candidate in A."""

from __future__ import annotations

from sqlalchemy.orm import Session

from core.friction import friction_model
from core.signals import SignalSettings
from service.jobs.context import JobContext, Kind
from service.jobs.kinds.references import recordings_of, robot_of_result, sources_of
from service.jobs.models import JobKind, LegDrivesRequest, LegDrivesResult
from service.jobs.parallel_robots import IdentifiedDrives, identify_leg_drives
from service.storage import RecordingRow, ResultRow, results

TIME_LIMIT = 1800.0


def references(session: Session, request: LegDrivesRequest) -> tuple[ResultRow, list[RecordingRow]]:
    """Return the sensors' result, and the recordings; errors as of ``recordings_of``."""
    friction_model(request.friction, 6)  # refuse an unknown name now, not when the job runs
    SignalSettings.from_document(request.signals.settings())
    result = results.get(session, request.result_id)
    return result, recordings_of(session, request.recordings, result.robot)


async def run(context: JobContext, request: LegDrivesRequest) -> LegDrivesResult:
    sensors, rows = await context.read(references, request)
    context.enter("identify")
    drives: IdentifiedDrives = await context.compute(
        identify_leg_drives,
        document=sensors.document,
        sources=sources_of(context.settings.data_dir, rows),
        friction=request.friction,
        signals=request.signals.settings(),
        stop_margin=request.stop_margin,
    )
    context.enter("store")
    row = await context.write(
        results.create,
        robot=sensors.robot,
        recording_ids=sorted({*request.recordings, *sensors.recording_ids}),  # neither may judge the result
        settings=request.model_dump(mode="json", exclude={"kind", "recordings"}),
        document=drives.result.document,
        job_id=context.job.id,
    )
    return LegDrivesResult(result_id=row.id, rms=drives.result.rms, **drives.found)


LEG_DRIVES = Kind(
    name=JobKind.LEG_DRIVES,
    request=LegDrivesRequest,
    phases={"identify": 0.97, "store": 0.03},
    computes=True,
    time_limit=TIME_LIMIT,
    robot=robot_of_result,
    check=references,
    run=run,
)
