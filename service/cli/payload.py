"""``dynid payload``: what a known robot carries, from recorded files or from two results."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import InputError
from service.cli.options import parse_friction, parse_gains, parse_signals, read_recordings, read_result
from service.cli.outputs import check_output, write_and_show

if TYPE_CHECKING:
    from core.recordings.recording import Recording

FRICTION = "arctan+load+hysteresis"
"""A payload changes friction as well: without load dependence its mass comes out wrong by a per cent or so."""
SENSOR_FRICTION = "offset"
"""What a parallel robot's force sensors carry has no friction, but a tare."""


def payload(
    loaded: Annotated[
        list[str] | None, typer.Option(help="FILE or FILE:first-last with the payload, one or more.")
    ] = None,
    unloaded: Annotated[
        list[str] | None,
        typer.Option(help="FILE or FILE:first-last without it, best of the same motion; needs --model."),
    ] = None,
    arm: Annotated[
        Path | None, typer.Option(help="Result file of 'dynid identify' on the robot alone, in place of --unloaded.")
    ] = None,
    after: Annotated[
        Path | None,
        typer.Option(help="Result file of 'dynid identify' with the payload, in place of --loaded; needs --arm."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Robot model: a URDF or TOML file, or a catalogue name.")] = None,
    format: Annotated[str, typer.Option(help="Format of the files, as of 'dynid identify'.")] = "mcap",
    gains: Annotated[
        list[str] | None, typer.Option(help="Drive gains in N·m/A, one per joint, or 'from-recording'.")
    ] = None,
    rotor_inertia: Annotated[bool, typer.Option("--rotor-inertia", help="Identify rotor inertias too.")] = False,
    friction: Annotated[
        list[str] | None,
        typer.Option(
            help="Friction of the arm, as of 'dynid identify'; by default arctan+load+hysteresis, "
            "of a parallel robot's force sensors offset."
        ),
    ] = None,
    columns: Annotated[Path | None, typer.Option(help="Column map of csv files, as of 'dynid identify'.")] = None,
    signals: Annotated[
        list[str] | None, typer.Option(help="Signal processing as NAME=VALUE, as of 'dynid identify'.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Drop bad rows, as of 'dynid identify'.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result to this file.")] = None,
) -> None:
    """Estimate mass, centre of mass and inertia of a payload, with their uncertainty."""
    from rich.console import Console

    from core.models import SerialChain, resolve
    from core.pipelines.effort import choose_effort
    from core.pipelines.identify import identify
    from core.pipelines.payload import identify_payload
    from core.pipelines.payload_change import payload_from_change

    check_output("--json", json_file)
    if (arm is None) == (not unloaded):
        raise InputError("give either --unloaded recordings and --model, or --arm with an identification")
    if (after is None) == (not loaded) or (after is not None and arm is None):
        raise InputError("give either --loaded recordings, or --arm and --after with two identifications")
    ignored = {
        "--model": model,
        "--gains": gains,
        "--friction": friction,
        "--rotor-inertia": rotor_inertia or None,
        "--signals": signals,
    }
    if arm is not None and any(value is not None for value in ignored.values()):
        given = ", ".join(option for option, value in ignored.items() if value is not None)
        raise InputError(f"{given}: --arm brings its own; leave these out")
    console = Console()
    carrying = read_recordings(loaded or [], format, columns, repair=repair)
    bare: list[Recording] = []
    if arm is not None:
        identified = read_result(arm, "--arm")
    else:
        if model is None:
            raise InputError("--unloaded needs --model, to identify the robot")
        robot = resolve(model, rotor_inertia=rotor_inertia)
        usual = FRICTION if isinstance(robot, SerialChain) else SENSOR_FRICTION
        bare = read_recordings(unloaded or [], format, columns, repair=repair)
        known = parse_gains(gains, robot.n_joints)
        if choose_effort(robot, bare, known).unit == "A":
            raise InputError("without drive gains a payload has no scale: give --gains, or a model that knows them")
        with Console(stderr=True).status("identifying the robot"):
            identified = identify(
                robot,
                bare,
                gains=known,
                friction=parse_friction(friction or [usual]),
                signals=parse_signals(signals),
            )
    with Console(stderr=True).status("identifying the payload"):
        if after is not None:
            found = payload_from_change(identified, read_result(after, "--after"))
        else:
            found = identify_payload(identified, carrying, bare)
    document = found.to_document()
    write_and_show(console, json_file, document, partial(_print, console, document))


def _print(console: Any, document: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(title=f"payload, in the {document['frame']}")
    for heading in ("parameter", "value", "standard deviation", "identified"):
        table.add_column(heading, justify="left" if heading == "parameter" else "right")
    table.add_row(r"mass \[kg]", f"{document['mass']:.4f}", f"{document['mass_std']:.4f}", _yes("m", document))
    if document["centre"] is not None:
        for axis, value, deviation in zip("xyz", document["centre"], document["centre_std"], strict=True):
            table.add_row(rf"centre {axis} \[m]", f"{value:.4f}", f"{deviation:.4f}", _yes(f"m{axis}", document))
    for name, value, deviation in list(zip(document["names"], document["parameters"], document["std"], strict=True))[
        4:
    ]:
        table.add_row(rf"{name} \[kg·m²], about the origin", f"{value:.4f}", f"{deviation:.4f}", _yes(name, document))
    console.print(table)
    for warning in document["warnings"]:
        console.print(f"[yellow]note:[/yellow] {warning}")


def _yes(name: str, document: dict[str, Any]) -> str:
    return "yes" if name in document["identified"] else "no"
