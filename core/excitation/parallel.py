"""Several searches at a time in an executor, exchanging the best so far."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
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
    """A file whose absence asks searches to end, in whatever process they run. It may be asked at every step.

    So they end too when whoever started them is gone and has cleaned up.
    """

    def __init__(self, file: Path) -> None:
        file.touch()
        self._file = file
        self._looked, self._raised = float("-inf"), False

    def raise_it(self) -> None:
        self._file.unlink(missing_ok=True)

    def __call__(self) -> bool:
        now = time.monotonic()
        if not self._raised and now - self._looked >= _POLL:
            self._looked, self._raised = now, not self._file.exists()
        return self._raised


Task = Callable[[float, int, list[Array], Callable[[], bool]], Found]
"""(seconds, seed, coefficients to begin with, asked whether to stop) -> found; picklable."""


@dataclass
class ParallelSearch:
    """So many searches at a time, until time is up.

    At first each goes on with its own best, which differ, and only borrows from the others'; in the end all go on with
    the best.

    Attributes
    ----------
    workers : searches at a time.
    budget : s.
    warm : coefficients to begin with.
    slice_length : s that a search runs before it hears of the others; None = all the time.
    """

    task: Task
    executor: Executor
    workers: int
    budget: float
    seed: int
    warm: list[Array]
    stop: Callable[[], bool]
    slice_length: float | None

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"at least one worker is needed, got {self.workers}")
        self._seeds = np.random.SeedSequence(self.seed)
        self._running: dict[Future[Found], tuple[float, int]] = {}
        self._best: Found | None = None
        self._own_best: list[Found | None] = [None] * self.workers
        self._history: list[tuple[float, float]] = []
        self._candidates = 0
        self._failure: InfeasibleError | BrokenExecutor | None = None

    def run(self, on_progress: OnProgress) -> Found:
        """Search, and return the best with the history of all.

        Raises
        ------
        InfeasibleError
            No search has found anything; ``excitation-stopped`` where they had no time to.
        InputError
            A process that searched has died, and nothing had been found.
        """
        self._started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="dynid-search-") as folder:
            self._flag = StopFlag(Path(folder) / "go-on")
            self._search(on_progress)
        if self._best is None:
            raise self._nothing()
        return Found(self._best.x, self._best.value, self._history, self._candidates)

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _search(self, on_progress: OnProgress) -> None:
        for worker in range(self.workers):
            self._submit(worker)
        while self._running:
            done, _ = wait(self._running, timeout=_POLL, return_when=FIRST_COMPLETED)
            for future in done:
                self._take(future)
            value = None if self._best is None else self._best.value
            on_progress(Progress(self._elapsed, self.budget, value, 0.0, self._candidates))
            if self.stop():
                self._flag.raise_it()  # those that run come back with what they have

    def _nothing(self) -> InfeasibleError | InputError:
        """Say why nothing was found."""
        if isinstance(self._failure, InfeasibleError):
            return self._failure
        if self._failure is not None:
            return InputError(
                f"a process that searched died before anything was found: {self._failure}", code="worker-died"
            )
        return InfeasibleError("the design was stopped before it had found anything", code="excitation-stopped")

    def _submit(self, worker: int) -> None:
        elapsed, own = self._elapsed, self._own_best[worker]
        seconds = self.budget - elapsed
        unseen = own is None and bool(self.warm)  # what was given to begin with is looked at in any case
        if seconds <= 0.0 or self._failure is not None or (self.stop() and not unseen):
            return
        if self.slice_length is not None:
            seconds = min(seconds, max(_SLICE_LIMITS[0], min(self.slice_length, _SLICE_LIMITS[1])))
        known = sorted((found for found in self._own_best if found is not None), key=lambda found: found.value)
        if own is not None and elapsed < _APART * self.budget:
            known.sort(key=lambda found: found is not own)
        begin = [found.x for found in known] if known else self.warm
        own_seed = int(self._seeds.spawn(1)[0].generate_state(1)[0])
        try:
            future = self.executor.submit(self.task, seconds, own_seed, begin, self._flag)
        except BrokenExecutor as error:
            self._failure = error
            return
        self._running[future] = elapsed, worker

    def _take(self, future: Future[Found]) -> None:
        begun, worker = self._running.pop(future)
        try:
            found = future.result()
        except InfeasibleError as error:  # in this slice; what the others have found stays
            self._failure = None if self._best is not None else error
            return
        except BrokenExecutor as error:
            self._failure = error
            return
        self._candidates += found.candidates
        own = self._own_best[worker]
        if own is None or found.value < own.value:
            self._own_best[worker] = found
        if self._best is None or found.value < self._best.value:
            self._best = found
            least = self._history[-1][1] if self._history else np.inf
            self._history += [(begun + when, value) for when, value in found.history if value < least]
        self._submit(worker)
