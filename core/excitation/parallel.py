"""Several searches at a time in an executor, exchanging the best so far."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.excitation.feasibility import InfeasibleError
from core.excitation.search import OnProgress, Progress

Array = NDArray[np.float64]

_POLL = 0.1
_SLICE_LIMITS = (0.5, 10.0)
_APART = 0.6
"""Share of the budget during which each search goes on with its own best."""


@dataclass(frozen=True)
class Found:
    """What one search, perhaps in another process, came to."""

    x: Array
    value: float
    history: list[tuple[float, float]]
    candidates: int


class StopFlag:
    """A file whose existence asks searches to end, in whatever process they run. It may be asked at every step."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._looked, self._raised = float("-inf"), False

    def raise_it(self) -> None:
        self._file.touch()

    def __call__(self) -> bool:
        now = time.monotonic()
        if not self._raised and now - self._looked >= _POLL:
            self._looked, self._raised = now, self._file.exists()
        return self._raised


Task = Callable[[float, int, list[Array], Callable[[], bool]], Found]
"""(seconds, seed, coefficients to begin with, asked whether to stop) -> found; picklable."""


def in_parallel(
    task: Task,
    executor: Executor,
    workers: int,
    budget: float,
    seed: int,
    warm: list[Array],
    on_progress: OnProgress,
    stop: Callable[[], bool],
    slice_length: float | None,
) -> Found:
    """Keep so many searches running until time is up.

    ``slice_length`` (s) is how long a search runs before it hears of the others; None = all the time. At first each
    goes on with its own best, which differ, and only borrows from the others'; in the end all go on with the best.
    """
    if workers < 1:
        raise InputError(f"at least one worker is needed, got {workers}")
    started = time.monotonic()
    seeds = np.random.SeedSequence(seed)
    best: Found | None = None
    history: list[tuple[float, float]] = []
    candidates = 0
    running: dict[Future[Found], tuple[float, int]] = {}
    own_best: list[Found | None] = [None] * workers

    with tempfile.TemporaryDirectory(prefix="dynid-search-") as folder:
        flag = StopFlag(Path(folder) / "stop")

        def submit(worker: int) -> None:
            elapsed = time.monotonic() - started
            seconds = budget - elapsed
            if seconds <= 0.0 or stop():
                return
            if slice_length is not None:
                seconds = min(seconds, max(_SLICE_LIMITS[0], min(slice_length, _SLICE_LIMITS[1])))
            known = sorted((found for found in own_best if found is not None), key=lambda found: found.value)
            own = own_best[worker]
            if own is not None and elapsed < _APART * budget:
                known.sort(key=lambda found: found is not own)
            begin = [found.x for found in known] if known else warm
            own_seed = int(seeds.spawn(1)[0].generate_state(1)[0])
            running[executor.submit(task, seconds, own_seed, begin, flag)] = elapsed, worker

        for worker in range(workers):
            submit(worker)
        while running:
            done, _ = wait(running, timeout=_POLL, return_when=FIRST_COMPLETED)
            for future in done:
                (begun, worker), found = running.pop(future), future.result()
                candidates += found.candidates
                before = own_best[worker]
                if before is None or found.value < before.value:
                    own_best[worker] = found
                if best is None or found.value < best.value:
                    best = found
                    least = history[-1][1] if history else np.inf
                    history += [(begun + when, value) for when, value in found.history if value < least]
                submit(worker)
            value = None if best is None else best.value
            on_progress(Progress(time.monotonic() - started, budget, value, 0.0, candidates))
            if stop():
                flag.raise_it()  # those that run come back with what they have
    if best is None:
        raise InfeasibleError("the design was stopped before it had found anything", kind="stopped")
    return Found(best.x, best.value, history, candidates)
