"""Payload: mass, centre of mass and inertia of what an identified robot carries."""

from __future__ import annotations

from service.jobs.computations import find_payload
from service.jobs.context import JobContext, Kind
from service.jobs.kinds.references import paired_runs, paired_sources, robot_of_result
from service.jobs.models import JobKind, PayloadRequest, PayloadResult

TIME_LIMIT = 600.0


async def run(context: JobContext, request: PayloadRequest) -> PayloadResult:
    runs = await context.read(paired_sources, request, context.settings.data_dir)
    context.enter("compare")
    found = await context.compute(find_payload, **runs)
    return PayloadResult.model_validate(found)


PAYLOAD = Kind(
    name=JobKind.PAYLOAD,
    request=PayloadRequest,
    phases={"compare": 1.0},
    computes=True,
    time_limit=TIME_LIMIT,
    robot=robot_of_result,
    check=paired_runs,
    run=run,
)
