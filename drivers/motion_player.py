"""Motion, seen from the device host: a player whose work is done by a process of its own.

A vendor's client may end its process with a segmentation fault, and a stream of set-points may not wait for
anything else. The two sides exchange one JSON object per line, over the child's stdin and stdout; the child's
side is ``drivers.motion_orders``.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from drivers.contract import ApproachSpeed, MotionFinish, MotionListener

EXIT_TIMEOUT = 3.0  # s from the last word of the process to its end
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MotionOrder:
    """The first line a motion process is given: everything it needs. ``options`` are the driver's own."""

    host: str
    rate_hz: float
    trajectory: str
    approach: ApproachSpeed | None
    settle_time: float
    parent: int
    options: dict[str, str] = field(default_factory=dict)

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Self:
        fields = json.loads(line)
        approach = fields.pop("approach")
        return cls(approach=None if approach is None else ApproachSpeed(**approach), **fields)


class ProcessPlayer:
    """A `drivers.contract.MotionPlayer` that runs ``python -m module`` and gives it ``order``."""

    def __init__(self, module: str, order: MotionOrder) -> None:
        self._module = module
        self._order = order
        self._process: subprocess.Popen[str] | None = None
        self._sending = threading.Lock()  # against the thread that closes the pipe

    @property
    def pid(self) -> int | None:
        """Process id, while there is a process."""
        return None if self._process is None else self._process.pid

    def start(self, listener: MotionListener) -> None:
        """Start the process. Call it from a thread that outlives the motion: the kernel stops the robot's
        process when the *thread* that started it ends.
        """
        command = [sys.executable, "-m", self._module]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        os.set_blocking(process.stdin.fileno(), False)  # a process that hangs must not hold up its parent
        self._process = process
        self._send(self._order.to_line())
        arguments = process, listener, self._sending
        threading.Thread(target=_listen, args=arguments, name="motion-events", daemon=True).start()

    def keep_alive(self) -> None:
        self._send(json.dumps({"command": "go-on"}) + "\n")

    def proceed(self) -> None:
        self._send(json.dumps({"command": "proceed"}) + "\n")

    def stop(self, reason: str, *, immediately: bool) -> None:
        command = {"command": "stop", "reason": reason, "immediately": immediately}
        self._send(json.dumps(command) + "\n")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _send(self, line: str) -> None:
        """Write to the process; one that is gone is reported by `_listen`, one that hangs by whoever stops it."""
        assert self._process is not None  # noqa: S101 - only called after start
        pipe = self._process.stdin
        assert pipe is not None  # noqa: S101 - it is one
        with self._sending:
            if pipe.closed:
                return
            try:
                os.write(pipe.fileno(), line.encode())  # whole or not at all, being short
            except (BrokenPipeError, BlockingIOError):
                _log.debug("the motion process no longer takes commands")


def _listen(process: subprocess.Popen[str], listener: MotionListener, sending: threading.Lock) -> None:
    """Pass events on until the process is gone; then report how it ended."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    finish: MotionFinish | None = None
    for line in process.stdout:
        event: dict[str, Any] = json.loads(line)
        match event.pop("event"):
            case "accepted":
                listener.accepted()
            case "at_start":
                listener.at_start()
            case "progress":
                listener.progress(event["time"])
            case "finished":
                period = event.pop("period_ms")
                finish = MotionFinish(**event, period_ms=None if period is None else tuple(period))
    try:
        process.wait(EXIT_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with sending:
        _close_pipes(process)
    listener.finished(finish or _died(process.returncode))


def _close_pipes(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _died(returncode: int) -> MotionFinish:
    how = f"signal {signal.Signals(-returncode).name}" if returncode < 0 else f"exit code {returncode}"
    return MotionFinish("faulted", f"the motion process died ({how}) before it had finished", "motion-process-died")
