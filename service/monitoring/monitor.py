"""The monitor process: ``python -m service.monitoring.monitor``.

It reads the ring like any other reader, at a low priority, and can delay nobody. Its first line on standard input is
the `MonitorOrder`; it says a `MonitorReport` once a second, and ends when its input does or the ring is another one's.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time

import numpy as np

from core.pipelines.drift_monitor import DriftMonitor
from core.pipelines.identification import Identification
from core.streaming.ring import RingReader
from core.streaming.samples import SampleBlock
from service.monitoring.messages import JointTrip, MonitorOrder, MonitorReport

_LOOK_SECONDS = 0.1
_REPORT_SECONDS = 1.0
_AT_ONCE = 4096
_NICE = 10


def main() -> None:
    os.nice(_NICE)
    order = MonitorOrder.model_validate_json(sys.stdin.readline())
    identified = Identification.from_document(json.loads(order.document.read_text(encoding="utf-8")))
    monitor = DriftMonitor(identified, order.rate)
    with RingReader.open(order.ring) as ring:
        _Loop(monitor, ring).run()


class _Loop:
    def __init__(self, monitor: DriftMonitor, ring: RingReader) -> None:
        self._monitor, self._ring = monitor, ring
        self._position = ring.head
        self._sequence: int | None = None
        self._trips: list[JointTrip] = []

    def run(self) -> None:
        due = 0.0
        while not (self._ring.superseded or _input_ended(_LOOK_SECONDS)):
            self._drain()
            if time.monotonic() >= due or self._trips:
                due = time.monotonic() + _REPORT_SECONDS
                self._report()

    def _drain(self) -> None:
        while True:
            read = self._ring.read(self._position, _AT_ONCE)
            self._position = read.next_position
            if not len(read.samples):
                return
            self._take(read.samples, whole=not read.lapped)

    def _take(self, samples: SampleBlock, *, whole: bool) -> None:
        """Take samples that follow each other; where some are missing, the stream begins anew."""
        sequence = samples["sequence"].astype(np.int64)
        follows = self._sequence is None or sequence[0] == self._sequence + 1
        if not (whole and follows):
            self._monitor.restart()
        self._sequence = int(sequence[-1])
        torque = self._torque(samples)
        usable = np.isfinite(samples["q"]).all(1) & np.isfinite(samples["qd"]).all(1) & np.isfinite(torque).all(1)
        broken = np.flatnonzero(np.diff(sequence) != 1) + 1
        edges = np.union1d(broken, np.flatnonzero(np.diff(usable)) + 1)
        for part in np.split(np.arange(len(sequence)), edges):
            if part[0] > 0 or not usable[part[0]]:
                self._monitor.restart()
            if usable[part[0]]:
                found = self._monitor.update(samples["q"][part], samples["qd"][part], torque[part])
                self._trips += [JointTrip(joint=t.joint + 1, kind=t.kind, torque=t.torque) for t in found]

    def _torque(self, samples: SampleBlock) -> np.ndarray:
        effort = self._monitor.identified.effort
        measured = samples[effort.signal].astype(np.float64)
        return measured if effort.gains is None or effort.signal == "torque" else measured * effort.gains

    def _report(self) -> None:
        report = MonitorReport(trips=self._trips, **self._monitor.to_document())
        self._trips = []
        sys.stdout.write(report.model_dump_json() + "\n")
        sys.stdout.flush()


def _input_ended(seconds: float) -> bool:
    """Wait so long, or until whoever started this process is gone."""
    readable, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(readable) and not os.read(sys.stdin.fileno(), 4096)


if __name__ == "__main__":
    main()
