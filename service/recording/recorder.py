"""The recorder process: ``python -m service.recording.recorder``.

It drains the ring into a file and does nothing else, so that no ``fsync`` ever delays acquisition. The first
line on its standard input is the `RecorderOrder`; then comes ``finish`` or ``abort``. Its standard output says
``ready``, ``started``, ``progress``, and ``finished``, ``aborted`` or ``failed``. When its input ends, the service is
gone: it stores what is there and completes the file by itself.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.errors import DynidError, RecordingError
from core.recordings.mcap_log import McapSampleWriter, StoredLog, WriterMark, describe
from core.recordings.partial_file import partial_path
from core.streaming.ring import RingReader
from core.streaming.samples import SampleBlock
from service.recording.messages import (
    RecorderOrder,
    RecorderProgress,
    RecordingSummary,
    read_order,
    to_line,
)

CHUNK_PERIOD = 0.08
"""Time between chunks, s. What is not in a chunk yet is lost with this process: half of what is promised."""

SYNC_PERIOD = 0.1
"""Pause between two waits for the disk, s."""

PROGRESS_PERIOD = 0.5

FINISH_PATIENCE = 2.0
"""How long the end of a recording may take to appear in the ring, s, before it is given up."""

READ_LIMIT = 256
"""Samples per chunk when there is much to catch up with; a chunk that does not fit on the disk is lost whole."""

MARKS = 256
"""Chunks that can be cut off again when the recording is to end earlier than was read: some 20 s."""

DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Commands:
    """Lines from a pipe, without blocking; ``closed`` once the other end is gone and all are taken."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._ended = False

    @property
    def closed(self) -> bool:
        return self._ended and not self._lines

    def next(self, timeout: float) -> bytes | None:
        """Return the next line, or None when none comes within ``timeout`` s."""
        if self.closed:
            time.sleep(timeout)
        elif not self._lines and not self._ended and select.select([self._descriptor], [], [], timeout)[0]:
            data = os.read(self._descriptor, 65536)
            self._ended = not data
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._lines.extend(line for line in lines if line)
        return self._lines.popleft() if self._lines else None


class Syncer(threading.Thread):
    """Puts the file on the disk again and again, beside the writing: a slow disk must not delay chunks."""

    def __init__(self, writer: McapSampleWriter) -> None:
        super().__init__(name="sync", daemon=True)
        self.error: OSError | None = None
        self._writer = writer
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(SYNC_PERIOD):
            try:
                self._writer.sync()
            except OSError as error:
                self.error = error
                return

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stopping.set()
        self.join()


class Recorder:
    """One recording, from the order to the finished file."""

    def __init__(self, order: RecorderOrder, ring: RingReader, writer: McapSampleWriter, commands: Commands) -> None:
        self._order = order
        self._ring = ring
        self._writer = writer
        self._commands = commands
        self._position = order.from_position + writer.samples + writer.lapped
        self._marks: deque[tuple[int, WriterMark]] = deque(maxlen=MARKS)
        self._end: int | None = None  # position to stop at
        self._end_due = 0.0  # when to give up waiting for it
        self._over = self._aborted = self._interrupted = False
        self._reason: str | None = None
        self._terminated = False
        self._progress_due = 0.0
        self._chunk_due = 0.0

    def run(self) -> RecordingSummary | None:
        """Record until the end; return the summary, or None when it was aborted.

        Raises
        ------
        OSError
            The disk refuses; what was written before is whole.
        RecordingError
            ``recording-empty``: it ended before there was a sample.
        """
        # What has come since the beginning is safe before anybody relies on it; the second round takes what came
        # while the first one loaded the ring's compiled code and caught up.
        self._drain()
        self._drain()
        _tell("started", ring_epoch=self._ring.epoch)
        syncer = Syncer(self._writer)
        syncer.start()
        try:
            while not self._over:
                self._step()
                if syncer.error:
                    raise syncer.error
        finally:
            syncer.stop()
        if self._aborted:
            self._writer.discard()
            return None
        if not self._writer.samples:
            self._writer.discard()
            raise RecordingError(
                f"recording {self._order.recording_id} ended before there was a sample in it"
                f"{f' ({self._reason})' if self._reason else ''}",
                code="recording-empty",
            )
        return self._finish()

    def terminate(self, *_: object) -> None:
        """End soon, with what is there then (signal handler)."""
        self._terminated = True

    def _step(self) -> None:
        line = self._commands.next(max(0.0, self._chunk_due - time.monotonic()))
        if line is not None:
            self._obey(json.loads(line))
        elif self._commands.closed:
            self._interrupt("the service ended during this recording")
        if self._terminated:
            self._interrupt("the recorder was told to end")
        superseded = self._ring.superseded  # asked before draining: whoever is superseded writes no more
        self._drain()
        self._see_whether_over(superseded)
        if time.monotonic() >= self._progress_due:
            self._progress_due = time.monotonic() + PROGRESS_PERIOD
            _tell("progress", self._progress())

    def _obey(self, command: dict[str, Any]) -> None:
        if command["kind"] == "abort":
            self._aborted = self._over = True
        elif command["kind"] == "finish" and self._end is None:
            position = command["position"]
            self._end_at(self._ring.head if position is None else int(position))

    def _interrupt(self, reason: str) -> None:
        if self._end is None:
            self._interrupted, self._reason = True, reason
            self._end_at(self._ring.head)

    def _end_at(self, position: int) -> None:
        self._end, self._end_due = position, time.monotonic() + FINISH_PATIENCE
        # What came after the end may be stored already: cut it off, and read the rest up to the end once more,
        # provided that the ring still has it.
        while self._position > position and self._marks and self._marks[-1][0] >= self._ring.tail:
            self._position, mark = self._marks.pop()
            self._writer.cut_back(mark)

    def _drain(self) -> None:
        """Store what the ring holds, up to the end."""
        self._chunk_due = time.monotonic() + CHUNK_PERIOD  # from now, however long this takes
        stop = self._ring.head if self._end is None else min(self._ring.head, self._end)
        while self._position < stop and not self._over:
            self._marks.append((self._position, self._writer.mark()))
            read = self._ring.read(self._position, min(stop - self._position, READ_LIMIT))
            beyond = max(0, read.next_position - stop)  # only when lapped right up to the end
            samples = read.samples[: max(0, read.samples.size - beyond)]
            self._position = min(read.next_position, stop)
            if read.lapped:
                self._writer.note_lapped(min(read.lapped, read.lapped + read.samples.size - beyond))
            self._store(samples)

    def _store(self, samples: SampleBlock) -> None:
        try:
            self._writer.write(samples)
        except RecordingError as error:
            if error.code != "sequence-not-increasing":
                raise
            usable = samples[: error.context["row"] - 1]
            self._writer.write(usable)
            self._position -= samples.size - usable.size
            self._over = self._interrupted = True
            self._reason = "the controller was restarted during this recording"

    def _see_whether_over(self, superseded: bool) -> None:
        if self._end is not None and self._position >= self._end:
            self._over = True
            if self._position > self._end:
                self._reason = f"{self._position - self._end} samples beyond the end had been stored already"
        elif superseded:
            self._over = self._interrupted = True
            self._reason = "the robot's device host ended during this recording"
        elif self._end is not None and time.monotonic() > self._end_due:
            self._over = self._interrupted = True
            self._reason = f"the last {self._end - self._position} samples never came"

    def _finish(self) -> RecordingSummary:
        stored = self._writer.finish(
            {
                "finished_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "from_position": str(self._order.from_position),
                "next_position": str(self._position),
                "interrupted": str(self._interrupted).lower(),
                "reason": self._reason or "",
            }
        )
        return _summary(self._order, stored, self._interrupted, self._reason)

    def _progress(self) -> RecorderProgress:
        writer = self._writer
        return RecorderProgress(writer.samples, writer.lost, writer.lapped, writer.bytes, self._position)


def main() -> int:
    """Carry out one order; return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which then closes our input
    commands = Commands(sys.stdin.fileno())
    _tell("ready")
    line = None
    while line is None:
        if commands.closed:
            return 0
        line = commands.next(1.0)
    order = read_order(line)
    try:
        summary = _carry_out(order, commands)
    except OSError as error:
        _tell_failure(_explain(error, order))
        return 1
    except DynidError as error:
        _tell_failure(error)
        return 1
    if summary is None:
        _tell("aborted")
    else:
        _tell("finished", summary)
    return 0


def _carry_out(order: RecorderOrder, commands: Commands) -> RecordingSummary | None:
    path = Path(order.path)
    if order.resume and path.exists():  # the predecessor died after its very last step
        return _summary(order, describe(path)[0], False, None)
    with RingReader.open(Path(order.ring_path)) as ring:
        expected = order.header.ring_epoch
        if expected is not None and ring.epoch != expected:
            raise RecordingError(
                f"{order.ring_path}: the ring to record from is gone, another one is in its place",
                code="ring-gone",
            )
        writer = _open_file(order, path, ring.n_joints)
        try:
            recorder = Recorder(order, ring, writer, commands)
            signal.signal(signal.SIGTERM, recorder.terminate)
            return recorder.run()
        finally:
            writer.close()


def _open_file(order: RecorderOrder, path: Path, n_joints: int) -> McapSampleWriter:
    if order.resume and partial_path(path).exists():
        return McapSampleWriter.resume(path)[0]
    header = order.header
    context = {
        "recording_id": order.recording_id,
        "model_digest": header.model_digest or "",
        "ring_epoch": str(header.ring_epoch or ""),
        **header.context,
    }
    return McapSampleWriter.create(path, n_joints, robot=header.robot, context=context)


def _summary(order: RecorderOrder, stored: StoredLog, interrupted: bool, reason: str | None) -> RecordingSummary:
    return RecordingSummary(
        recording_id=order.recording_id,
        path=stored.path,
        sha256=stored.sha256,
        bytes=stored.bytes,
        samples=stored.samples,
        lost=stored.lost,
        lapped=stored.lapped,
        from_position=order.from_position,
        next_position=order.from_position + stored.samples + stored.lapped,
        interrupted=interrupted,
        reason=reason,
    )


def _explain(error: OSError, order: RecorderOrder) -> RecordingError:
    partial = partial_path(Path(order.path))
    if error.errno in DISK_FULL:
        return RecordingError(
            f"{partial}: the disk is full ({error.strerror}); what was recorded before is kept and is salvaged "
            "at the next start of the service: make room first",
            code="disk-full",
            path=str(partial),
        )
    return RecordingError(
        f"{error.filename or partial}: cannot be written ({error.strerror}); what was recorded before is kept",
        code="recording-unwritable",
        path=str(partial),
    )


def _tell_failure(error: DynidError) -> None:
    _tell("failed", code=error.code, detail=error.detail, context=error.context)


def _tell(kind: str, message: Any = None, **values: Any) -> None:
    with contextlib.suppress(BrokenPipeError):  # the service is gone; the file says it all
        os.write(sys.stdout.fileno(), to_line(kind, message, **values))


if __name__ == "__main__":
    sys.exit(main())
