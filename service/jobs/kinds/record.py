"""Record: keep the samples of a robot for a while, whatever it does."""

from __future__ import annotations

import asyncio

from sqlalchemy.orm import Session

from core.errors import RecordingError
from core.streaming.ring import RingReader
from service.errors import ConflictError
from service.jobs.context import JobContext, JobFailedError, Kind, Robot
from service.jobs.models import JobKind, RecordRequest, RecordResult
from service.jobs.recording import JobRecording
from service.storage import jobs

TICK_SECONDS = 0.2
EXTRA_SECONDS = 120.0
"""What a recording may take beyond its duration: its recorder starts, catches up, completes the file."""


def check(session: Session, request: RecordRequest) -> None:
    """Refuse a second one beside one that runs: each is a process of its own, and would store the same samples.

    Raises
    ------
    ConflictError
        ``robot-recording``.
    """
    unfinished = jobs.find(session, robot=request.robot, kind=JobKind.RECORD, states=jobs.UNFINISHED)
    for other in unfinished[1:]:  # the newest is the job that is being submitted
        raise ConflictError(
            f"{request.robot} is being recorded by job {other.id}; wait for it, or cancel it",
            code="robot-recording",
            robot=request.robot,
            job=other.id,
        )


async def run(context: JobContext, request: RecordRequest) -> RecordResult:
    robot = context.robot(request.robot)
    context.limit(request.duration + EXTRA_SECONDS)
    context.enter("connect")
    await context.job.stop.bound(robot.device.wait_streaming(timeout=5.0))
    async with JobRecording(context, robot) as recording:
        context.enter("record")
        recording.begin(await asyncio.to_thread(_head, robot))
        note = await _wait(context, recording, request.duration)
        context.advance("finish")
        row = await recording.finish(None, note)
    assert row is not None  # noqa: S101 - it was begun above
    result = RecordResult(recording_id=row.id, samples=row.samples or 0, lost=row.lost or 0)
    if note is None:
        return result
    context.job.partial_result = result.model_dump(mode="json")
    context.job.stop.raise_if_requested()
    raise JobFailedError(f"the recording is shorter than asked for: {note}", code="recording-cut-short", id=row.id)


async def _wait(context: JobContext, recording: JobRecording, duration: float) -> str | None:
    """Return None when the time is over; why not, when the recording or the job has to end before."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    stopping = asyncio.ensure_future(context.job.stop.wait())
    interrupted = asyncio.ensure_future(recording.interrupted())
    try:
        while (elapsed := loop.time() - began) < duration:
            context.report(elapsed / duration, f"{elapsed:.1f} s")
            pause = min(TICK_SECONDS, duration - elapsed)
            await asyncio.wait({stopping, interrupted}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if interrupted.done():
                return interrupted.result()
            if stopping.done():
                return context.job.stop.reason
        return None
    finally:
        stopping.cancel()
        interrupted.cancel()


def _head(robot: Robot) -> int:
    path = robot.device.status.ring_path
    if path is None:
        raise RecordingError(f"{robot.settings.name} has no live samples to record", code="ring-missing")
    with RingReader.open(path) as ring:
        return ring.head


RECORD = Kind(
    name=JobKind.RECORD,
    request=RecordRequest,
    phases={"connect": 0.02, "record": 0.93, "finish": 0.05},
    time_limit=EXTRA_SECONDS,
    check=check,
    run=run,
)
