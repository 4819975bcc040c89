"""``dynid demo``: service and virtual robot started, the whole way gone, everything checked."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.outputs import check_output, write_json

if TYPE_CHECKING:
    from service.demo.robots import DemoRobot


def demo(
    robot: Annotated[str, typer.Option(help="ur10e or coman_r5.")] = "ur10e",
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
    """From a virtual robot to a feedforward table: excite, record, identify, validate, feed forward."""
    from rich.console import Console

    from service.demo import report
    from service.demo.robots import demo_robot

    chosen = demo_robot(robot)
    check_output("--json", json_file)
    console = Console()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="dynid-demo-") as scratch:
        outcome, truth = _run(console, chosen, Path(scratch), data_dir, robot_host, port, seed)
    verdicts = report.checks(outcome, chosen, truth)
    report.show(console, outcome, chosen, truth, verdicts)
    seconds = time.perf_counter() - started
    if json_file is not None:
        document = report.as_document(outcome, chosen, truth, verdicts, seconds, seed)
        write_json(json_file, document)
        console.print(f"written to {json_file}")
    console.print(f"{seconds:.0f} s")
    if not all(check.passed for check in verdicts):
        raise typer.Exit(1)


def _run(
    console: Any, robot: DemoRobot, scratch: Path, data_dir: Path | None, robot_host: str, port: int, seed: int
) -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from drivers.virtual.process import VirtualComanR5, VirtualUR10e
    from service.client import Client
    from service.demo import flow, truth
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

        virtual = VirtualComanR5 if robot.key == "coman_r5" else VirtualUR10e
        with virtual(robot_host, seed):
            progress("start the service", 0.0)
            with demo_service(data_dir or scratch, robot, robot_host, port, progress) as service:
                console.print(f"service at {service.url}, {robot.label} at {robot_host}")
                with Client(service.url, service.api_key) as client:
                    outcome = flow.run(client, robot, progress)
        progress("compare with the plant's truth", 0.0)
        return outcome, truth.compare(outcome.torque, robot, seed)
