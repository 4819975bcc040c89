"""Load feedforward: a stored table of currents goes to the controller, for the trajectory that it was built for."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.orm import Session

from service.errors import ConflictError
from service.jobs.context import JobContext, Kind
from service.jobs.models import JobKind, LoadFeedforwardRequest, LoadFeedforwardResult
from service.motion.feedforward import LoadableTable, prepare_feedforward
from service.storage import FeedforwardTableRow, TrajectoryRow, feedforward, results, trajectories

TIME_LIMIT = 120.0


def references(session: Session, request: LoadFeedforwardRequest) -> tuple[FeedforwardTableRow, TrajectoryRow] | None:
    """Return the table and its trajectory; None where there is to be no table any more.

    Raises
    ------
    ConflictError
        ``table-of-other-robot``, ``table-without-current``, or ``result-not-validated``: what the table was built
        from is no longer to be used.
    """
    if request.table_id is None:
        return None
    table = feedforward.get(session, request.table_id)
    if table.robot != request.robot:
        raise ConflictError(
            f"table {table.id} is of {table.robot}, not of {request.robot}",
            code="table-of-other-robot",
            id=table.id,
            robot=table.robot,
        )
    if table.current is None:
        raise ConflictError(
            f"table {table.id} has no currents, which a controller adds; build it from a result with drive gains",
            code="table-without-current",
            id=table.id,
        )
    results.require_usable(results.get(session, table.result_id))
    return table, trajectories.get(session, table.trajectory_id)


async def run(context: JobContext, request: LoadFeedforwardRequest) -> LoadFeedforwardResult:
    robot = context.robot(request.robot)
    found = await context.read(references, request)
    context.enter("prepare")
    await context.job.stop.bound(robot.device.wait_streaming(timeout=5.0))
    trajectory: Path | None = None
    loadable = LoadableTable(path=None, rows=0, standing_current=[])
    if found is not None:
        table, stored = found
        context.folder.mkdir(parents=True, exist_ok=True)
        trajectory = context.folder / "trajectory.npz"
        loadable = await context.compute(
            prepare_feedforward,
            definition=stored.definition,
            model=robot.settings.model,
            period=1.0 / robot.settings.rate_hz,
            cycle_time=table.cycle_time,
            current=table.current,
            n_joints=table.n_joints,
            trajectory=trajectory,
            table=context.folder / "feedforward.npz",
        )
    context.enter("load")
    version = await robot.device.load_feedforward(trajectory, loadable.path)
    return LoadFeedforwardResult(
        controller_version=version, rows=loadable.rows, standing_current=loadable.standing_current
    )


LOAD_FEEDFORWARD = Kind(
    name=JobKind.LOAD_FEEDFORWARD,
    request=LoadFeedforwardRequest,
    phases={"prepare": 0.5, "load": 0.5},
    time_limit=TIME_LIMIT,
    check=references,
    occupies=True,
    run=run,
)
