"""One ADS process per computer and PLC: a file that whoever has the link keeps locked."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from drivers.contract import DriverError


class HostLock:
    """Held from `acquire` to `release`, or to the end of the process."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._path = Path(tempfile.gettempdir()) / f"dynid-ads-{host.replace(':', '-')}.lock"
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, if it is not held already.

        Raises
        ------
        DriverError
            ``ads-in-use``: another process has it.
        """
        while self._descriptor is None:
            self._descriptor = self._try()

    def _try(self) -> int | None:
        """Lock the file; None when whoever had it before has removed it meanwhile."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:  # made by another user
            raise self._in_use("another user's process") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise self._in_use(f"process {holder}") from error
        if os.fstat(descriptor).st_nlink == 0:
            os.close(descriptor)
            return None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return descriptor

    def release(self) -> None:
        """Give it back; harmless when it is not held."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def _in_use(self, by: str) -> DriverError:
        return DriverError(
            f"{self._host}: {by} of this computer is connected to the PLC already ({self._path}), and a PLC's router "
            "serves one connection per computer; end that process",
            code="ads-in-use",
            host=self._host,
            lock=str(self._path),
        )
