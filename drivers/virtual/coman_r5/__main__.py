"""Run one virtual COMAN R5: ``python -m drivers.virtual.coman_r5 --host 127.0.0.2 --seed 7``.

What it says and when it ends: see ``drivers.virtual.serving``; its requests: see ``faults``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from drivers.virtual import serving
from drivers.virtual.coman_r5.controller import MODEL, Controller
from drivers.virtual.coman_r5.faults import Faults
from drivers.virtual.coman_r5.robot import individual
from drivers.virtual.coman_r5.server import COMMAND_PORT, FEEDBACK_PORT, ControllerServer
from drivers.virtual.ports import Ports


def main(arguments: list[str] | None = None) -> int:
    """Run until told to end; returns the exit code."""
    options = _parser().parse_args(arguments)
    serial = f"R5-{options.seed % 10**6:06d}"

    def prepare(bound: Ports) -> Callable[[], tuple[ControllerServer, serving.Actions]]:
        controller = Controller(individual(options.seed), unlock_delay=options.unlock_delay)

        def make_server() -> tuple[ControllerServer, serving.Actions]:
            server = ControllerServer(controller, bound, serial, options.seed)
            return server, Faults(server).actions

        return make_server

    announcement = {"model": MODEL, "serial": serial, "seed": options.seed}
    ports = (FEEDBACK_PORT, COMMAND_PORT)
    return serving.run("virtual COMAN R5", options.host, ports, prepare, announcement, supervised=options.supervised)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m drivers.virtual.coman_r5", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to listen on")
    parser.add_argument("--seed", type=int, default=0, help="number of the individual robot")
    parser.add_argument("--unlock-delay", type=float, default=5.0, help="s before a protective stop can be released")
    parser.add_argument("--supervised", action="store_true", help="take requests from standard input")
    return parser


if __name__ == "__main__":
    sys.exit(main())
