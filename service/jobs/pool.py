"""Worker processes behind the ``concurrent.futures`` interface, each replaceable on its own.

A ``ProcessPoolExecutor`` fails every task it holds when one worker dies, and cannot end a task that runs.
Here each worker has a thread that does nothing but hand it one call after the other over a pipe, so a worker
that is killed, or has to be, takes only its own task with it and is replaced before the next one.
"""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from service.jobs.worker import serve

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class _Call:
    future: Future[Any]
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class WorkerPool(Executor):
    """``size`` spawned worker processes, started when first needed. Calls beyond that wait in order."""

    def __init__(self, size: int) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()  # None: one thread shall end
        self._running: dict[Future[Any], _Worker] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._threads = [threading.Thread(target=self._work, name=f"worker {k}", daemon=True) for k in range(size)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run ``fn(*args, **kwargs)`` in a worker. The future fails with BrokenExecutor if that one dies."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the worker pool is closed")
            self._calls.put(_Call(future, fn, args, kwargs))
        return future

    def kill(self, future: Future[Any]) -> None:
        """Kill the worker that runs ``future``; a task that still waits or has ended is left alone."""
        with self._lock:  # as long as it is held, that worker is given no other call
            worker = self._running.get(future)
            if worker is not None:
                worker.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """Take no more calls and let the running ones end; those that wait are always cancelled."""
        del cancel_futures  # of the interface; whoever shuts the service down has nobody left to tell
        with self._lock:
            if not self._closed:
                self._closed = True
                with suppress(Empty):
                    while (call := self._calls.get_nowait()) is not None:
                        call.future.cancel()
                for _ in self._threads:
                    self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        """Hand one worker its calls (a thread of its own)."""
        worker = None
        while (call := self._calls.get()) is not None:
            if not call.future.set_running_or_notify_cancel():
                continue
            try:
                if worker is not None and not worker.usable:
                    log.warning("a worker process ended abruptly; it is replaced")
                    worker.close()
                    worker = None
                worker = worker or _Worker()
                result = self._run(worker, call)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is the future's
                call.future.set_exception(error)
            else:
                call.future.set_result(result)
            del call  # keep nobody's arguments alive while waiting
        if worker is not None:
            worker.close()

    def _run(self, worker: _Worker, call: _Call) -> Any:
        request = pickle.dumps((call.function, call.args, call.kwargs))
        with self._lock:
            self._running[call.future] = worker
        try:
            answer = worker.exchange(request)
        finally:
            with self._lock:
                del self._running[call.future]
        result, error, text = pickle.loads(answer)  # noqa: S301 - from our own child
        if error is None:
            return result
        error.add_note(text)
        raise error


class _Worker:
    """One worker process and the service's end of the pipe to it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        with theirs:  # the only other copy is the worker's, so that the pipe ends with it
            # A daemon is ended when this process exits with calls still running.
            self._process = context.Process(target=serve, args=(theirs,), name="dynid worker", daemon=True)
            self._process.start()
        self._broken = False

    @property
    def usable(self) -> bool:
        """Whether it lives; between calls it says nothing, so all that can be read then is the pipe's end."""
        return not self._broken and not self._connection.poll()

    def exchange(self, request: bytes) -> bytes:
        """Send a call and wait for its outcome; raise BrokenExecutor when the worker dies."""
        try:
            self._connection.send_bytes(request)
            return self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            self._broken = True
            raise BrokenExecutor("the worker process ended abruptly") from error

    def kill(self) -> None:
        self._broken = True
        self._process.kill()

    def close(self) -> None:
        """End the process and wait for that; between calls there is nothing it could lose."""
        self._connection.close()
        self._process.kill()
        self._process.join()
