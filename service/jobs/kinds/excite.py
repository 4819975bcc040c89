"""Excite: design a trajectory for a robot within its limits, and store it, ready to be played."""

from __future__ import annotations

from sqlalchemy.orm import Session

from service.jobs.context import JobContext, Kind
from service.jobs.excitation import DesignedMotion, design_motion
from service.jobs.kinds.references import trajectory_for
from service.jobs.models import ExciteRequest, ExciteResult, JobKind
from service.storage import trajectories

TIME_LIMIT = 4000.0

GRACE_SECONDS = 10.0
"""How long a search that was asked to stop may take to verify the best it has found."""


def warm_start(session: Session, request: ExciteRequest) -> dict[str, object] | None:
    """Return the definition to begin with, if one is named."""
    if request.warm_start is None:
        return None
    return trajectory_for(session, request.warm_start, request.robot).definition


async def run(context: JobContext, request: ExciteRequest) -> ExciteResult:
    first = await context.read(warm_start, request)
    context.enter("search")
    motion: DesignedMotion = await context.compute(
        design_motion,
        grace=GRACE_SECONDS,
        model=context.robot(request.robot).settings.model,
        rotor_inertia=request.rotor_inertia,
        limits=request.limits.model_dump(exclude_none=True),
        settings=request.model_dump(
            include={"family", "harmonics", "period", "criterion", "friction", "optimizer", "segments"}
            | {"time_budget", "seed"}
        ),
        warm_start=first,
    )
    context.advance("store")  # also what a search has found that was asked to stop
    row = await context.write(
        trajectories.create,
        name=request.name,
        robot=request.robot,
        definition=motion.definition,
        n_joints=motion.n_joints,
        duration=motion.duration,
    )
    result = ExciteResult(
        trajectory_id=row.id,
        value=motion.value,
        condition_number=motion.condition_number,
        condition_number_normalised=motion.condition_number_normalised,
        limit_use=motion.limit_use,
        least_clearance=motion.least_clearance,
        candidates=motion.candidates,
    )
    if context.job.stop.requested:
        context.job.log(f"stopped after {motion.candidates} candidates; the best of them is kept as {row.id}")
    context.job.partial_result = result.model_dump(mode="json")
    context.job.stop.raise_if_requested()
    return result


EXCITE = Kind(
    name=JobKind.EXCITE,
    request=ExciteRequest,
    phases={"search": 0.99, "store": 0.01},
    computes=True,
    time_limit=TIME_LIMIT,
    check=warm_start,
    run=run,
)
