"""From controller time stamps to a sequence whose gaps are all counted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drivers.contract import DriverProtocolError

# Over a new connection both clocks must agree on how long it took, or the controller was restarted.
CLOCK_TOLERANCE = 2.0  # s


class SequenceCounter:
    """Numbers samples by their time stamps, over lost connections and restarts of the controller.

    A number is the controller's time in sample periods. After a restart the controller's clock begins anew;
    the numbers then go on where this host's clock says they should. So they always increase, and what is
    missing is counted still, to the accuracy of that estimate.
    """

    def __init__(self, rate_hz: float) -> None:
        self.restarts = 0
        self.repeated = 0
        self._rate = rate_hz
        self._offset = 0  # periods added to the controller's clock
        self._sequence: int | None = None  # of the last sample
        self._stamp = 0.0
        self._receive_time = 0
        self._new_connection = True

    def new_connection(self) -> None:
        """Say that the next sample is the first of a new connection."""
        self._new_connection = True

    def number(self, stamps: NDArray[np.float64], receive_time: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return sequence and lost, each (m,), for time stamps (m,) in s that arrived at ``receive_time`` ns.

        ``lost`` is -1 for a sample that repeats the one before it.

        Raises
        ------
        DriverProtocolError
            The time stamps run backwards within one connection.
        """
        periods = np.rint(stamps * self._rate).astype(np.int64)
        if self._sequence is None:
            self._sequence = int(periods[0]) - 1
        elif self._new_connection:
            self._follow_restart(int(periods[0]), float(stamps[0]), receive_time)
        self._new_connection = False
        sequence = periods + self._offset
        lost = np.empty_like(sequence)
        lost[0] = sequence[0] - self._sequence - 1
        lost[1:] = np.diff(sequence) - 1
        smallest = int(lost.min())
        if smallest < -1:
            raise DriverProtocolError(f"time stamps run backwards after {self._stamp:.4f} s")
        if smallest == -1:
            self.repeated += int((lost == -1).sum())
        self._sequence = int(sequence[-1])
        self._stamp = float(stamps[-1])
        self._receive_time = receive_time
        return sequence, lost

    def _follow_restart(self, periods: int, stamp: float, receive_time: int) -> None:
        """Shift the numbers if the controller's clock did not run on while there was no connection."""
        elapsed = (receive_time - self._receive_time) * 1e-9
        if stamp > self._stamp and abs(stamp - self._stamp - elapsed) <= CLOCK_TOLERANCE:
            return
        assert self._sequence is not None  # noqa: S101 - only called then
        self.restarts += 1
        self._offset = self._sequence + max(1, round(elapsed * self._rate)) - periods
