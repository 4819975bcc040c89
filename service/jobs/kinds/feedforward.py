"""Feedforward: the torque table of a stored trajectory, from a result that has been validated."""

from __future__ import annotations

from sqlalchemy.orm import Session

from service.jobs.computations import TableData, build_feedforward
from service.jobs.context import JobContext, Kind
from service.jobs.kinds.references import robot_of_result, trajectory_for
from service.jobs.models import FeedforwardRequest, FeedforwardResult, JobKind
from service.storage import ResultRow, TrajectoryRow, feedforward, results

TIME_LIMIT = 600.0


def references(session: Session, request: FeedforwardRequest) -> tuple[ResultRow, TrajectoryRow]:
    """Return the result and the trajectory.

    Raises
    ------
    ConflictError
        ``result-not-validated``.
    """
    result = results.get(session, request.result_id)
    results.require_usable(result)
    return result, trajectory_for(session, request.trajectory_id, result.robot)


async def run(context: JobContext, request: FeedforwardRequest) -> FeedforwardResult:
    result, trajectory = await context.read(references, request)
    context.enter("build")
    table: TableData = await context.compute(
        build_feedforward,
        document=result.document,
        definition=trajectory.definition,
        cycle_time=request.cycle_time,
    )
    context.enter("store")
    row = await context.write(
        feedforward.create,
        result_id=result.id,
        trajectory_id=trajectory.id,
        cycle_time=request.cycle_time,
        samples=table.samples,
        n_joints=table.n_joints,
        crc32=table.crc32,
        digest=table.digest,
        torque=table.torque,
        current=table.current,
        document=table.document,
    )
    return FeedforwardResult(table_id=row.id, version=row.version, samples=table.samples, crc32=table.crc32)


FEEDFORWARD = Kind(
    name=JobKind.FEEDFORWARD,
    request=FeedforwardRequest,
    phases={"build": 0.95, "store": 0.05},
    computes=True,
    time_limit=TIME_LIMIT,
    robot=robot_of_result,
    check=references,
    run=run,
)
