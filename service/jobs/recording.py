"""A recording that a job makes: its row in the database and the recorder process that writes its file."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from core.errors import DynidError, RecordingError
from service.jobs.context import JobContext, Robot
from service.recording import RecorderHandle, RecordingHeader
from service.storage import RecordingRow, RecordingState, recordings
from service.upkeep.disk import require_room


class JobRecording:
    """Begun at a position of the ring that may lie in the past, ended at another, exactly.

    ``async with`` has its recorder wait, so that the file is created as soon as it is begun.

    Parameters
    ----------
    model_digest : of the model the robot was checked against; None where none was loaded.
    details : JSON-serialisable facts for the row; its texts also go into the file.
    """

    def __init__(self, context: JobContext, robot: Robot, *, model_digest: str | None = None, **details: Any) -> None:
        self.id: str | None = None
        self._context = context
        self._robot = robot
        self._model_digest = model_digest
        self._details = details
        self._recorder = RecorderHandle()
        self._begun = asyncio.Event()
        self._started: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        settings = self._context.settings
        await asyncio.to_thread(require_room, settings.data_dir, settings.disk_floor_bytes)
        try:
            await self._recorder.launch()
        except BaseException:
            await self._recorder.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._recorder.close()

    def begin(self, from_position: int) -> None:
        """Start the recorder in the background; nothing is lost meanwhile, as the ring remembers."""
        self._started = asyncio.create_task(self._start(from_position))
        self._begun.set()

    async def interrupted(self) -> str:
        """Return why, once the recording fails, for whatever reason, or ends without being asked to."""
        await self._begun.wait()
        try:
            if self._started is not None:
                await asyncio.shield(self._started)
            summary = await self._recorder.watch()
        except DynidError as error:  # of the recorder, or of the database
            return error.detail
        return "it ended" if summary is None or summary.reason is None else summary.reason

    async def finish(self, at_position: int | None, note: str | None) -> RecordingRow | None:
        """End the recording before ``at_position`` (None: now) and return its row; None if it was never begun.

        ``note`` says why the recording is not what was planned, None when it is.

        Raises
        ------
        RecordingError
            There is no usable file; the row says why.
        StorageError
            The row cannot be written; a file that was finished is entered when the service starts again.
        """
        if self._started is None:
            return None
        try:
            await self._started
            summary = await self._recorder.finish(at_position)
        except RecordingError as error:
            if self.id is not None:
                await self._context.write(recordings.fail, self.id, error.detail)
            raise
        reasons = [reason for reason in (note, summary.reason) if reason]
        facts = {**summary.facts(), "reason": "; ".join(reasons) or None}
        details = {"recorder_restarts": summary.restarts}
        row = await self._context.write(
            recordings.finish, summary.recording_id, RecordingState.COMPLETE, **facts, details=details
        )
        self._context.job.log(f"recording {row.id}: {row.samples} samples, {row.lost} lost")
        return row

    async def _start(self, from_position: int) -> None:
        status = self._robot.device.status
        if status.ring_path is None:
            raise RecordingError(f"{self._robot.settings.name} has no live samples to record", code="ring-missing")
        job_id = self._context.job.id
        row = await self._context.write(
            recordings.create,
            robot=self._robot.settings.name,
            job_id=job_id,
            model_digest=self._model_digest,
            details=self._details,
        )
        self.id = row.id
        texts = {name: value for name, value in self._details.items() if isinstance(value, str)}
        header = RecordingHeader(
            robot=row.robot,
            model_digest=self._model_digest,
            ring_epoch=status.ring_epoch,
            context={"job_id": job_id, **texts},
        )
        path = recordings.file_of(self._context.settings.data_dir, row)
        await self._recorder.start(status.ring_path, from_position, row.id, path, header)
