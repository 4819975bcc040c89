"""The ring: every sample exactly, or an exact count of those overwritten; also across processes that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.streaming.ring import RingError, RingReader, RingWriter
from core.streaming.samples import JOINT_FIELDS, sample_dtype

CAPACITY = 32


def block(first: int, count: int, n_joints: int = 2, lost: int = 0) -> np.ndarray[Any, Any]:
    """Samples whose every field repeats their number, so that a torn copy shows."""
    samples = np.zeros(count, sample_dtype(n_joints))
    number = np.arange(first, first + count)
    samples["sequence"] = number
    samples["lost"] = lost
    for name in JOINT_FIELDS:
        samples[name] = number[:, None]
    return samples


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "robot.ring"


def test_samples_come_back_whole_and_in_order(path: Path) -> None:
    with RingWriter.create(path, 2, CAPACITY) as writer, RingReader.open(path) as reader:
        assert (reader.head, reader.tail, reader.last_write_ns) == (0, 0, 0)
        assert writer.push(block(0, 20)) == 20
        assert writer.push(block(20, 20, lost=3)) == 40
        assert (reader.head, reader.tail, reader.lost) == (40, 8, 60)
        assert reader.last_write_ns > 0
        read = reader.read(10, 100)
        assert (read.next_position, read.lapped) == (40, 0)
        np.testing.assert_array_equal(read.samples[:10], block(10, 10))
        np.testing.assert_array_equal(read.samples[10:], block(20, 20, lost=3))
        assert reader.read(40, 100).samples.size == 0
        assert reader.latest(5)["sequence"].tolist() == [35, 36, 37, 38, 39]
        assert reader.latest(1000).size == CAPACITY


operations = st.lists(st.tuples(st.integers(0, CAPACITY), st.integers(0, CAPACITY + 5)), max_size=30)


@settings(max_examples=60, deadline=None)
@given(operations=operations)
def test_every_sample_is_read_or_counted_as_lapped(
    operations: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("ring") / "robot.ring"
    with RingWriter.create(path, 2, CAPACITY) as writer, RingReader.open(path) as reader:
        position = written = 0
        for push, limit in operations:
            writer.push(block(written, push))
            written += push
            read = reader.read(position, limit)
            lapped = max(0, written - CAPACITY - position)
            count = min(limit, written - position - lapped)
            assert read.lapped == lapped
            np.testing.assert_array_equal(read.samples, block(position + lapped, count))
            position += lapped + count
            assert read.next_position == position


def test_positions_of_another_ring_are_refused(path: Path) -> None:
    with RingWriter.create(path, 2, CAPACITY), RingReader.open(path) as reader:
        with pytest.raises(RingError, match="not within") as refused:
            reader.read(1, 1)
        assert refused.value.code == "ring-position"


def test_blocks_that_cannot_be_held_are_refused(path: Path) -> None:
    with RingWriter.create(path, 2, CAPACITY) as writer:
        with pytest.raises(RingError, match="do not fit"):
            writer.push(block(0, CAPACITY + 1))
        with pytest.raises(RingError, match="2 joints"):
            writer.push(block(0, 1, n_joints=3))
    with pytest.raises(RingError, match="capacity"):
        RingWriter.create(path, 2, 0)


def test_a_ring_larger_than_the_memory_is_refused_and_leaves_nothing(path: Path) -> None:
    with pytest.raises(RingError, match="no room") as refused:
        RingWriter.create(path, 6, 1 << 45)
    assert refused.value.code == "ring-no-room"
    assert list(path.parent.iterdir()) == []


def test_there_is_one_writer(path: Path) -> None:
    with RingWriter.create(path, 2, CAPACITY):
        with pytest.raises(RingError, match="another process") as refused:
            RingWriter.create(path, 2, CAPACITY)
        assert refused.value.code == "ring-in-use"
        assert [p.name for p in path.parent.iterdir()] == ["robot.ring"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not a ring"),
        (b"#!/bin/sh\necho this is no ring of samples\n" * 10, "not a ring"),
        (b"DYNRING7" + bytes(100), "layout b'7'"),
        (b"DYNRING1" + bytes(5000), "contradicts"),
    ],
)
def test_what_is_not_a_ring_is_said_so(path: Path, content: bytes, problem: str) -> None:
    path.write_bytes(content)
    with pytest.raises(RingError, match=problem):
        RingReader.open(path)


def test_foreign_files_are_neither_read_nor_replaced(path: Path) -> None:
    with pytest.raises(RingError, match="there is no ring"):
        RingReader.open(path)
    path.write_text("precious")
    with pytest.raises(RingError, match="not a ring"):
        RingWriter.create(path, 2, CAPACITY)
    assert path.read_text() == "precious"


WRITER = """
    import sys
    import numpy as np
    from core.streaming.ring import RingWriter
    from core.streaming.samples import JOINT_FIELDS, sample_dtype

    path, capacity, rounds, size = sys.argv[1], *map(int, sys.argv[2:])
    from pathlib import Path
    writer = RingWriter.create(Path(path), 6, capacity)
    blocks = np.zeros((rounds, size), sample_dtype(6))
    number = np.arange(rounds * size).reshape(rounds, size)
    blocks["sequence"] = number
    for name in JOINT_FIELDS:
        blocks[name] = number[:, :, None]
    print("ready", flush=True)
    sys.stdin.readline()
    for block in blocks:
        writer.push(block)
    print("written", flush=True)
    sys.stdin.readline()
"""


def start_writer(path: Path, capacity: int, rounds: int, size: int) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(WRITER),
        str(path),
        str(capacity),
        str(rounds),
        str(size),
    ]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    return writer


def tell(writer: subprocess.Popen[str]) -> None:
    assert writer.stdin is not None
    writer.stdin.write("go\n")
    writer.stdin.flush()


def finish(writer: subprocess.Popen[str]) -> None:
    writer.kill()
    writer.communicate()


def test_no_copy_is_torn_while_another_process_writes_as_fast_as_it_can(path: Path) -> None:
    """The ring is so small that the writer laps the reader all the time."""
    rounds, size = 4000, 25
    writer = start_writer(path, 200, rounds, size)
    try:
        with RingReader.open(path) as reader:
            tell(writer)
            position = seen = lapped = 0
            while position < rounds * size:
                read = reader.read(position, 150)
                number = read.samples["sequence"].astype(np.float64)
                for name in JOINT_FIELDS:
                    assert (read.samples[name] == number[:, None]).all()
                first = read.next_position - read.samples.size
                np.testing.assert_array_equal(number, np.arange(first, read.next_position))
                assert read.lapped == first - position
                seen, lapped, position = seen + number.size, lapped + read.lapped, read.next_position
            assert seen + lapped == rounds * size
            assert seen > 0
    finally:
        finish(writer)


def test_a_reader_outlives_a_killed_writer_and_sees_its_successor(path: Path) -> None:
    writer = start_writer(path, 500, 4, 25)
    try:
        tell(writer)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        with RingReader.open(path) as old:
            assert old.writer_pid == writer.pid
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait()
            assert not old.superseded
            with RingWriter.create(path, 6, 500) as successor:
                successor.push(block(0, 3, n_joints=6))
                assert old.superseded
                assert old.read(0, 1000).samples["sequence"].tolist() == list(range(100))
                with RingReader.open(path) as new:
                    assert new.epoch == successor.epoch != old.epoch
                    assert new.head == 3
                successor.unlink()
            assert old.superseded
    finally:
        finish(writer)
