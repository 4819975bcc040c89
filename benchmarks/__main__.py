"""Run every benchmark and print what they come to: one table beside peers, one of excitation methods."""

from __future__ import annotations

import argparse
import os
import platform

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # one core, like the peers; read when numpy is imported

from rich.console import Console
from rich.table import Table

from benchmarks import dynamics, estimation, excitation, modbus, parallel_robot
from benchmarks.comparison import Comparison

BENCHMARKS = (dynamics.run, parallel_robot.run, estimation.run)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _row(comparison: Comparison) -> tuple[str, ...]:
    theirs, difference = comparison.theirs, comparison.difference
    return (
        comparison.task,
        _duration(comparison.ours),
        _duration(theirs),
        "-" if theirs is None else f"{theirs / comparison.ours:.1f} x",
        "-" if difference is None else f"{difference:.1e}",
        comparison.peer,
        comparison.remark,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="long budgets for excitation: ten minutes more")
    full = parser.parse_args().full
    table = Table(title=f"dynid side by side ({platform.machine()}, {os.cpu_count()} CPUs)")
    for heading in ("task, per sample", "dynid", "peer", "quicker", "difference", "peer's name", "remark"):
        table.add_column(heading, justify="left" if "peer's" in heading or heading == "remark" else "right")
    for benchmark in BENCHMARKS:
        for comparison in benchmark():
            table.add_row(*_row(comparison))
    console = Console()
    console.print(table)
    console.print(modbus.run())
    for shown in excitation.run(full=full):
        console.print(shown)


if __name__ == "__main__":
    main()
