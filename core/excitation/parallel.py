"""Several searches at a time in an executor, exchanging the best so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.excitation.feasibility import InfeasibleError
from core.excitation.search import OnProgress, Progress

Array = NDArray[np.float64]

_POLL = 0.1
_SLICE_LIMITS = (0.5, 10.0)


@dataclass(frozen=True)
class Found:
    """What one search, perhaps in another process, came to."""

    x: Array
    value: float
    history: list[tuple[float, float]]
    candidates: int


Task = Callable[[float, int, list[Array]], Found]
"""(seconds, seed, coefficients to begin with) -> found; picklable."""


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
    """Keep so many searches running until time is up; each begins where the best so far is.

    ``slice_length`` (s) is how long a search runs before it hears of the others; None = all the time.
    """
    if workers < 1:
        raise InputError(f"at least one worker is needed, got {workers}")
    started = time.monotonic()
    seeds = np.random.SeedSequence(seed)
    best: Found | None = None
    history: list[tuple[float, float]] = []
    candidates = 0
    running: dict[Future[Found], float] = {}

    def submit() -> None:
        elapsed = time.monotonic() - started
        seconds = budget - elapsed
        if seconds <= 0.0 or stop():
            return
        if slice_length is not None:
            seconds = min(seconds, max(_SLICE_LIMITS[0], min(slice_length, _SLICE_LIMITS[1])))
        own = int(seeds.spawn(1)[0].generate_state(1)[0])
        running[executor.submit(task, seconds, own, warm if best is None else [best.x])] = elapsed

    for _ in range(workers):
        submit()
    while running:
        done, _ = wait(running, timeout=_POLL, return_when=FIRST_COMPLETED)
        for future in done:
            begun, found = running.pop(future), future.result()
            candidates += found.candidates
            if best is None or found.value < best.value:
                best = found
                least = history[-1][1] if history else np.inf
                history += [(begun + when, value) for when, value in found.history if value < least]
            submit()
        value = None if best is None else best.value
        on_progress(Progress(time.monotonic() - started, budget, value, 0.0, candidates))
        if best is not None and stop():
            for future in running:
                future.cancel()
            break
    if best is None:
        raise InfeasibleError("the design was stopped before it began", kind="stopped")
    return Found(best.x, best.value, history, candidates)
