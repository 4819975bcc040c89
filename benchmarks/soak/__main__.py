"""Run a soak and print what clients waited for: ``python -m benchmarks.soak --seconds 60``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.soak.pollers import Heard
from benchmarks.soak.run import (
    FLOOD_CLIENTS,
    HTTP_CLIENTS,
    HTTP_RATE,
    MODBUS_CLIENTS,
    MODBUS_RATE,
    Soaked,
    soak,
)
from benchmarks.soak.scene import RATES


def _table(soaked: Soaked, seconds: float) -> Table:
    before, after = soaked.load
    title = (
        f"{seconds:g} s on {os.cpu_count()} processors, load average {before:.1f} before and {after:.1f} after; "
        f"{soaked.identified} identifications meanwhile"
    )
    table = Table(title=title)
    for heading in ("clients", "polls per second", "p50 [ms]", "p99 [ms]", "most [ms]", "wrong"):
        table.add_column(heading, justify="left" if heading == "clients" else "right")

    def add(clients: str, heard: Heard) -> None:
        latencies = (f"{heard.percentile(q):.2f}" for q in (50, 99, 100))
        table.add_row(clients, f"{heard.rate:.0f}", *latencies, str(heard.wrong))

    add(f"{HTTP_CLIENTS} over HTTP, each {HTTP_RATE:g} Hz", soaked.http)
    add(f"{MODBUS_CLIENTS} over Modbus, each {MODBUS_RATE:g} Hz", soaked.modbus)
    add(f"{FLOOD_CLIENTS} over HTTP, as fast as they are answered", soaked.flood)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--hosts", nargs=2, default=("127.0.20.1", "127.0.20.2"), help="loopback addresses of robots")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dynid-soak-") as folder:
        soaked = soak(Path(folder), tuple(arguments.hosts), arguments.seconds)
    console = Console()
    console.print(_table(soaked, arguments.seconds))
    lost = 0
    for robot, recorded in soaked.recorded.items():
        lost += recorded["lost"]
        console.print(
            f"{robot}: {recorded['samples']} samples at {RATES[robot]:g} Hz, {recorded['lost']} lost "
            f"({soaked.left_out[robot]} left out by the virtual controller)"
        )
    sys.exit(1 if lost or soaked.http.wrong or soaked.modbus.wrong else 0)


if __name__ == "__main__":
    main()
