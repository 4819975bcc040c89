"""The service's end of the line to a host, with the other end in the test's hand."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time

import pytest

from service.devices.link import HostLink
from service.devices.messages import MotionProgress, line


def test_what_came_while_the_service_was_held_up_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit has passed and the words are there: the service was silent, not the host."""
    monkeypatch.setattr("service.devices.link.SILENCE_LIMIT", 0.3)

    def said(time: float) -> bytes:
        return line(MotionProgress(motion_id="m", fraction=0.5, time=time))

    async def run() -> None:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        process = subprocess.Popen(["sleep", "60"], stderr=subprocess.PIPE, text=True)
        link = HostLink("cell1", process, reader, writer)
        heard = link.messages()
        try:
            theirs.sendall(said(1.0))
            assert await anext(heard) == MotionProgress(motion_id="m", fraction=0.5, time=1.0)
            second = asyncio.ensure_future(anext(heard))
            await asyncio.sleep(0.05)  # it waits by now
            time.sleep(0.5)  # holds up the whole process
            theirs.sendall(said(2.0))
            assert await second == MotionProgress(motion_id="m", fraction=0.5, time=2.0)
            with pytest.raises(StopAsyncIteration):
                await anext(heard)
        finally:
            theirs.close()
            how = await link.close()
        assert how == "the device host said nothing for 0.3 s and was ended"

    asyncio.run(run())
