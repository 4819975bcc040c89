"""What every benchmark returns: one comparison per line of the table."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """One task done by this project and by a peer, with the same result.

    Attributes
    ----------
    task : what is computed.
    ours, theirs : best time per item, s; ``theirs`` is None where the peer is not installed.
    peer : its name, version and how it is called.
    difference : largest absolute difference of the two results, None without a peer.
    remark : what a reader must know to judge the figures.
    """

    task: str
    ours: float
    theirs: float | None
    peer: str
    difference: float | None
    remark: str = ""


def best_time(task: Callable[[], object], *, items: int, repeats: int = 15) -> float:
    """Return the shortest of several runs, per item, in s: the run that other programs disturbed least."""
    shortest = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest / items
