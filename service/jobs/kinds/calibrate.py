"""Calibrate: move the robot a little and tell whether it is still the one whose model is in force."""

from __future__ import annotations

from sqlalchemy.orm import Session

from service.errors import ConflictError
from service.jobs.computations import RecordingSource, drift_of
from service.jobs.context import JobContext, JobFailedError, Kind
from service.jobs.kinds import play
from service.jobs.kinds.references import sources_of, trajectory_for
from service.jobs.models import CalibrateRequest, CalibrateResult, JobKind, PlayRequest
from service.storage import ResultState, events, recordings, results

COMPARE_SECONDS = 120.0


def active_result(session: Session, robot: str) -> str:
    """Return which of the robot's results is in force.

    Raises
    ------
    ConflictError
        ``no-active-result``.
    """
    found = results.find(session, robot=robot, state=ResultState.ACTIVE, limit=1)
    if not found:
        raise ConflictError(
            f"no result of {robot} is in force, so there is nothing to compare it with; identify, validate and promote "
            "one first",
            code="no-active-result",
            robot=robot,
        )
    return found[0].id


def check(session: Session, request: CalibrateRequest) -> None:
    trajectory_for(session, request.trajectory_id, request.robot)
    active_result(session, request.robot)


async def run(context: JobContext, request: CalibrateRequest) -> CalibrateResult:
    with context.within(request.time_limit):
        return await _compare(context, request)


async def _compare(context: JobContext, request: CalibrateRequest) -> CalibrateResult:
    active = await context.read(results.get, await context.read(active_result, request.robot))
    motion = PlayRequest(robot=request.robot, trajectory_id=request.trajectory_id, approach=request.approach)
    played = await play.run(context, motion)
    if played.recording_id is None:
        raise JobFailedError("the motion left no recording", code="recording-empty")
    context.limit(COMPARE_SECONDS)
    context.enter("compare")
    found = await context.compute(
        drift_of,
        document=active.document,
        sources=await context.read(_source, context, played.recording_id),
        sensors=active.settings.get("sensors"),
        level=request.level,
    )
    outcome = "flagged" if found["changes"] else "accepted"
    context.job.log(f"{outcome}: {found['summary']}")
    await context.write(
        events.record,
        f"calibration.{outcome}",
        found["summary"],
        subject=active.id,
        robot=request.robot,
        job_id=context.job.id,
        drifted=found["drifted"],
    )
    return CalibrateResult(
        outcome=outcome, result_id=active.id, recording_id=played.recording_id, drift=found, summary=found["summary"]
    )


def _source(session: Session, context: JobContext, identifier: str) -> list[RecordingSource]:
    return sources_of(context.settings.data_dir, [recordings.get(session, identifier)])


CALIBRATE = Kind(
    name=JobKind.CALIBRATE,
    request=CalibrateRequest,
    phases={"preflight": 0.1, "approach": 0.15, "play": 0.55, "finish": 0.05, "compare": 0.15},
    computes=True,
    moves=True,
    time_limit=play.PREFLIGHT_SECONDS,
    check=check,
    run=run,
)
