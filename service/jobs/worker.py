"""What runs inside a worker process: set-up, and the channel by which a task reports and is stopped.

The channel is a folder of two files, so that it works across any executor that shares a file system and
so that a killed worker leaves nothing locked: ``progress.json``, replaced atomically, and ``cancel``,
whose existence asks the task to end. This module imports neither NumPy nor anything that does: the
number of BLAS threads is read once, when NumPy is first imported.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

PROGRESS_FILE = "progress.json"
CANCEL_FILE = "cancel"
REPORT_SECONDS = 0.1
"""Reports closer together than this are dropped: a tight loop may call as often as it likes."""

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)

Task = Callable[..., Any]


class TaskStoppedError(Exception):
    """The task noticed that it was asked to end, and ended. Not an error of the computation."""


class TaskChannel:
    """The task's end of the channel: ``report(fraction)`` and, with it, the moment at which it may stop."""

    def __init__(self, folder: Path) -> None:
        self._progress = folder / PROGRESS_FILE
        self._scratch = folder / f".{PROGRESS_FILE}"
        self._cancel = folder / CANCEL_FILE
        self._last = float("-inf")

    def report(self, fraction: float, message: str = "") -> None:
        """Tell how far the task is (0..1) and what it does; end it here if that was asked for.

        Raises
        ------
        TaskStoppedError
            The task was cancelled or its time is over. Let it pass.
        """
        now = time.monotonic()
        if now - self._last < REPORT_SECONDS and fraction < 1.0:
            return
        self._last = now
        if self._cancel.exists():
            raise TaskStoppedError
        self._scratch.write_text(json.dumps({"fraction": fraction, "message": message}))
        self._scratch.replace(self._progress)


def initialise() -> None:
    """Set up a fresh worker process: one thread of numerics each, no orphan when the service dies."""
    if "numpy" in sys.modules:
        log.warning("NumPy was loaded before its threads could be limited; do not import it in the main module")
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the service decides
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def run_task(task: Task, folder: Path, arguments: dict[str, Any]) -> Any:
    """Run ``task(channel, **arguments)`` and return its result; the unit that is sent to the executor."""
    channel = TaskChannel(folder)
    channel.report(0.0)
    return task(channel, **arguments)


def _end_with(sentinel: int) -> None:
    """A pool's worker waits on a pipe it holds both ends of: it would outlive a killed service for ever."""
    wait([sentinel])
    os._exit(1)
