"""``dynid identify``: from recorded files to parameters, without a service running."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from core.errors import InputError
from service.cli.options import parse_friction, parse_gains, parse_signals, read_recordings, write_json

if TYPE_CHECKING:
    from core.pipelines.identification import Identification


def identify(
    model: Annotated[str, typer.Option(help="Robot model: a URDF or TOML file, or a catalogue name such as ur10e.")],
    train: Annotated[list[str], typer.Option(help="FILE or FILE:first-last (1-based rows), one or more.")],
    validate: Annotated[list[str] | None, typer.Option(help="Held-out FILE or FILE:first-last, one or more.")] = None,
    format: Annotated[
        str, typer.Option(help="Format of the files: ur-log, mcap, rosbag, csv, npz, hdf5, parquet.")
    ] = "mcap",
    columns: Annotated[
        Path | None, typer.Option(help="Column map (TOML or JSON): which columns are which signals, in which units.")
    ] = None,
    signals: Annotated[
        list[str] | None,
        typer.Option(
            help="Signal processing as NAME=VALUE, one or more: torque_cutoff=5, marked=leave_out, period=20 "
            "periods=averaged kinematics=fourier, ..."
        ),
    ] = None,
    gains: Annotated[
        list[str] | None,
        typer.Option(
            help="Drive gains in N·m/A, one per joint; or 'from-recording': the controller's own, "
            "read from target torque and current at rest. Absent: the model's."
        ),
    ] = None,
    rotor_inertia: Annotated[bool, typer.Option("--rotor-inertia", help="Identify rotor inertias too.")] = False,
    friction: Annotated[
        list[str] | None,
        typer.Option(
            help="Friction, a law and terms such as arctan+load+hysteresis+warmup; one for all joints or one per "
            "joint; 'auto' takes the composition with the best score on left-out recordings. "
            "Absent: coulomb_viscous."
        ),
    ] = None,
    estimator: Annotated[
        str, typer.Option(help="Estimator: ols, wls, irls, huber, tls, iv, recursive, sequential, consistent.")
    ] = "wls",
    cross_validate: Annotated[
        str | None,
        typer.Option(help="'recording': score by leaving out one training recording (or block of a single one)."),
    ] = None,
    stop_margin: Annotated[
        str,
        typer.Option(
            help="Leave out this many seconds before the end of a training recording's motion. 'auto': 0.25 where it "
            "runs into its stop with a jolt."
        ),
    ] = "auto",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the whole result to this file.")] = None,
) -> None:
    """Identify base and friction parameters from recorded motions and score them on held-out ones."""
    # many small products: threads would only wait for each other, and for whatever else runs on the machine
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from rich.console import Console
    from rich.progress import Progress

    from core.models import resolve
    from core.pipelines.identify import identify as identify_robot

    console = Console()
    started = time.perf_counter()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("reading", total=1.0)
        chain = resolve(model, rotor_inertia=rotor_inertia)
        recordings = read_recordings(train, format, columns)
        held_out = read_recordings(validate or [], format, columns)
        result = identify_robot(
            chain,
            recordings,
            held_out,
            gains=parse_gains(gains, chain.n_joints),
            friction=parse_friction(friction),
            estimator=estimator,
            signals=parse_signals(signals),
            cross_validate=_cross_validation(cross_validate),
            stop_margin=_stop_margin(stop_margin),
            progress=lambda phase, fraction: progress.update(task, description=phase, completed=fraction),
        )
    document = {**result.to_document(), **result.summary(), "seconds": time.perf_counter() - started}
    _print(console, result, document)
    if json_file is not None:
        write_json(json_file, document)
        console.print(f"written to {json_file}")


def _cross_validation(word: str | None) -> bool:
    if word not in {None, "recording"}:
        raise InputError(f"--cross-validate: only 'recording' can be left out, got {word!r}")
    return word is not None


def _stop_margin(word: str) -> float | Literal["auto"]:
    if word == "auto":
        return "auto"
    try:
        return float(word)
    except ValueError as error:
        raise InputError(f"--stop-margin: {word!r} is neither 'auto' nor a number of seconds") from error


def _print(console: Any, result: Identification, document: dict[str, Any]) -> None:
    from rich.table import Table

    unit = document["unit"]
    table = Table(
        title=f"{result.model.name}: {len(document['base_parameters'])} base parameters, condition number "
        f"{document['condition_number']:.1f}"
    )
    table.add_column("joint")
    columns = {"train\nRMS, all": document["train"]["rms"]}
    if document["cross_validation"]:
        scheme = document["cross_validation"]["scheme"]
        columns[f"left-out {scheme}\nRMS, moving"] = document["cross_validation"]["rms_moving"]
    if document["validate"]:
        columns["held out\nRMS, all"] = document["validate"]["rms_all"]
        columns["held out\nRMS, moving"] = document["validate"]["rms_moving"]
    for name in columns:
        table.add_column(f"{name} [{unit}]", justify="right")
    for joint, name in enumerate(result.model.joint_names):
        figures = (_figure(values[joint]) for values in columns.values())
        table.add_row(f"{joint + 1} {name.removesuffix('_joint')}", *figures)
    table.add_section()
    table.add_row("mean", *(_figure(_mean(values)) for values in columns.values()))
    console.print(table)
    _print_friction(console, document)
    for warning in document["warnings"]:
        console.print(f"[yellow]note:[/yellow] {warning}")


def _print_friction(console: Any, document: dict[str, Any]) -> None:
    from rich.table import Table

    if document["friction_selection"]:
        table = Table(title=f"friction by the error on left-out {document['friction_selection']['scheme']}s")
        table.add_column("composition")
        table.add_column(f"mean RMS, moving [{document['unit']}]", justify="right")
        for row in document["friction_selection"]["candidates"]:
            table.add_row(row["friction"], _figure(row["mean_rms_moving"]))
        console.print(table)
    for composition in dict.fromkeys(document["friction_composition"]):
        console.print(f"friction: {composition}", markup=False)
    shares = (document["validate"] or document["train"])["standing_within_friction"]
    console.print(
        "standing samples within predicted friction: " + " ".join("-" if s is None else f"{s:.0%}" for s in shares)
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
