"""Run one virtual UR10e: ``python -m drivers.virtual.ur10e --host 127.0.0.2 --seed 7``.

What it says and when it ends: see ``drivers.virtual.serving``; its requests: see ``ur_controller.faults``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from drivers.virtual import serving
from drivers.virtual.plant_parameters import controller_model, perturbed_plant
from drivers.virtual.ports import Ports
from drivers.virtual.ur_controller import port_numbers
from drivers.virtual.ur_controller.controller import MODEL, Controller, Identity
from drivers.virtual.ur_controller.faults import Faults
from drivers.virtual.ur_controller.server import ControllerServer


def main(arguments: list[str] | None = None) -> int:
    """Run until told to end; returns the exit code."""
    options = _parser().parse_args(arguments)
    identity = Identity(options.version, f"{options.seed % 10**10:010d}")

    def prepare(bound: Ports) -> Callable[[], tuple[ControllerServer, serving.Actions]]:
        model = controller_model(options.model)
        plant = perturbed_plant(model, options.seed)
        controller = Controller(model, plant, identity, unlock_delay=options.unlock_delay)

        def make_server() -> tuple[ControllerServer, serving.Actions]:
            server = ControllerServer(controller, bound)
            return server, Faults(server).actions

        return make_server

    announcement = {"model": MODEL, "serial": identity.serial, "seed": options.seed}
    return serving.run(
        "virtual UR10e", options.host, port_numbers.ALL, prepare, announcement, supervised=options.supervised
    )


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


if __name__ == "__main__":
    sys.exit(main())
