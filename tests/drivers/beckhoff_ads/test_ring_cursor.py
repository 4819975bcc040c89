"""Reading a ring that is written meanwhile: what is new, what was overwritten, what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from drivers.beckhoff_ads.ring import WORD, CycleCounter, RingCursor
from drivers.contract import DriverProtocolError
from drivers.twincat_layout import SAMPLE

LENGTH = 256


class Plc:
    """Writes samples as the PLC does."""

    def __init__(self, head: int = 0) -> None:
        self.head = head
        self.ring = np.zeros(LENGTH, SAMPLE.dtype)
        self.ring["nSeq"] = WORD - 1  # nothing that is expected

    def write(self, count: int) -> None:
        for _ in range(count):
            self.ring[self.head % LENGTH]["nSeq"] = self.head
            self.head = (self.head + 1) % WORD

    def read(self, cursor: RingCursor, most: int) -> NDArray[Any]:
        return np.concatenate([self.ring[first : first + count] for first, count in cursor.pieces(most)])


@given(start=st.sampled_from([0, 7, WORD - 300, WORD - 1]), bursts=st.lists(st.integers(0, 400), max_size=20))
def test_every_sample_is_read_or_counted(start: int, bursts: list[int]) -> None:
    plc = Plc(start)
    cursor = RingCursor(LENGTH, start)
    seen: list[int] = []
    for burst in bursts:
        plc.write(burst)
        cursor.catch_up(plc.head)
        seen += cursor.take(plc.read(cursor, LENGTH), plc.head, plc.head)["nSeq"].tolist()
    steps = np.diff([start - 1, *seen]) % WORD
    assert (steps >= 1).all()
    assert len(seen) + cursor.overrun == sum(bursts)
    assert cursor.overrun == (steps - 1).sum()


def test_what_is_overwritten_while_it_is_read_is_not_taken() -> None:
    plc = Plc()
    cursor = RingCursor(LENGTH, 0)
    plc.write(LENGTH - 10)
    before = plc.head
    slots = plc.read(cursor, LENGTH)
    plc.write(30)  # 20 of the slots are new now, and which of them were read so cannot be told
    taken = cursor.take(slots, before, plc.head)
    assert taken["nSeq"][0] == 21
    assert cursor.overrun == 21
    assert cursor.next == before


def test_only_what_lies_before_the_first_head_is_taken() -> None:
    plc = Plc()
    cursor = RingCursor(LENGTH, 0)
    plc.write(5)
    before = plc.head
    plc.write(5)
    assert cursor.take(plc.read(cursor, 10), before, plc.head)["nSeq"].tolist() == [0, 1, 2, 3, 4]


def test_a_ring_that_holds_something_else_is_refused() -> None:
    plc = Plc()
    cursor = RingCursor(LENGTH, 0)
    plc.write(5)
    plc.ring[2]["nSeq"] = 99
    with pytest.raises(DriverProtocolError, match="holds sample 99 where 2 should be"):
        cursor.take(plc.read(cursor, 5), plc.head, plc.head)


def test_a_head_behind_the_reader_tells_of_a_new_program() -> None:
    assert RingCursor(LENGTH, 1000).waiting(3) < 0


def test_samples_are_numbered_by_the_clock_and_the_program_may_begin_anew() -> None:
    counter = CycleCounter(1_000_000)
    second = 10**18
    clock = np.array([0, 1_000_100, 1_999_900, 5_000_000], np.uint64) + np.uint64(second)
    sequence, lost = counter.number(clock)
    assert np.diff(sequence).tolist() == [1, 1, 3]
    assert lost.tolist() == [0, 0, 0, 2]
    later, lost = counter.number(np.array([second + 1_005_000_000], np.uint64))
    assert later[0] - sequence[-1] == 1000
    assert lost.tolist() == [999]
