"""Worker processes behind the ``concurrent.futures`` interface, each replaceable on its own.

A ``ProcessPoolExecutor`` fails every task it holds when one worker dies. Here each worker has a pool of
its own, so a worker that is killed, or has to be, takes only its own task with it and is replaced
before the next one.
"""

from __future__ import annotations

import logging
import multiprocessing
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from service.jobs.worker import initialise

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class _Call:
    future: Future[Any]
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class WorkerPool(Executor):
    """``size`` spawned worker processes, started when first needed. Calls beyond that wait in order."""

    def __init__(self, size: int) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._lock = threading.RLock()  # callbacks may run inside submit, on the same thread
        self._idle = [self._new_worker() for _ in range(size)]
        self._waiting: deque[_Call] = deque()
        self._busy: dict[Future[Any], ProcessPoolExecutor] = {}
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run ``fn(*args, **kwargs)`` in a worker. The future fails with BrokenExecutor if that one dies."""
        call = _Call(Future(), fn, args, kwargs)
        with self._lock:
            if self._closed:
                raise RuntimeError("the worker pool is closed")
            self._waiting.append(call)
        self._dispatch()
        return call.future

    def kill(self, future: Future[Any]) -> None:
        """Kill the worker that runs ``future``; a task that still waits or has ended is left alone."""
        with self._lock:
            worker = self._busy.get(future)
            processes = [] if worker is None else list((worker._processes or {}).values())
        for process in processes:
            process.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """Take no more calls and let the running ones end; those that wait are always cancelled."""
        del cancel_futures  # of the interface; whoever shuts the service down has nobody left to tell
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
            workers = [*self._idle, *self._busy.values()]
            self._idle = []
        for call in waiting:
            call.future.cancel()
        for worker in workers:
            worker.shutdown(wait=wait)

    def _new_worker(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=self._context, initializer=initialise)

    def _dispatch(self) -> None:
        """Give waiting calls to idle workers."""
        while True:
            with self._lock:
                if not self._waiting or not self._idle:
                    return
                call = self._waiting.popleft()
                if not call.future.set_running_or_notify_cancel():
                    continue
                worker = self._idle.pop()
                self._busy[call.future] = worker
            self._start(worker, call)

    def _start(self, worker: ProcessPoolExecutor, call: _Call) -> None:
        try:
            inner = worker.submit(call.function, *call.args, **call.kwargs)
        except BrokenExecutor:  # it died while idle: nothing of this call was done yet
            worker = self._replace(worker)
            with self._lock:
                self._busy[call.future] = worker
            inner = worker.submit(call.function, *call.args, **call.kwargs)
        inner.add_done_callback(lambda done: self._finish(worker, call, done))

    def _finish(self, worker: ProcessPoolExecutor, call: _Call, done: Future[Any]) -> None:
        error = done.exception()
        if isinstance(error, BrokenExecutor):
            worker = self._replace(worker)
        with self._lock:
            del self._busy[call.future]
            if not self._closed:
                self._idle.append(worker)
        if error is None:
            call.future.set_result(done.result())
        else:
            call.future.set_exception(error)
        self._dispatch()

    def _replace(self, worker: ProcessPoolExecutor) -> ProcessPoolExecutor:
        log.warning("a worker process ended abruptly; it is replaced")
        worker.shutdown(wait=False)
        return self._new_worker()
