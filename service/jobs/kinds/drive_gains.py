"""Drive gains: from runs with and without a payload that was weighed."""

from __future__ import annotations

from service.jobs.computations import find_drive_gains
from service.jobs.context import JobContext, Kind
from service.jobs.kinds.references import paired_runs, paired_sources, robot_of_result
from service.jobs.models import DriveGainsRequest, DriveGainsResult, JobKind

TIME_LIMIT = 600.0


async def run(context: JobContext, request: DriveGainsRequest) -> DriveGainsResult:
    runs = await context.read(paired_sources, request, context.settings.data_dir)
    context.enter("compare")
    found = await context.compute(find_drive_gains, **runs, mass=request.payload_mass, com=request.payload_com)
    return DriveGainsResult.model_validate(found)


DRIVE_GAINS = Kind(
    name=JobKind.DRIVE_GAINS,
    request=DriveGainsRequest,
    phases={"compare": 1.0},
    computes=True,
    time_limit=TIME_LIMIT,
    robot=robot_of_result,
    check=paired_runs,
    run=run,
)
