"""The end of a device host is quick, whatever keeps it waiting."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import pytest

from core.streaming.ring import RingWriter
from drivers.universal_robots.stream import RtdeStreamReader
from service.devices import DeviceSupervisor
from service.devices.acquisition import Acquisition

Supervised = Callable[..., AbstractAsyncContextManager[DeviceSupervisor]]


def test_acquisition_ends_while_a_controller_lets_it_wait(
    loopback_host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It connects, and is not answered for much longer than anybody wants to wait for the end."""
    monkeypatch.setattr("drivers.universal_robots.stream.CONNECT_TIMEOUT", 20.0)
    changes: list[str | None] = []
    with RingWriter.create(tmp_path / "arm.ring", 6, 2048) as ring:
        with closing(socket.create_server((loopback_host, 30004))) as listener:
            source = RtdeStreamReader(loopback_host, 500.0)
            acquisition = Acquisition(source, ring, lambda _: None, lambda: changes.append(acquisition.reason))
            acquisition.start()
            peer, _ = listener.accept()
            begun = time.monotonic()
            acquisition.finish()
            assert time.monotonic() - begun < 3.0
            peer.close()  # ends the wait
        acquisition.join(5.0)
        assert not acquisition.is_alive()
        assert changes == []  # nobody is told any more


def test_a_host_that_is_starting_is_not_waited_for(
    runner: asyncio.Runner, supervised: Supervised, loopback_host: str
) -> None:
    async def run() -> None:
        async with supervised(streaming=False, host=loopback_host) as device:
            while device.status.pid is None:
                await asyncio.sleep(0.001)
            begun = time.monotonic()
            await device.close()
            assert time.monotonic() - begun < 1.0

    runner.run(run())


def test_a_host_whose_controller_says_nothing_ends_soon(
    runner: asyncio.Runner, supervised: Supervised, loopback_host: str
) -> None:
    async def run() -> None:
        with closing(socket.create_server((loopback_host, 30004))):
            async with supervised(streaming=False, host=loopback_host) as device:
                while device.status.reason != "connecting":
                    await asyncio.sleep(0.01)
                begun = time.monotonic()
                await device.close()
                assert time.monotonic() - begun < 4.0

    runner.run(run())
