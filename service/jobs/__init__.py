"""Work that takes longer than a request: moving, recording, identifying, validating, building tables.

Names are imported when they are first used: a worker process imports this package before it has limited
NumPy's threads, which is only possible as long as NumPy is not loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.jobs.engine import JobEngine
    from service.jobs.pool import WorkerPool

__all__ = ["JobEngine", "WorkerPool"]


def __getattr__(name: str) -> Any:
    if name == "JobEngine":
        from service.jobs.engine import JobEngine  # noqa: PLC0415

        return JobEngine
    if name == "WorkerPool":
        from service.jobs.pool import WorkerPool  # noqa: PLC0415

        return WorkerPool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
