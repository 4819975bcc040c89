"""The folders the service works in, and the lock that keeps a second service out of them."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.settings import ConfigurationError, Settings
from service.storage import recordings

LOCK_FILE = "service.lock"


@contextmanager
def own_folders(settings: Settings) -> Iterator[None]:
    """Make data and runtime folder (mode 0700) and hold them for this process.

    Raises
    ------
    ConfigurationError
        ``data-dir-in-use`` when another service works in it; ``configuration-invalid`` when a folder cannot
        be made, is not writable, or the runtime folder is somebody else's.
    """
    _make(settings.data_dir, "data_dir")
    _make(settings.runtime_path, "runtime_dir")
    _require_private(settings.runtime_path)
    _make(settings.data_dir / recordings.FOLDER, "data_dir")
    descriptor = _open_lock(settings.data_dir / LOCK_FILE)
    try:
        _lock(descriptor, settings.data_dir)
        yield
        shutil.rmtree(settings.runtime_path, ignore_errors=True)  # rings and job folders of an orderly end
    finally:
        os.close(descriptor)  # and with it the lock, which the kernel also ends when the process is killed


def _make(folder: Path, key: str) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{key}: cannot make {folder}: {error.strerror}", path=str(folder)) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigurationError(f"{key}: {folder} is not writable for this user", path=str(folder))


def _require_private(folder: Path) -> None:
    """Shared memory is a place where anybody may have made a folder of that name before."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise ConfigurationError(
            f"runtime_dir: {folder} belongs to somebody else or others may write in it; "
            "remove it or set another runtime_dir",
            path=str(folder),
        )


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"data_dir: cannot open {path}: {error.strerror}", path=str(path)) from error


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise ConfigurationError(f"data_dir: cannot lock {folder}: {error.strerror}") from error
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
        raise ConfigurationError(
            f"data_dir: another service (process {holder}) works in {folder}; stop it or set another data_dir",
            code="data-dir-in-use",
            path=str(folder),
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
