"""The service's side of a recording: starts the recorder, follows it, and replaces it when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.errors import RecordingError
from core.recordings.partial_file import partial_path
from service.recording.messages import (
    RecorderOrder,
    RecorderProgress,
    RecordingHeader,
    RecordingSummary,
    read_summary,
    to_line,
)

log = logging.getLogger(__name__)

MAX_RESTARTS = 3
"""A recorder that dies more often than this dies of something that will not go away."""

END_PATIENCE = 60.0
"""How long a recorder may take to catch up and complete its file, s: a slow disk is no reason to kill it."""

CLOSE_PATIENCE = 10.0


class RecorderHandle:
    """One recording: `launch` if wanted, `start`, then `finish`, `abort` or `close`. Belongs to one event loop.

    A recorder that is killed is replaced at once by one that goes on where the file ends: as long as the ring
    still holds the samples, nothing is lost, and the summary's ``restarts`` tells.
    """

    def __init__(self, *, max_restarts: int = MAX_RESTARTS) -> None:
        self.progress: RecorderProgress | None = None
        self.pid: int | None = None
        self.restarts = 0
        self._max_restarts = max_restarts
        self._order: RecorderOrder
        self._waiting: asyncio.subprocess.Process | None = None  # launched, without an order yet
        self._process: asyncio.subprocess.Process | None = None
        self._started = asyncio.Event()
        self._last_command: bytes | None = None
        self._task: asyncio.Task[RecordingSummary | None] | None = None

    async def launch(self) -> None:
        """Have a recorder wait for `start`, which then creates the file at once.

        Starting the process takes long enough for a robot to move and a service to be killed: whoever records a
        motion launches before it.

        Raises
        ------
        RecordingError
            No recorder can be started.
        """
        self._waiting = process = await _start_process()
        self.pid = process.pid
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        if not await process.stdout.readline():
            raise RecordingError(
                f"the recorder ended before it had begun, with code {await process.wait()}; see the service's log",
                code="recorder-not-started",
            )

    async def start(
        self, ring_path: Path, from_position: int, recording_id: str, path: Path, header: RecordingHeader
    ) -> None:
        """Start recording into ``path`` (absolute) what the ring holds from ``from_position`` on.

        Returns once the recorder is at work; as the ring remembers, nothing is lost while it starts.

        Raises
        ------
        RecordingError
            The ring or the file cannot be opened; the code is the recorder's.
        """
        if self._task is not None:
            raise RuntimeError("a RecorderHandle makes one recording")
        self._order = RecorderOrder(recording_id, str(ring_path), from_position, str(path), header)
        self._task = asyncio.create_task(self._follow(), name=f"recorder {recording_id}")
        self._task.add_done_callback(_log_failure)
        started = asyncio.create_task(self._started.wait())
        try:
            await asyncio.wait({self._task, started}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            started.cancel()
        if self._task.done():
            self._task.result()

    async def finish(self, at_position: int | None = None) -> RecordingSummary:
        """End the recording exactly before ``at_position`` (default: now) and return the finished file's facts.

        When it had ended by itself already, its summary says why in ``reason``.

        Raises
        ------
        RecordingError
            ``disk-full``, ``recording-empty``, ``recorder-died``, ...: there is no finished file.
        """
        self._command(to_line("finish", position=at_position))
        summary = await self._end(END_PATIENCE)
        if summary is None:
            raise RecordingError(f"recording {self._order.recording_id} was aborted", code="recording-aborted")
        return summary

    async def abort(self) -> None:
        """End the recording and remove its file; a file that is finished already stays."""
        self._command(to_line("abort"))
        with contextlib.suppress(RecordingError):
            await self._end(CLOSE_PATIENCE)

    async def watch(self) -> RecordingSummary | None:
        """Return when the recording ends without being asked to; raise RecordingError when it fails.

        To be awaited beside the motion that is recorded. Cancelling it changes nothing.
        """
        return await asyncio.shield(self._following())

    async def close(self) -> None:
        """Let go: a recording that still runs is completed, and marked as interrupted. Idempotent."""
        if self._waiting is not None:
            await _end_process(self._waiting)
            self._waiting = None
        if self._task is None or self._task.done():
            return
        self._max_restarts = 0
        if self._process is not None:
            _close_input(self._process)
        with contextlib.suppress(RecordingError):
            await self._end(CLOSE_PATIENCE)

    async def _end(self, patience: float) -> RecordingSummary | None:
        task = self._following()
        done, _ = await asyncio.wait({task}, timeout=patience)
        if not done:
            self._max_restarts = 0
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
        return await asyncio.shield(task)

    def _following(self) -> asyncio.Task[RecordingSummary | None]:
        if self._task is None:
            raise RuntimeError("the recording has not been started")
        return self._task

    async def _follow(self) -> RecordingSummary | None:
        """Run recorders until one has reached an end; return its summary, None when it was aborted."""
        while True:
            end = await self._run_recorder()
            if end is not None:
                return self._take_end(end)
            partial = partial_path(Path(self._order.path))
            detail = f"the recorder of {self._order.recording_id} {self._how_it_died()}; what it wrote is in {partial}"
            if self.restarts >= self._max_restarts:
                raise RecordingError(f"{detail} and can be salvaged", code="recorder-died", path=str(partial))
            self.restarts += 1
            log.warning("%s; a new one goes on with it", detail)
            self._order = replace(self._order, resume=True)

    async def _run_recorder(self) -> dict[str, Any] | None:
        """Run one recorder to its end; return its last message, or None when it died without one."""
        self._process = process = self._waiting or await _start_process()
        self._waiting = None
        self.pid = process.pid
        end = None
        try:
            self._send(to_line("record", self._order))
            if self._last_command is not None:
                self._send(self._last_command)
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            async for line in process.stdout:
                end = self._take(json.loads(line)) or end
        finally:
            _close_input(process)
        await process.wait()
        return end

    def _take(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Take one message in; return it when it is the last one."""
        kind = message.pop("kind")
        if kind == "ready":
            return None
        if kind == "progress":
            self.progress = RecorderProgress(**message)
            return None
        if kind == "started":
            header = replace(self._order.header, ring_epoch=message["ring_epoch"])
            self._order = replace(self._order, header=header)
            self._started.set()
            return None
        return {"kind": kind, **message}

    def _take_end(self, message: dict[str, Any]) -> RecordingSummary | None:
        kind = message.pop("kind")
        if kind == "failed":
            raise RecordingError(message["detail"], code=message["code"], **message["context"])
        return replace(read_summary(message), restarts=self.restarts) if kind == "finished" else None

    def _how_it_died(self) -> str:
        code = self._process.returncode if self._process else None
        if code is not None and code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with code {code}, without a word"

    def _command(self, line: bytes) -> None:
        if not self._following().done() and self._last_command is None:
            self._last_command = line
            self._send(line)

    def _send(self, line: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(line)  # a dead recorder is noticed by its output's end


async def _start_process() -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "service.recording.recorder",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise RecordingError(f"no recorder can be started: {error}", code="recorder-not-started") from error


def _close_input(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()


async def _end_process(process: asyncio.subprocess.Process) -> None:
    """End a recorder that has no order yet; one that hangs has nothing to lose."""
    _close_input(process)
    try:
        async with asyncio.timeout(CLOSE_PATIENCE):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _log_failure(task: asyncio.Task[RecordingSummary | None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("%s: %s", task.get_name(), task.exception())
