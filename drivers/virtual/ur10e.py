"""Run one virtual UR10e: ``python -m drivers.virtual.ur10e --host 127.0.0.2 --seed 7``.

Prints one JSON line when clients can connect, ``{"ready": true, ...}``, or ``{"ready": false, "code": ...,
"detail": ...}`` and exits with 69 where it cannot start. Runs until SIGINT or SIGTERM; with ``--supervised``
also until standard input closes, and then reads requests from there (see ``ur_controller.faults``).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from core.errors import DynidError
from drivers.virtual.plant_parameters import controller_model, perturbed_plant
from drivers.virtual.ur_controller import ports
from drivers.virtual.ur_controller.controller import MODEL, Controller, Identity
from drivers.virtual.ur_controller.faults import Faults
from drivers.virtual.ur_controller.server import ControllerServer

EXIT_CANNOT_START = 69  # EX_UNAVAILABLE


_PRIORITY = 20  # of SCHED_FIFO


def main(arguments: list[str] | None = None) -> int:
    """Run until told to end; returns the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=f"virtual UR10e {options.host}: %(message)s")
    try:
        with ports.Ports(options.host) as bound:
            controller = _controller(options)
            # what lives now lives to the end: a collection that walked it would cost a control cycle
            gc.collect()
            gc.freeze()
            asyncio.run(_serve(controller, bound, options))
    except DynidError as error:
        _say({"ready": False, "code": error.code, "detail": error.detail, **error.context})
        return EXIT_CANNOT_START
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m drivers.virtual.ur10e", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to listen on")
    parser.add_argument("--seed", type=int, default=0, help="number of the individual robot")
    parser.add_argument("--model", type=Path, help="model file the controller believes in (default: catalogue)")
    parser.add_argument("--version", type=_version, default="5.25.1.0", help="controller version to report")
    parser.add_argument("--unlock-delay", type=float, default=5.0, help="s before a protective stop unlocks")
    parser.add_argument("--supervised", action="store_true", help="take requests from standard input")
    return parser


def _version(text: str) -> tuple[int, int, int, int]:
    major, minor, bugfix, build = (int(part) for part in text.split("."))
    return major, minor, bugfix, build


def _controller(options: argparse.Namespace) -> Controller:
    model = controller_model(options.model)
    identity = Identity(options.version, f"{options.seed % 10**10:010d}")
    plant = perturbed_plant(model, options.seed)
    return Controller(model, plant, identity, unlock_delay=options.unlock_delay)


async def _serve(controller: Controller, bound: ports.Ports, options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    server = ControllerServer(controller, bound)
    await server.start()
    realtime = _become_realtime()
    try:
        if options.supervised:
            await _supervise(server, ended)
        _say(
            {
                "ready": True,
                "host": options.host,
                "ports": list(bound.sockets),
                "pid": os.getpid(),
                "model": MODEL,
                "serial": controller.identity.serial,
                "seed": options.seed,
                "realtime": realtime,
            }
        )
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


async def _supervise(server: ControllerServer, ended: asyncio.Event) -> None:
    """Answer requests on standard input; its end means that whoever started this robot is gone."""
    faults = Faults(server)

    class Requests(asyncio.Protocol):
        def __init__(self) -> None:
            self._buffer = b""

        def data_received(self, data: bytes) -> None:
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                _say(faults.handle(line.decode(errors="replace")))

        def connection_lost(self, exc: Exception | None) -> None:
            ended.set()

    await asyncio.get_running_loop().connect_read_pipe(Requests, sys.stdin)


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
