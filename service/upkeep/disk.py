"""Room for recordings: refused in time rather than cut off in the middle of a motion."""

from __future__ import annotations

import shutil
from pathlib import Path

from core.errors import RecordingError


def free_bytes(folder: Path) -> int:
    """Return what an ordinary user may still write where ``folder`` is."""
    return shutil.disk_usage(folder).free


def require_room(folder: Path, floor: int) -> None:
    """Raise RecordingError ``disk-full`` when less than ``floor`` bytes are free."""
    free = free_bytes(folder)
    if free < floor:
        raise RecordingError(
            f"only {free / 1e9:.2f} GB are free in {folder}, less than the {floor / 1e9:.2f} GB that have to stay free "
            "(disk_floor_bytes); delete or move recordings, or set keep_recordings_days",
            code="disk-full",
            path=str(folder),
            free=free,
            floor=floor,
        )
