"""Files that have their name only once they are finished, and a lock while somebody writes them.

The lock (``flock``) is let go by the kernel when its process dies, however it dies: whoever gets the lock of a
``.partial`` knows that its writer is gone.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from core.errors import RecordingError


def partial_path(path: Path) -> Path:
    """The name that the file at ``path`` has until it is finished."""
    return path.with_name(path.name + ".partial")


def create_locked(path: Path) -> int:
    """Create the ``.partial`` of ``path``, durably, and return its locked descriptor.

    Raises
    ------
    RecordingError
        ``recording-exists``: there is a file of that name, finished or not.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _require_free(path)
    try:
        descriptor = os.open(partial_path(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        raise RecordingError(
            f"{path}: is being written, or waits to be salvaged", code="recording-exists", path=str(path)
        ) from None
    try:
        _lock(descriptor, partial_path(path))
        sync_folder(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_locked(path: Path) -> int:
    """Return a locked descriptor of the existing ``.partial`` of ``path``.

    Raises
    ------
    RecordingError
        ``recording-busy``: its writer is alive. ``recording-gone``: there is none (any more).
    """
    partial = partial_path(path)
    try:
        descriptor = os.open(partial, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise RecordingError(f"{partial}: does not exist", code="recording-gone", path=str(partial)) from None
    try:
        _lock(descriptor, partial)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def publish(path: Path, descriptor: int) -> None:
    """Put the locked ``.partial`` on the disk and give it its name. Raises ``recording-exists``."""
    os.fsync(descriptor)
    _require_free(path)
    partial_path(path).rename(path)
    sync_folder(path)


def sync_folder(path: Path) -> None:
    """Put the names in the folder of ``path`` on the disk."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _require_free(path: Path) -> None:
    if path.exists():
        raise RecordingError(f"{path}: there is a file of that name already", code="recording-exists", path=str(path))


def _lock(descriptor: int, partial: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RecordingError(f"{partial}: is being written", code="recording-busy", path=str(partial)) from None
    try:
        same = partial.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        same = False
    if not same:  # its writer finished between our opening and our locking it
        raise RecordingError(f"{partial}: has just been finished", code="recording-gone", path=str(partial))
