"""The controller's clock as this host sees it: servo points are wanted by that one, and the two drift apart."""

from __future__ import annotations

import time

from core.streaming.samples import SampleBlock

FORGETTING = 1e-3  # s/s; clocks drift by a tenth of that at most


class ControllerClock:
    """Tells the controller's time from stamps that arrive late by varying amounts: the earliest are believed."""

    def __init__(self) -> None:
        self._offset: float | None = None
        self._updated = 0.0

    def update(self, block: SampleBlock) -> None:
        """Take note of samples that have just been read."""
        received = 1e-9 * float(block["receive_time"][-1])
        offset = float(block["controller_time"][-1]) - received
        if self._offset is not None:
            offset = max(offset, self._offset - FORGETTING * (received - self._updated))
        self._offset, self._updated = offset, received

    def now(self) -> float:
        """Return the controller's time, s; valid after the first `update`."""
        return time.monotonic() + (self._offset or 0.0)
