"""Recording: a process of its own per recording, its handle in the service, and salvage at start-up."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.recording.handle import RecorderHandle
    from service.recording.messages import RecorderProgress, RecordingHeader, RecordingSummary
    from service.recording.rescue import Salvaged, salvage, salvage_recording

__all__ = [
    "RecorderHandle",
    "RecorderProgress",
    "RecordingHeader",
    "RecordingSummary",
    "Salvaged",
    "salvage",
    "salvage_recording",
]

_HOMES = {
    "RecorderHandle": "handle",
    "RecorderProgress": "messages",
    "RecordingHeader": "messages",
    "RecordingSummary": "messages",
    "Salvaged": "rescue",
    "salvage": "rescue",
    "salvage_recording": "rescue",
}


def __getattr__(name: str) -> Any:
    """Load on first use: the recorder process imports this package, and needs no asyncio and no database."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
