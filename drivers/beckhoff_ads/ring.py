"""Reading the PLC's ring buffer without losing a sample, or knowing exactly how many were lost. No I/O here.

The PLC writes the sample number nSeq into the slot nSeq MOD length and then sets nHead to nSeq + 1. A reader
therefore has what lies before the nHead that it read first; and of that, what the PLC had not begun to overwrite
by the nHead that it read last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivers.contract import DriverProtocolError

WORD = 2**32
TOO_LATE = 1 / 64  # of the ring: what is overwritten that soon cannot be read in time
ROOM = 1 / 8  # of the ring, by which a reader who was too late goes on ahead of what is overwritten next


class RingCursor:
    """Where in the ring of ``length`` slots the reader is; lives as long as the PLC's program."""

    def __init__(self, length: int, head: int) -> None:
        """Begin with the next sample that the PLC will write."""
        self._length = length
        self.next = head
        self.overrun = 0
        """Samples that were overwritten before they could be read."""

    def waiting(self, head: int) -> int:
        """Return how many samples lie before ``head``; negative when the PLC counts from anew."""
        ahead = (head - self.next) % WORD
        return ahead - WORD if ahead >= WORD // 2 else ahead

    def pieces(self, most: int) -> list[tuple[int, int]]:
        """Return first slot and number of slots to read for the next ``most`` samples: one run, or two."""
        first = self.next % self._length
        count = min(most, self._length)
        until_end = min(count, self._length - first)
        pieces = [(first, until_end), (0, count - until_end)]
        return [piece for piece in pieces if piece[1]]

    def catch_up(self, head: int) -> None:
        """Give up what is overwritten, or will be before it can be read; with room enough not to be too late again."""
        left = self._length - self.waiting(head)
        if left < TOO_LATE * self._length:
            self._skip(int(ROOM * self._length) - left)

    def take(self, slots: NDArray[Any], head_before: int, head_after: int) -> NDArray[Any]:
        """Return the samples among ``slots``, which were read at `pieces`, and go on behind them.

        ``head_before`` and ``head_after`` are nHead as read before and after the slots.

        Raises
        ------
        DriverProtocolError
            A slot does not hold the sample it should: this is not the ring.
        """
        records = slots[: max(0, self.waiting(head_before))]
        if records.size == 0:
            return records
        expected = (self.next + np.arange(records.size, dtype=np.int64)) % WORD
        overwritten = min(records.size, max(0, self.waiting(head_after) - self._length + 1))
        whole = records[overwritten:]
        if not np.array_equal(whole["nSeq"], expected[overwritten:]):
            at = int(np.argmax(whole["nSeq"] != expected[overwritten:]))
            raise DriverProtocolError(
                f"the PLC's ring holds sample {whole['nSeq'][at]} where {expected[overwritten + at]} should be"
            )
        self._skip(overwritten)
        self.next = int(self.next + whole.size) % WORD
        return whole

    def _skip(self, count: int) -> None:
        self.next = (self.next + count) % WORD
        self.overrun += count


class CycleCounter:
    """Numbers samples by the PLC's clock in cycles, over lost connections and restarts of its program.

    nSeq tells whether a sample was lost on the way; the clock also tells of cycles that the PLC did not run.
    """

    def __init__(self, cycle: int) -> None:
        self._cycle = cycle  # ns
        self._clock: int | None = None
        self._sequence = 0

    def number(self, clock: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return sequence and lost, each (m,), for samples taken at ``clock`` (m,) ns."""
        times = clock.astype(np.int64)
        first = times[0] - self._cycle if self._clock is None else self._clock
        steps = np.maximum(1, np.rint(np.diff(times, prepend=first) / self._cycle).astype(np.int64))
        sequence = self._sequence + np.cumsum(steps)
        self._clock, self._sequence = int(times[-1]), int(sequence[-1])
        return sequence, steps - 1
