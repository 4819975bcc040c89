"""The device host's acquisition thread: source -> ring, connected again whenever the connection is lost."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from core.streaming.ring import RingWriter
from core.streaming.samples import SampleBlock
from drivers.contract import ConnectionLost, ControllerInfo, DriverError, SampleSource
from service.devices.messages import Connection

STALE_AFTER = 0.2  # s without a sample
RECONNECT_AFTER = 2.0  # s without a sample, on a connection that seems to be open
FIRST_RETRY, LAST_RETRY = 0.1, 2.0  # s between attempts, doubling
FINISH_TIMEOUT = 1.0  # s; a read ends sooner, connecting may take much longer
PRIORITY = 30  # of SCHED_FIFO

_log = logging.getLogger(__name__)


class Acquisition(threading.Thread):
    """Runs until `finish`; an unreachable controller is a state with a reason, and is tried again.

    Parameters
    ----------
    source : where samples come from; used by this thread only.
    ring : where they go; written by this thread only.
    on_samples : called by this thread with every block, after it is in the ring; must be quick.
    on_change : called by this thread when ``connection`` or ``reason`` has changed.
    """

    def __init__(
        self,
        source: SampleSource,
        ring: RingWriter,
        on_samples: Callable[[SampleBlock], None],
        on_change: Callable[[], object],
    ) -> None:
        super().__init__(name="acquisition", daemon=True)
        self.connection: Connection = "starting"
        self.reason: str | None = "connecting"
        self.info: ControllerInfo | None = None
        self.realtime = "not started"
        self.last_sample: float | None = None  # time.monotonic() of the newest
        self._source = source
        self._ring = ring
        self._on_samples = on_samples
        self._on_change = on_change
        self._finish = threading.Event()

    @property
    def sample_age(self) -> float | None:
        """Time since the newest sample came, s; None before the first."""
        return None if self.last_sample is None else time.monotonic() - self.last_sample

    def finish(self) -> None:
        """End the thread and wait for it, but not for a controller that keeps it waiting while it connects.

        It touches nothing after that: what it would stream, tell or try again, it does not any more.
        """
        self._finish.set()
        if self.is_alive():
            self.join(FINISH_TIMEOUT)

    def run(self) -> None:
        self.realtime = ask_for_priority(PRIORITY)
        retry = FIRST_RETRY
        while not self._finish.is_set():
            try:
                self.info = self._source.connect()
                self._take_notices()
                retry = FIRST_RETRY
                self._stream()
            except DriverError as error:
                self._become("disconnected", error.detail)
            finally:
                self._source.close()
            self._take_notices()
            self._finish.wait(retry)
            retry = min(2.0 * retry, LAST_RETRY)

    def _stream(self) -> None:
        silent_since = time.monotonic()
        while not self._finish.is_set():
            block = self._source.read(STALE_AFTER)
            now = time.monotonic()
            if block is not None:
                silent_since = self.last_sample = now
                self._ring.push(block)
                self._on_samples(block)
                self._become("streaming", None)
                self._take_notices()
            elif now - silent_since > RECONNECT_AFTER:
                raise ConnectionLost(f"the controller has sent no sample for {now - silent_since:.1f} s")
            else:
                self._become("stale", f"the controller has sent no sample for more than {STALE_AFTER} s")
                self._take_notices()

    def _become(self, connection: Connection, reason: str | None) -> None:
        if (connection, reason) == (self.connection, self.reason) or self._finish.is_set():
            return
        if connection != self.connection:
            _log.info("%s%s", connection, f": {reason}" if reason else "")
        self.connection, self.reason = connection, reason
        self._take_notices()
        self._on_change()

    def _take_notices(self) -> None:
        for notice in self._source.take_notices():
            _log.warning("%s", notice)


def ask_for_priority(priority: int) -> str:
    """Ask the kernel to prefer this thread; the answer is shown in the status, a refusal is no error.

    What the thread starts, threads and processes, is not preferred.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    except OSError as error:
        return f"refused ({error.strerror}); samples may be late under load"
    return f"SCHED_FIFO {priority}"
