"""How a virtual robot's process runs: it says when it is ready, takes requests, and ends in good order.

It prints one JSON line when clients can connect, ``{"ready": true, ...}``, or ``{"ready": false, "code": ...,
"detail": ...}`` and exits with `EXIT_CANNOT_START`. It runs until SIGINT or SIGTERM; when it is supervised also
until standard input closes, and then reads requests from there, one JSON object per line.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from core.errors import DynidError
from drivers.virtual.ports import Ports

EXIT_CANNOT_START = 69  # EX_UNAVAILABLE
_PRIORITY = 20  # of SCHED_FIFO


class RobotServer(Protocol):
    """Serves one robot on its ports. Made on a running loop."""

    failed: asyncio.Future[None]
    """Gets the exception when the simulation breaks down."""

    async def start(self) -> None: ...
    def close(self) -> None: ...


Actions = Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]]
"""What a robot can be asked for besides what its real counterpart offers (faults, counters), by name."""


def answer(line: str, actions: Actions) -> dict[str, Any]:
    """Carry out one request, ``{"do": name, ...}``, and return its answer.

    ``{"ok": true, ...}``, or ``{"ok": false, "detail": "..."}`` where it cannot be carried out.
    """
    try:
        request = json.loads(line)
        return {"ok": True, **actions[request["do"]](request)}
    except (ValueError, KeyError, TypeError) as error:
        return {"ok": False, "detail": f"cannot carry out {line.strip()!r}: {error!r}"}


def run(
    label: str,
    host: str,
    ports: Iterable[int],
    prepare: Callable[[Ports], Callable[[], tuple[RobotServer, Actions]]],
    announcement: Mapping[str, Any],
    *,
    supervised: bool,
) -> int:
    """Run a robot until told to end; returns the exit code.

    ``prepare`` does what is slow and returns what makes the server, and what that can be asked for; the
    ``announcement`` is said when it is ready.
    """
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=f"{label} {host}: %(message)s")
    try:
        with Ports(host, ports) as bound:
            make_server = prepare(bound)
            # what lives now lives to the end: a collection that walked it would cost a control cycle
            gc.collect()
            gc.freeze()
            ready = {"host": host, "ports": list(bound.sockets), "pid": os.getpid(), **announcement}
            asyncio.run(_serve(make_server, ready, supervised=supervised))
    except DynidError as error:
        _say({"ready": False, "code": error.code, "detail": error.detail, **error.context})
        return EXIT_CANNOT_START
    return 0


async def _serve(
    make_server: Callable[[], tuple[RobotServer, Actions]], ready: Mapping[str, Any], *, supervised: bool
) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    server, actions = make_server()
    await server.start()
    realtime = _become_realtime()
    try:
        if supervised:
            await _supervise(actions, ended)
        _say({"ready": True, **ready, "realtime": realtime})
        end = asyncio.ensure_future(ended.wait())
        await asyncio.wait((end, server.failed), return_when=asyncio.FIRST_COMPLETED)
        if server.failed.done():
            end.cancel()
            await server.failed
        server.failed.cancel()
    finally:
        server.close()


def _become_realtime() -> bool:
    """Run before ordinary processes, as far as this user may: a real controller never waits for a busy host.

    Without it, cycles that come late on a busy machine look like set-points that jump, and end in a
    protective stop. Below the priority of acquisition and motion.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except PermissionError:
        return False
    return True


async def _supervise(actions: Actions, ended: asyncio.Event) -> None:
    """Answer requests on standard input; its end means that whoever started this robot is gone."""

    class Requests(asyncio.Protocol):
        def __init__(self) -> None:
            self._buffer = b""

        def data_received(self, data: bytes) -> None:
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                _say(answer(line.decode(errors="replace"), actions))

        def connection_lost(self, exc: Exception | None) -> None:
            ended.set()

    await asyncio.get_running_loop().connect_read_pipe(Requests, sys.stdin)


def _say(document: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
