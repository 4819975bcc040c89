"""The monitor process beside a ring, and what the service makes of what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from core.models import catalogue
from core.pipelines.drift_monitor import DriftMonitor
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.recordings import Recording
from core.streaming.ring import RingReader, RingWriter
from core.streaming.samples import sample_dtype
from service.monitoring import DriftWatch
from service.monitoring.monitor import _Loop
from service.storage import Database, events, results

RATE = 100.0
BLOCK = 2000
MODEL = catalogue("ur10e")
RATES = np.array([0.9, 1.1, 1.3, 1.7, 1.9, 2.3])
COULOMB = np.array([8.0, 7.0, 5.0, 2.0, 2.0, 1.0])


def moved(start: int, count: int, coulomb: np.ndarray) -> tuple[np.ndarray, ...]:
    """Times, positions, speeds and currents of an arm that sways on and on."""
    t = (start + np.arange(count)) / RATE
    phase = t[:, None] * RATES + np.arange(6.0)
    q, qd = 0.6 * np.sin(phase), 0.6 * RATES * np.cos(phase)
    q += np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
    noise = np.random.default_rng(start).normal(0.0, 0.5, q.shape)
    qdd = -0.6 * RATES**2 * np.sin(phase)
    torque = MODEL.inverse_dynamics(q, qd, qdd) + coulomb * np.sign(qd) + 3.0 * qd + noise
    assert MODEL.drive_gains is not None
    return t, q, qd, torque / MODEL.drive_gains


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    t, q, qd, current = moved(0, 3000, COULOMB)
    return identify(MODEL, [Recording("sway", t, q, qd, current=current)], gains=MODEL.drive_gains).to_document()


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[RingWriter]:
    with RingWriter.create(tmp_path / "cell1.ring", 6, 200_000) as ring:
        yield ring


def push(ring: RingWriter, start: int, seconds: float, coulomb: np.ndarray) -> int:
    """Write so many seconds of motion; return the number of the next sample."""
    end = start + round(seconds * RATE)
    for first in range(start, end, BLOCK):
        count = min(BLOCK, end - first)
        block = np.zeros(count, sample_dtype(6))
        t, block["q"], block["qd"], block["current"] = moved(first, count, coulomb)
        block["controller_time"], block["sequence"], block["torque"] = t, first + 1 + np.arange(count), np.nan
        ring.push(block)
    return end


def test_what_is_missing_or_no_number_begins_the_stream_anew(document: dict[str, Any], ring: RingWriter) -> None:
    monitor = DriftMonitor(Identification.from_document(document), RATE)
    restarts, lengths = [], []
    monitor.restart = lambda: restarts.append(len(lengths))  # type: ignore[method-assign]
    monitor.update = lambda q, *_: lengths.append(len(q)) or ()  # type: ignore[method-assign,func-returns-value]
    with RingReader.open(ring.path) as reader:
        loop = _Loop(monitor, reader)
        block = np.zeros(30, sample_dtype(6))
        block["sequence"] = np.r_[1:11, 15:35]  # four are missing
        block["q"][20:23] = np.nan
        ring.push(block)
        loop._drain()
        more = np.zeros(5, sample_dtype(6))
        more["sequence"] = np.arange(35, 40)
        ring.push(more)
        loop._drain()
        bad = more.copy()
        bad["sequence"], bad["q"] = np.arange(40, 45), np.nan
        ring.push(bad)
        loop._drain()
    assert lengths == [10, 10, 7, 5]
    assert restarts == [1, 2, 2, 4]


def test_the_service_follows_its_monitor(tmp_path: Path, document: dict[str, Any], ring: RingWriter) -> None:
    """It starts when there is something to compare, tells what trips, and starts anew for another result."""
    database = Database(f"sqlite:///{tmp_path / 'dynid.sqlite3'}")
    database.create()
    status = SimpleNamespace(connection="streaming", ring_path=tmp_path / "cell1.ring")
    device: Any = SimpleNamespace(robot=SimpleNamespace(name="cell1", rate_hz=RATE), status=status)

    def put_in_force() -> str:
        with database.session() as session:
            row = results.create(session, robot="cell1", recording_ids=[], settings={}, document=document)
            results.set_validation(session, row.id, {"passed": True})
            return results.activate(session, row.id).id

    async def until(condition: Any) -> None:
        async with asyncio.timeout(60.0):
            while not condition():
                await asyncio.sleep(0.05)

    async def scenario() -> None:
        watch = DriftWatch(device, database, tmp_path)
        task = asyncio.create_task(watch.run())
        first = put_in_force()
        await until(lambda: watch.state is not None)
        assert watch.state is not None
        assert watch.state.result_id == first
        end = await asyncio.to_thread(push, ring, 0, 800.0, COULOMB)
        await until(lambda: watch.state is not None and min(watch.state.learned) == 1.0)
        await asyncio.to_thread(push, ring, end, 100.0, COULOMB * [1, 1, 1.5, 1, 1, 1])
        await until(lambda: watch.state is not None and watch.state.trips > 0)
        assert watch.state.tripped == (3,)
        with database.reading() as session:
            told = events.find(session, kind="drift.tripped")
        assert told
        assert told[0].subject == first
        assert "joint 3 by friction" in told[0].message
        second = put_in_force()
        await until(lambda: watch.state is not None and watch.state.result_id == second)
        assert watch.state.tripped == ()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    try:
        asyncio.run(scenario())
    finally:
        database.close()
