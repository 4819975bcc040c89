"""Play: check a stored trajectory, move the robot along it, keep the recording of exactly that motion."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

from sqlalchemy.orm import Session

from core.errors import DynidError, RecordingError
from drivers.contract import MotionRefused
from service.devices import Approach, MotionFinished, MotionProgress, MotionRequest, MotionStarted
from service.jobs.context import JobContext, JobFailedError, Kind, Robot
from service.jobs.kinds.references import trajectory_for
from service.jobs.live import StopCause
from service.jobs.models import JobKind, PlayRequest, PlayResult
from service.jobs.recording import JobRecording
from service.motion.preflight import PreparedMotion, prepare_motion
from service.storage import TrajectoryRow, trajectories

PREFLIGHT_SECONDS = 120.0
"""Limit of the check; the first one of a service may have to compile kernels."""

MOTION_SECONDS = 300.0
"""What a motion may take beyond its own duration: approach, settling, the end of the recording."""

STOP_SECONDS = 10.0
"""How long the device may take, once at rest, to report that the motion is over."""


def check(session: Session, request: PlayRequest) -> None:
    trajectory_for(session, request.trajectory_id, request.robot)


async def run(context: JobContext, request: PlayRequest) -> PlayResult:
    robot = context.robot(request.robot)
    async with AsyncExitStack() as stack:
        with robot.guard.preparing(context.arming, lambda why: context.job.stop.request(StopCause.CANCELLED, why)):
            trajectory = await context.read(trajectories.get, request.trajectory_id)
            context.enter("preflight")
            await context.job.stop.bound(robot.device.wait_streaming(timeout=5.0))
            prepared = await _prepare(context, robot, trajectory, request)
            recording = None
            if request.record:
                details = {"model_digest": prepared.model_digest, "trajectory_id": trajectory.id}
                recording = await stack.enter_async_context(JobRecording(context, robot, **details))
        context.limit(prepared.duration + MOTION_SECONDS)
        context.enter("approach")
        finished = await _move(context, robot, _motion(context, robot, prepared, request), recording)
        context.lift_limit()
        context.advance("finish")
        recording_id, failure = await _end_recording(recording, finished)
    result = PlayResult(
        recording_id=recording_id,
        outcome=finished.outcome,
        reason=finished.reason,
        cycles=finished.cycles,
        late_cycles=finished.late_cycles,
        max_tracking_error=list(finished.max_tracking_error),
        limit_use=prepared.limit_use,
    )
    if finished.outcome == "completed" and failure is None:
        return result
    context.job.partial_result = result.model_dump(mode="json")
    if failure is not None:
        raise failure
    if finished.outcome == "stopped":
        context.job.stop.raise_if_requested()
    raise JobFailedError(
        f"the motion of {request.robot} was {finished.outcome}: {finished.reason}",
        code=f"motion-{finished.outcome}",
        cause=finished.code,
        robot=request.robot,
        recording_id=recording_id,
    )


async def _end_recording(
    recording: JobRecording | None, finished: MotionFinished
) -> tuple[str | None, DynidError | None]:
    """End the recording where the motion ended; return its identifier, and why there is none that should be."""
    if recording is None:
        return None, None
    completed = finished.outcome == "completed"
    note = None if completed else f"motion {finished.outcome}: {finished.reason}"
    try:
        row = await recording.finish(finished.ring_position, note)
    except DynidError as error:
        nothing_yet = error.code == "recording-empty" and not completed
        return None, None if nothing_yet else error
    return None if row is None else row.id, None


async def _prepare(
    context: JobContext, robot: Robot, trajectory: TrajectoryRow, request: PlayRequest
) -> PreparedMotion:
    approach = request.approach
    context.folder.mkdir(parents=True, exist_ok=True)
    prepared: PreparedMotion = await context.compute(
        prepare_motion,
        definition=trajectory.definition,
        model=robot.settings.model,
        period=1.0 / robot.settings.rate_hz,
        approach=None if approach is None else (approach.speed, approach.acceleration),
        workspace=robot.settings.workspace.model_dump(),
        ring=robot.device.status.ring_path,
        n_joints=robot.device.status.n_joints,
        trajectory=context.folder / "trajectory.npz",
    )
    return prepared


def _motion(context: JobContext, robot: Robot, prepared: PreparedMotion, request: PlayRequest) -> MotionRequest:
    approach = request.approach
    return MotionRequest(
        motion_id=context.job.id,
        arming=context.arming,
        trajectory=prepared.trajectory,
        approach=None if approach is None else Approach(speed=approach.speed, acceleration=approach.acceleration),
        start_tolerance=robot.settings.start_tolerance,
        tracking_limit=(robot.settings.tracking_limit,) * prepared.n_joints,
        settle_time=robot.settings.settle_time,
    )


async def _move(
    context: JobContext, robot: Robot, motion: MotionRequest, recording: JobRecording | None
) -> MotionFinished:
    """Move under the permit. However the motion ends, the permit says so."""
    robot.guard.begin_motion(context.arming, f"job {context.job.id}")
    try:
        finished = await _until_over(context, robot, motion, recording)
    except MotionRefused as refused:
        robot.guard.end_motion(refused.detail)
        context.job.stop.raise_if_requested()
        raise
    except DynidError as error:  # it moved, and how that ended is not known: what was recorded is kept
        finished = MotionFinished(
            motion_id=motion.motion_id,
            outcome="faulted",
            reason=error.detail,
            code=error.code,
            ring_position=robot.device.status.samples,
        )
    except BaseException:
        robot.guard.permit.fault(f"job {context.job.id} was cut off; what the robot does is not known")
        if recording is not None:
            with suppress(RecordingError):
                await recording.finish(None, "the motion's end was not seen")
        raise
    if finished.outcome == "faulted":
        robot.guard.permit.fault(finished.reason)
    else:
        robot.guard.end_motion(f"{finished.outcome}: {finished.reason}")
    return finished


async def _until_over(
    context: JobContext, robot: Robot, motion: MotionRequest, recording: JobRecording | None
) -> MotionFinished:
    """Follow the motion to its end; when the job is asked to stop, or cannot record, stop the robot first."""
    following = asyncio.ensure_future(_follow(context, robot, motion, recording))
    hindrance = asyncio.ensure_future(_hindrance(context, recording))
    try:
        await asyncio.wait({following, hindrance}, return_when=asyncio.FIRST_COMPLETED)
        if not following.done():
            reason = hindrance.result()
            context.job.log(f"stopping: {reason}")
            await robot.guard.stop(reason)
            await asyncio.wait({following}, timeout=STOP_SECONDS)
        if not following.done():
            raise JobFailedError(
                f"{robot.settings.name} is at rest, but its device did not report the motion's end",
                code="motion-end-unknown",
            )
        return following.result()
    finally:
        hindrance.cancel()
        following.cancel()
        await asyncio.wait({following, hindrance})


async def _hindrance(context: JobContext, recording: JobRecording | None) -> str:
    """Return why the motion cannot go on, once that is so."""
    if recording is None:
        await context.job.stop.wait()
        return context.job.stop.reason
    interrupted = asyncio.ensure_future(recording.interrupted())
    stopping = asyncio.ensure_future(context.job.stop.wait())
    try:
        await asyncio.wait({interrupted, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return context.job.stop.reason if stopping.done() else f"the recording failed: {interrupted.result()}"
    finally:
        interrupted.cancel()
        stopping.cancel()


async def _follow(
    context: JobContext, robot: Robot, motion: MotionRequest, recording: JobRecording | None
) -> MotionFinished:
    rest = round(motion.settle_time * robot.device.status.rate_hz)  # in which the robot stands before it starts
    finished = None
    robot.guard.require_moving(context.arming)  # no turn of the loop between this and the message to the device
    async for event in robot.device.play(motion):
        match event:
            case MotionStarted():
                context.advance("play")
                if recording is not None:
                    recording.begin(max(0, event.ring_position - rest))
            case MotionProgress():
                context.report(event.fraction, f"{event.time:.1f} s")
            case MotionFinished():
                finished = event
    if finished is None:
        raise JobFailedError("the device ended the motion without saying how", code="motion-end-unknown")
    return finished


PLAY = Kind(
    name=JobKind.PLAY,
    request=PlayRequest,
    phases={"preflight": 0.1, "approach": 0.15, "play": 0.7, "finish": 0.05},
    moves=True,
    time_limit=PREFLIGHT_SECONDS,
    check=check,
    run=run,
)
