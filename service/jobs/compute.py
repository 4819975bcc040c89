"""The service's end of a computation: sends it to the executor, follows its progress, ends it when asked."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path
from typing import Any

from service.jobs.live import StopSignal
from service.jobs.pool import WorkerPool
from service.jobs.worker import CANCEL_FILE, PROGRESS_FILE, Task, TaskStoppedError, run_task

POLL_SECONDS = 0.1
"""How often progress is read: a stat of a file in memory."""

GRACE_SECONDS = 0.5
"""How long a computation that was asked to end may take to do so, before its worker is killed: what takes longer is
not worth waiting for, and a job ends within a second of being cancelled.
"""

KILL_SECONDS = 3.0
"""How long the end of a worker that was killed may take to be seen."""

OnProgress = Callable[[float, str], None]


class WorkerLostError(Exception):
    """The worker process ended under the computation: killed, out of memory, or crashed."""


async def compute(
    executor: Executor,
    folder: Path,
    task: Task,
    arguments: dict[str, Any],
    *,
    stop: StopSignal,
    on_progress: OnProgress,
    grace: float = GRACE_SECONDS,
) -> Any:
    """Run ``task(channel, **arguments)`` in a worker and return its result.

    Parameters
    ----------
    folder : of this computation alone; made here and removed in the end.
    grace : s that it may take to end once the job was asked to stop.

    Raises
    ------
    JobStoppedError
        The job was asked to stop and the task has returned nothing; it is over by then. What a task does return
        within ``grace`` is not thrown away: whoever computes looks at the signal afterwards.
    WorkerLostError
        Its worker process ended.
    Exception
        Whatever the task raised.
    """
    stop.raise_if_requested()
    await asyncio.to_thread(folder.mkdir, parents=True)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        future = executor.submit(run_task, task, folder, arguments)
        done = asyncio.wrap_future(future)
        while not done.done():
            await asyncio.wait({done, stopping}, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            _pass_on(folder / PROGRESS_FILE, on_progress)
            if stopping.done() and not done.done():
                await _end(executor, future, done, folder, grace)
                if not _has_result(done):
                    stop.raise_if_requested()
        return done.result()
    except TaskStoppedError:
        stop.raise_if_requested()
        raise
    except BrokenExecutor as error:
        stop.raise_if_requested()
        raise WorkerLostError(
            "the worker process ended abruptly: killed, out of memory, or crashed in native code"
        ) from error
    finally:
        stopping.cancel()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _end(executor: Executor, future: Future[Any], done: asyncio.Future[Any], folder: Path, grace: float) -> None:
    """End the computation: take it back if it waits, else ask it, else kill its worker."""
    if future.cancel():
        return
    (folder / CANCEL_FILE).touch()
    await asyncio.wait({done}, timeout=grace)
    if not done.done() and isinstance(executor, WorkerPool):
        executor.kill(future)
    await asyncio.wait({done}, timeout=KILL_SECONDS)


def _has_result(done: asyncio.Future[Any]) -> bool:
    """Whether it has ended well; whatever else has happened to it, the job ends because it was asked to."""
    return done.done() and not done.cancelled() and done.exception() is None


def _pass_on(file: Path, on_progress: OnProgress) -> None:
    try:
        progress = json.loads(file.read_bytes())
    except FileNotFoundError:
        return
    on_progress(progress["fraction"], progress["message"])
