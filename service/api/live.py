"""Live samples for people to look at: the newest one, and a stream thinned to what a screen can show.

Thinning keeps the extremes: each frame holds minimum and maximum of every joint over its span, so that a
short peak is seen at any frame rate. It is a view, not a record; recordings keep every sample.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.streaming.ring import RingError, RingReader
from core.streaming.samples import (
    STATUS_EMERGENCY_STOP,
    STATUS_FAULT,
    STATUS_MOVING,
    STATUS_PROGRAM_RUNNING,
    STATUS_PROTECTIVE_STOP,
    STATUS_SENSOR_SATURATED,
    SampleBlock,
)
from service.api.models import Envelope, Frame, RobotStatus, SampleView
from service.api.robot_status import status_etag
from service.api.sse import Event
from service.devices import DeviceStatus

LARGEST_RATE = 50.0
"""Frames per second; more than that no eye follows."""

FLAGS: Mapping[int, str] = {
    STATUS_MOVING: "moving",
    STATUS_PROGRAM_RUNNING: "program-running",
    STATUS_PROTECTIVE_STOP: "protective-stop",
    STATUS_EMERGENCY_STOP: "emergency-stop",
    STATUS_FAULT: "fault",
    STATUS_SENSOR_SATURATED: "sensor-saturated",
}


class Signal(StrEnum):
    """What a sample holds for each joint."""

    Q = "q"
    QD = "qd"
    CURRENT = "current"
    TORQUE = "torque"
    TARGET_Q = "target_q"
    TARGET_QD = "target_qd"
    TARGET_CURRENT = "target_current"
    TARGET_TORQUE = "target_torque"


def latest_sample(status: DeviceStatus) -> SampleView | None:
    """Return the robot's newest sample, None when there is none. Reads shared memory; for a thread."""
    if status.ring_path is None:
        return None
    try:
        with RingReader.open(status.ring_path) as reader:
            reader.read(reader.head, 0)  # loads the copying kernel, which takes a while in a fresh process
            block = reader.latest(1)
    except RingError:  # the host is being restarted, its ring is gone or not yet there
        return None
    if block.size == 0:
        return None
    sample = block[0]
    return SampleView(
        sequence=int(sample["sequence"]),
        controller_time=float(sample["controller_time"]),
        age_ms=(time.monotonic_ns() - int(sample["receive_time"])) * 1e-6,
        flags=_flags(int(sample["status"])),
        signals={name: _numbers(sample[name]) for name in Signal},
    )


async def live_events(
    look: Callable[[], RobotStatus],
    rate_hz: float,
    signals: Sequence[Signal],
) -> AsyncGenerator[Event]:
    """Yield ``samples`` events ``rate_hz`` times a second, and ``status`` events when ``look()`` shows a change.

    Starts at the newest sample and goes over to a new ring when the device host was restarted.
    """
    ring: _FollowedRing | None = None
    shown = ""
    try:
        due = time.monotonic()
        while True:
            status = look()
            if status_etag(status) != shown:
                shown = status_etag(status)
                yield Event("status", status)
            if ring is not None and ring.epoch != status.device.ring_epoch:
                ring.close()
                ring = None
            if ring is None:
                ring = await asyncio.to_thread(_FollowedRing.open, status.device)
            frame = None if ring is None else ring.frame(signals)
            if frame is not None:
                yield Event("samples", frame)
            due = max(due + 1.0 / rate_hz, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
    finally:
        if ring is not None:
            ring.close()


class _FollowedRing:
    """A ring and how far it has been looked at."""

    def __init__(self, reader: RingReader) -> None:
        self.epoch = reader.epoch
        self._reader = reader
        self._position = reader.head
        self._lapped = 0
        self._reader.read(self._position, 0)  # loads the copying kernel here, off the event loop

    @classmethod
    def open(cls, status: DeviceStatus) -> _FollowedRing | None:
        """Return the robot's ring, None while there is none."""
        path: Path | None = status.ring_path
        if path is None or status.ring_epoch is None:
            return None
        try:
            reader = RingReader.open(path)
        except RingError:
            return None
        if reader.epoch != status.ring_epoch:  # the status is older or newer than the file; look again
            reader.close()
            return None
        return cls(reader)

    def frame(self, signals: Sequence[Signal]) -> Frame | None:
        """Summarise what is new; None when nothing is."""
        read = self._reader.read(self._position, self._reader.capacity)
        self._position = read.next_position
        self._lapped += read.lapped
        if read.samples.size == 0:
            return None
        lapped, self._lapped = self._lapped, 0
        return _frame(read.samples, lapped, signals)

    def close(self) -> None:
        self._reader.close()


def _frame(samples: SampleBlock, lapped: int, signals: Sequence[Signal]) -> Frame:
    last = samples[-1]
    return Frame(
        sequence=int(last["sequence"]),
        controller_time=float(last["controller_time"]),
        samples=samples.size,
        lost=int(samples["lost"].sum()),
        lapped=lapped,
        flags=_flags(int(np.bitwise_or.reduce(samples["status"]))),
        signals={signal.value: _envelope(samples[signal.value]) for signal in signals},
    )


def _envelope(values: NDArray[np.float64]) -> Envelope:
    # fmin and fmax pass over NaN, and say nothing where a joint has nothing else.
    return Envelope(minimum=_numbers(np.fmin.reduce(values, axis=0)), maximum=_numbers(np.fmax.reduce(values, axis=0)))


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]


def _flags(bits: int) -> list[str]:
    return [name for bit, name in FLAGS.items() if bits & bit]
