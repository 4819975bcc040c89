"""Run one virtual 6-UPRU behind a TwinCAT PLC: ``python -m drivers.virtual.upru6 --host 127.0.0.2 --seed 7``.

It listens on the AMS router's TCP port; its AMS net id is the host's address followed by ``.1.1``. What it says and
when it ends: see ``drivers.virtual.serving``; its requests: see ``twincat.faults``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from drivers.virtual import serving
from drivers.virtual.ports import Ports
from drivers.virtual.twincat.ams import PORT
from drivers.virtual.twincat.faults import Faults
from drivers.virtual.twincat.program import Identity, PlcProgram
from drivers.virtual.twincat.server import RUNTIME_PORT, TwinCatServer
from drivers.virtual.upru_parameters import perturbed_upru, upru_model
from drivers.virtual.upru_plant import UpruPlant

MODEL = "6-UPRU VIRTUAL"
SYMBOL_PREFIX = "GVL_Dynid"


def main(arguments: list[str] | None = None) -> int:
    """Run until told to end; returns the exit code."""
    options = _parser().parse_args(arguments)
    identity = Identity(MODEL, f"{options.seed:06d}")
    net_id = f"{options.host}.1.1"

    def prepare(bound: Ports) -> Callable[[], tuple[TwinCatServer, serving.Actions]]:
        machine = UpruPlant(perturbed_upru(upru_model(options.model), options.seed))
        program = PlcProgram(machine, identity, options.symbol_prefix)

        def make_server() -> tuple[TwinCatServer, serving.Actions]:
            server = TwinCatServer(program, bytes(map(int, net_id.split("."))), bound)
            return server, Faults(server).actions

        return make_server

    announcement = {
        "model": MODEL,
        "serial": identity.serial,
        "seed": options.seed,
        "ams_net_id": net_id,
        "ams_port": RUNTIME_PORT,
        "symbol_prefix": options.symbol_prefix,
    }
    return serving.run("virtual 6-UPRU", options.host, (PORT,), prepare, announcement, supervised=options.supervised)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m drivers.virtual.upru6", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to listen on")
    parser.add_argument("--seed", type=int, default=0, help="number of the individual robot")
    parser.add_argument("--model", type=Path, help="model file that is believed in (default: catalogue)")
    parser.add_argument("--symbol-prefix", default=SYMBOL_PREFIX, help="global variable list of the PLC program")
    parser.add_argument("--supervised", action="store_true", help="take requests from standard input")
    return parser


if __name__ == "__main__":
    sys.exit(main())
