"""What runs inside a worker process: set-up, and the channel by which a task reports and is stopped.

The channel is a folder of two files, so that it works with any executor that shares a file system, not only
with our own pool, and so that a killed worker leaves nothing locked: ``progress.json``, replaced atomically,
and ``cancel``, whose existence asks the task to end. This module imports neither NumPy nor anything that
does: the number of BLAS threads is read once, when NumPy is first imported.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

PROGRESS_FILE = "progress.json"
CANCEL_FILE = "cancel"
NICENESS = 10
"""Of a worker: it takes what processor time the service, the robots' hosts and the recorders leave."""

REPORT_SECONDS = 0.1
"""Reports closer together than this are dropped, and looks whether to stop: a tight loop may ask as it likes."""

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
    """The task's end of the channel.

    Most tasks only call ``report``, which is also the moment at which they may be ended. One that has something to
    give back when it is asked to stop looks at ``stop_requested`` itself, and calls ``tell``.
    """

    def __init__(self, folder: Path) -> None:
        self._progress = folder / PROGRESS_FILE
        self._scratch = folder / f".{PROGRESS_FILE}"
        self._cancel = folder / CANCEL_FILE
        self._told = self._looked = float("-inf")
        self._stopping = False

    def stop_requested(self) -> bool:
        """Whether the task was cancelled or its time is over."""
        now = time.monotonic()
        if not self._stopping and now - self._looked >= REPORT_SECONDS:
            self._looked = now
            self._stopping = self._cancel.exists()
        return self._stopping

    def tell(self, fraction: float, message: str = "") -> None:
        """Tell how far the task is (0..1) and what it does."""
        now = time.monotonic()
        if now - self._told < REPORT_SECONDS and fraction < 1.0:
            return
        self._told = now
        self._scratch.write_text(json.dumps({"fraction": fraction, "message": message}))
        self._scratch.replace(self._progress)

    def report(self, fraction: float, message: str = "") -> None:
        """Tell how far the task is, and end it here if that was asked for.

        Raises
        ------
        TaskStoppedError
            The task was cancelled or its time is over. Let it pass.
        """
        if self.stop_requested():
            raise TaskStoppedError
        self.tell(fraction, message)


def serve(connection: Connection) -> None:
    """Answer calls until the pipe ends (the target of every worker process)."""
    _initialise()
    with suppress(EOFError, OSError):  # the pool is done with this worker, or gone
        while True:
            connection.send_bytes(_answer(connection.recv_bytes()))


def run_task(task: Task, folder: Path, arguments: dict[str, Any]) -> Any:
    """Run ``task(channel, **arguments)`` and return its result; the unit that is sent to the executor."""
    channel = TaskChannel(folder)
    channel.report(0.0)
    return task(channel, **arguments)


def _answer(request: bytes) -> bytes:
    """Make a call; return (result, error, traceback of the error), pickled."""
    try:
        function, args, kwargs = pickle.loads(request)  # noqa: S301 - from our own parent
        return pickle.dumps((function(*args, **kwargs), None, ""))
    except Exception as error:  # noqa: BLE001 - it is the caller's
        text = traceback.format_exc()
        try:
            return pickle.dumps((None, error, text))
        except Exception:  # noqa: BLE001 - an exception may hold anything
            return pickle.dumps((None, RuntimeError(f"a task failed with {error!r}, which cannot be passed on"), text))


def _initialise() -> None:
    """Set up a fresh worker process: one thread of numerics each, behind what is urgent, no orphan."""
    if "numpy" in sys.modules:
        log.warning("NumPy was loaded before its threads could be limited; do not import it in the main module")
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the service decides
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    """End with the service, also in the middle of a call, when nobody looks at the pipe."""
    wait([sentinel])
    os._exit(1)
