"""``dynid drive-gains``: drive gains of a robot from recorded files with and without a payload of known mass."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import InputError
from service.cli.options import parse_friction, parse_gains, parse_signals, read_recordings
from service.cli.outputs import check_output, write_and_show

FRICTION = "arctan+load(2, drive)+hysteresis"
"""What a gear loses of the load it moves looks like a smaller gain, unless friction has a place for it."""


def drive_gains(
    loaded: Annotated[list[str], typer.Option("--with", help="FILE or FILE:first-last with the payload.")],
    unloaded: Annotated[
        list[str], typer.Option("--without", help="FILE or FILE:first-last without it, best of the same motion.")
    ],
    model: Annotated[str, typer.Option(help="Robot model: a URDF or TOML file, or a catalogue name.")],
    payload_mass: Annotated[float, typer.Option(help="kg, as weighed.")],
    payload_com: Annotated[
        tuple[float, float, float] | None,
        typer.Option(help="Its centre of mass in the last joint frame, m, where known: gains get surer."),
    ] = None,
    gains: Annotated[
        list[str] | None,
        typer.Option(help="Nominal gains in N·m/A, one per joint, or 'from-recording'. Absent: the model's."),
    ] = None,
    format: Annotated[str, typer.Option(help="Format of the files, as of 'dynid identify'.")] = "mcap",
    columns: Annotated[Path | None, typer.Option(help="Column map of csv files, as of 'dynid identify'.")] = None,
    rotor_inertia: Annotated[bool, typer.Option("--rotor-inertia", help="The arm has rotor inertias too.")] = False,
    friction: Annotated[
        list[str] | None,
        typer.Option(help=f"Friction of the arm, as of 'dynid identify'; by default {FRICTION}."),
    ] = None,
    signals: Annotated[
        list[str] | None, typer.Option(help="Signal processing as NAME=VALUE, as of 'dynid identify'.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Drop bad rows, as of 'dynid identify'.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result to this file.")] = None,
) -> None:
    """Estimate drive gains, with their uncertainty, from runs with and without a known payload."""
    from rich.console import Console

    from core.models import resolve
    from core.pipelines.identify import identify
    from core.pipelines.paired_drive_gains import from_paired_runs, known_payload

    check_output("--json", json_file)
    console = Console()
    known = known_payload(payload_mass, payload_com)
    robot = resolve(model, rotor_inertia=rotor_inertia)
    nominal = parse_gains(gains, robot.n_joints)
    if nominal is None and robot.drive_gains is None:
        raise InputError("nominal drive gains are needed to begin with: give --gains, or a model that knows them")
    bare, carrying = (read_recordings(sources, format, columns, repair=repair) for sources in (unloaded, loaded))
    with Console(stderr=True).status("identifying the arm"):
        arm = identify(
            robot,
            bare,
            gains=nominal,
            friction=parse_friction(friction or [FRICTION]),
            signals=parse_signals(signals),
        )
    with Console(stderr=True).status("comparing the runs"):
        document = from_paired_runs(arm, carrying, bare, known).to_document()
    write_and_show(console, json_file, document, partial(_print, console, document))


def _print(console: Any, document: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(title="drive gains [N·m/A]")
    for heading in ("joint", "nominal", "gain", "standard deviation"):
        table.add_column(heading, justify="left" if heading == "joint" else "right")
    rows = (document[key] for key in ("joint_names", "nominal", "gains", "std"))
    for j, (name, nominal, gain, std) in enumerate(zip(*rows, strict=True), 1):
        table.add_row(f"{j} {name.removesuffix('_joint')}", f"{nominal:.3f}", _figure(gain), _figure(std))
    console.print(table)
    for warning in document["warnings"]:
        console.print(f"[yellow]note:[/yellow] {warning}")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
