from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from core.streaming.ring import RingWriter
from core.streaming.samples import JOINT_FIELDS, SampleBlock, sample_dtype
from service.storage import Database

RATE = 1000  # samples per second that a feeder writes
N_JOINTS = 6


def make_samples(first: int, count: int) -> SampleBlock:
    """Samples whose every value follows from their number, so that any of them can be checked."""
    samples = np.zeros(count, sample_dtype(N_JOINTS))
    number = first + np.arange(count)
    samples["sequence"] = 5000 + number
    samples["controller_time"] = 10.0 + number / RATE
    samples["receive_time"] = time.monotonic_ns()
    for place, name in enumerate(JOINT_FIELDS):
        samples[name] = (number + place / 10)[:, None]
    return samples


class Feeder(threading.Thread):
    """Writes numbered samples into a ring in real time, like a device host does."""

    def __init__(self, path: Path, capacity: int = 60 * RATE) -> None:
        super().__init__(name="feeder", daemon=True)
        self.ring = RingWriter.create(path, N_JOINTS, capacity)
        self.path = path
        self.worst_delay = 0.0  # s: how much later than meant the machine let this thread run
        self._halt = threading.Event()
        self._advanced = threading.Condition()

    @property
    def head(self) -> int:
        return self.ring.head

    def run(self) -> None:
        begin = before = time.monotonic()
        while not self._halt.wait(0.005):
            now = time.monotonic()
            self.worst_delay = max(self.worst_delay, now - before - 0.005)
            before = now
            self.push(int((now - begin) * RATE) - self.head)

    def push(self, count: int) -> None:
        with self._advanced:
            if count > 0:
                self.ring.push(make_samples(self.head, count))
            self._advanced.notify_all()

    def wait_for(self, position: int) -> None:
        """Return once the head has reached ``position``."""
        with self._advanced:
            assert self._advanced.wait_for(lambda: self.head >= position, timeout=20)

    @staticmethod
    def samples(first: int, count: int) -> SampleBlock:
        """The samples of these numbers."""
        return make_samples(first, count)

    def stop(self) -> None:
        self._halt.set()
        if self.is_alive():
            self.join()


@pytest.fixture
def ring_path() -> Iterator[Path]:
    """A name in shared memory: that is where rings are."""
    path = Path("/dev/shm") / f"dynid-test-{os.getpid()}-{secrets.token_hex(4)}"  # noqa: S108
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def make_ring(ring_path: Path) -> Iterator[Callable[[int], Feeder]]:
    """Make a ring of a capacity of one's own; at most one at a time."""
    made: list[Feeder] = []

    def make(capacity: int) -> Feeder:
        made.append(Feeder(ring_path, capacity))
        return made[-1]

    yield make
    for feeder in made:
        feeder.stop()
        feeder.ring.close()


@pytest.fixture
def ring(make_ring: Callable[[int], Feeder]) -> Feeder:
    """A ring that is not fed by itself."""
    return make_ring(60 * RATE)


@pytest.fixture
def feeder(ring: Feeder) -> Feeder:
    """A ring that is fed."""
    ring.start()
    return ring


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'dynid.sqlite3'}")
    database.create()
    yield database
    database.close()
