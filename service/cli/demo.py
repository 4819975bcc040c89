"""``dynid demo``: service and virtual robot started, the whole way gone, everything checked."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.outputs import check_output, write_json

if TYPE_CHECKING:
    from service.demo.report import Report
    from service.demo.robots import DemoRobot


def demo(
    robot: Annotated[str, typer.Option(help="ur10e, coman_r5 or upru6.")] = "ur10e",
    seed: Annotated[int, typer.Option(help="Of the virtual robot's unknown parameters and noise.")] = 7,
    robot_host: Annotated[
        str,
        typer.Option(help="Loopback address of the virtual controller; its ports are fixed by the protocol."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the service; 0 takes a free one.")] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep database and recordings here; otherwise they are removed.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write everything to this file.")] = None,
) -> None:
    """From a virtual robot to a feedforward table: excite, record, identify, validate, feed forward.

    The platform upru6 takes its table back over ADS, and follows the same motion with it and without.
    """
    from rich.console import Console

    from service.demo.report import show_checks
    from service.demo.robots import demo_robot

    chosen = demo_robot(robot)
    check_output("--json", json_file)
    console = Console()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="dynid-demo-") as scratch:
        report = _run(console, chosen, Path(scratch), data_dir, robot_host, port, seed)
    checks = report.checks
    passed = all(check.passed for check in checks)
    report.show(console)
    show_checks(console, checks)
    seconds = time.perf_counter() - started
    if json_file is not None:
        verdicts = [{"name": check.name, "passed": check.passed, "seen": check.seen} for check in checks]
        told = {"passed": passed, "seconds": seconds, "robot": chosen.key, "seed": seed, "checks": verdicts}
        write_json(json_file, told | report.to_document())
        console.print(f"written to {json_file}")
    console.print(f"{seconds:.0f} s")
    if not passed:
        raise typer.Exit(1)


def _run(
    console: Any, robot: DemoRobot, scratch: Path, data_dir: Path | None, robot_host: str, port: int, seed: int
) -> Report:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from drivers.virtual.process import VirtualComanR5, VirtualUpru6, VirtualUR10e
    from service.client import Client
    from service.demo.demonstration import demonstrate
    from service.demo.processes import demo_service

    bar = Progress(
        TextColumn("{task.description:<44}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task(f"start the {robot.label}", total=1.0)

        steps: list[str] = []

        def progress(step: str, fraction: float) -> None:
            bar.update(task, description=step, completed=fraction)
            if not console.is_terminal and step not in steps:  # no bar there, so say each step once
                steps.append(step)
                console.print(step)

        virtual = {"ur10e": VirtualUR10e, "coman_r5": VirtualComanR5, "upru6": VirtualUpru6}[robot.key]
        with virtual(robot_host, seed):
            progress("start the service", 0.0)
            with demo_service(data_dir or scratch, robot, robot_host, port, progress) as service:
                console.print(f"service at {service.url}, {robot.label} at {robot_host}")
                with Client(service.url, service.api_key) as client:
                    return demonstrate(client, robot, seed, progress)
