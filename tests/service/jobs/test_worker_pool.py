import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

import pytest

from core.errors import MotionLimitError
from service.jobs.pool import WorkerPool
from service.jobs.worker import CANCEL_FILE, PROGRESS_FILE, TaskStoppedError, run_task

PATIENCE = 60.0
"""How long anything here may take on an overloaded machine, s: events are waited for, not timed."""


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool(1)
    yield pool
    pool.shutdown()


def wait_for(path: Path, seconds: float = PATIENCE) -> str:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)
    return path.read_text()


def alive(pid: int) -> bool:
    """Whether any thread of the process runs; one that has ended may wait as a zombie for whoever reaps it."""
    stats = []
    for thread in Path("/proc").glob(f"{pid}/task/*/stat"):
        with suppress(OSError):  # it has just ended
            stats.append(thread.read_text())
    return any(stat.rpartition(")")[2].split()[0] != "Z" for stat in stats)


def until_dead(pid: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while alive(pid):
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.01)


# --- what the workers run: module level, so that it can be pickled ---------------------------------------


def threads_after_numerics(_channel) -> tuple[int, str]:
    import numpy as np

    a = np.ones((400, 400))
    a @ a
    return len(list(Path("/proc/self/task").iterdir())), os.environ["OPENBLAS_NUM_THREADS"]


def refuse(_channel, joint: int) -> None:
    raise MotionLimitError(f"joint {joint} too fast", joint=joint)


def until_stopped(channel, pid_file: str | None = None) -> None:
    if pid_file is not None:
        Path(pid_file).with_suffix(".tmp").write_text(str(os.getpid()))
        Path(pid_file).with_suffix(".tmp").rename(pid_file)
    for _ in range(3000):
        channel.report(0.5, "still at it")
        time.sleep(0.01)


def deaf(_channel, pid_file: str) -> None:
    until_stopped(type("Silent", (), {"report": lambda *_: None})(), pid_file)


class UnsendableError(Exception):
    """Can be raised, but not be sent to another process."""

    def __reduce__(self) -> tuple:
        raise TypeError("not to be pickled")


class UnreadableError(Exception):
    """Can be sent, but not be made again at the other end."""

    def __init__(self, joint: int, axis: str) -> None:
        super().__init__("only one argument is kept")


def raise_it(error: type[Exception], *args: object) -> None:
    raise error(*args)


def exit_at_once() -> None:
    os._exit(3)


# ---------------------------------------------------------------------------------------------------------


def test_a_worker_computes_on_one_thread(pool: WorkerPool, tmp_path: Path) -> None:
    threads, variable = pool.submit(run_task, threads_after_numerics, tmp_path, {}).result()
    assert variable == "1"
    assert threads == 2  # the computation, and the one that ends the process with its parent


def test_errors_arrive_whole_and_leave_the_worker_alive(pool: WorkerPool, tmp_path: Path) -> None:
    pid = pool.submit(os.getpid).result()
    with pytest.raises(MotionLimitError) as refused:
        pool.submit(run_task, refuse, tmp_path, {"joint": 3}).result()
    assert (refused.value.code, refused.value.context) == ("motion-outside-limits", {"joint": 3})
    assert pool.submit(os.getpid).result() == pid


def test_what_cannot_be_sent_fails_its_task_and_nothing_else(pool: WorkerPool) -> None:
    pid = pool.submit(os.getpid).result()
    for future, error, text in (
        (pool.submit(lambda: None), Exception, "pickle"),  # the call
        (pool.submit(threading.Lock), TypeError, "pickle"),  # the result
        (pool.submit(raise_it, UnsendableError), RuntimeError, "cannot be passed on"),
        (pool.submit(raise_it, UnreadableError, 1, "x"), TypeError, "missing 1 required positional argument"),
    ):
        with pytest.raises(error, match=text):
            future.result(timeout=PATIENCE)
    assert pool.submit(os.getpid).result(timeout=PATIENCE) == pid


def test_an_error_brings_the_worker_s_traceback(pool: WorkerPool) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        pool.submit(raise_it, ZeroDivisionError, "no").result(timeout=PATIENCE)
    assert "in raise_it" in caught.value.__notes__[0]


def test_a_worker_that_dies_again_and_again_fails_each_task_once(pool: WorkerPool) -> None:
    futures = [pool.submit(exit_at_once) for _ in range(3)]
    for future in futures:
        with pytest.raises(BrokenExecutor):
            future.result(timeout=PATIENCE)
    assert pool.submit(os.getpid).result(timeout=PATIENCE) != os.getpid()


def test_callbacks_may_use_the_pool(pool: WorkerPool) -> None:
    """What deadlocked on Python 3.12: a callback of a broken future that needs the executor again."""
    followed: SimpleQueue[Future[int]] = SimpleQueue()
    broken = pool.submit(exit_at_once)
    broken.add_done_callback(lambda _: followed.put(pool.submit(os.getpid)))
    assert followed.get(timeout=PATIENCE).result(timeout=PATIENCE) != os.getpid()


def test_progress_can_be_read_and_a_task_stopped(pool: WorkerPool, tmp_path: Path) -> None:
    future = pool.submit(run_task, until_stopped, tmp_path, {})
    wait_for(tmp_path / PROGRESS_FILE)
    (tmp_path / CANCEL_FILE).touch()
    with pytest.raises(TaskStoppedError):
        future.result(timeout=PATIENCE)


def test_a_killed_worker_fails_its_own_task_only_and_is_replaced(tmp_path: Path) -> None:
    pool = WorkerPool(2)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    victim = pool.submit(run_task, until_stopped, tmp_path / "a", {"pid_file": str(tmp_path / "victim")})
    bystander = pool.submit(run_task, until_stopped, tmp_path / "b", {"pid_file": str(tmp_path / "bystander")})
    waiting = pool.submit(os.getpid)
    pid = int(wait_for(tmp_path / "victim"))
    wait_for(tmp_path / "bystander")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(BrokenExecutor):
        victim.result(timeout=PATIENCE)
    assert waiting.result(timeout=PATIENCE) != pid
    assert not bystander.done()
    pool.kill(bystander)
    with pytest.raises(BrokenExecutor):
        bystander.result(timeout=PATIENCE)
    pool.kill(bystander)  # over already: nothing to do
    pool.shutdown()


def test_a_worker_killed_while_idle_is_not_noticed_by_the_next_task(pool: WorkerPool) -> None:
    pid = pool.submit(os.getpid).result()
    os.kill(pid, signal.SIGKILL)
    until_dead(pid)
    assert pool.submit(os.getpid).result(timeout=PATIENCE) != pid


def test_shutdown_cancels_what_waits(tmp_path: Path) -> None:
    pool = WorkerPool(1)
    running = pool.submit(run_task, until_stopped, tmp_path, {})
    waiting = pool.submit(os.getpid)
    wait_for(tmp_path / PROGRESS_FILE)
    (tmp_path / CANCEL_FILE).touch()
    pool.shutdown()
    assert isinstance(running.exception(), TaskStoppedError)
    with pytest.raises(CancelledError):
        waiting.result()
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(os.getpid)


ORPHAN = """
import sys, time
from pathlib import Path
from service.jobs.pool import WorkerPool
sys.path.insert(0, {tests!r})
from test_worker_pool import deaf
from service.jobs.worker import run_task
if __name__ == "__main__":
    WorkerPool(1).submit(run_task, deaf, Path({folder!r}), {{"pid_file": {pid_file!r}}})
    time.sleep(60)
"""


def test_workers_do_not_outlive_a_killed_service(tmp_path: Path) -> None:
    script = tmp_path / "service_like.py"
    pid_file = tmp_path / "pid"
    script.write_text(ORPHAN.format(tests=str(Path(__file__).parent), folder=str(tmp_path), pid_file=str(pid_file)))
    service = subprocess.Popen([sys.executable, str(script)], cwd=Path(__file__).parents[3])
    try:
        worker = int(wait_for(pid_file))
    finally:
        service.kill()
        service.wait()
    until_dead(worker)
