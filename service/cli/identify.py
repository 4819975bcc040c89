"""``dynid identify``: from recorded files to parameters, without a service running."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from core.errors import InputError
from service.cli.options import (
    parse_friction,
    parse_gains,
    parse_number,
    parse_signals,
    read_recordings,
)
from service.cli.outputs import check_output, progress_bar, write_and_show

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


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
        str | None,
        typer.Option(help="Estimator: ols, wls, irls, huber, tls, iv, recursive, sequential, consistent. Absent: wls."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="A published method instead of friction and estimator: coman_three_layer, ur10e_power_friction, "
            "abc_arctan, recursive_six_axis. Its own signal processing unless --signals says otherwise."
        ),
    ] = None,
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
    prefer_base: Annotated[
        list[str] | None,
        typer.Option(
            help="Build base parameters around these standard parameters, such as Izz3 mx6, and list them first."
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Take these base parameters for zero, such as those that a result calls not identifiable."),
    ] = None,
    essential: Annotated[
        bool, typer.Option("--essential", help="Say which parameters the data call for, by F-tests.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Drop rows of the files that are torn, not finite or out of order (at most 1 %)."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of whatever is drawn in the search for shapes of friction.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the whole result to this file.")] = None,
) -> None:
    """Identify base and friction parameters from recorded motions and score them on held-out ones."""
    # many small products: threads would only wait for each other, and for whatever else runs on the machine
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from rich.console import Console

    from core.models import resolve
    from core.pipelines.identify import identify as identify_robot
    from core.pipelines.published import identify_by, published_method
    from service.cli.identify_report import show

    check_output("--json", json_file)
    if method is not None:
        others = {
            "--friction": friction,
            "--estimator": estimator,
            "--cross-validate": cross_validate,
            "--stop-margin": stop_margin != "auto",
            "--prefer-base": prefer_base,
            "--without": without,
        }
        _refuse_beside_method([option for option, given in others.items() if given])
    console = Console()
    started = time.perf_counter()
    with progress_bar() as progress:
        task = progress.add_task("reading", total=1.0)
        chain = resolve(model, rotor_inertia=rotor_inertia)
        recordings = read_recordings(train, format, columns, repair=repair)
        held_out = read_recordings(validate or [], format, columns, repair=repair)
        told = partial(_show_progress, progress, task)
        used_gains = parse_gains(gains, chain.n_joints)
        published = None
        if method is not None:
            own = {"signals": parse_signals(signals)} if signals else {}
            published = identify_by(
                published_method(method, **own),
                chain,
                recordings,
                held_out,
                gains=used_gains,
                random_state=seed,
                progress=told,
            )
            result = published.identification
        else:
            result = identify_robot(
                chain,
                recordings,
                held_out,
                gains=used_gains,
                friction=parse_friction(friction),
                estimator=estimator or "wls",
                signals=parse_signals(signals),
                cross_validate=_cross_validation(cross_validate),
                stop_margin=_stop_margin(stop_margin),
                preferred=prefer_base or (),
                without=without or (),
                random_state=seed,
                progress=told,
            )
    complete = published.to_document() if published else result.to_document()
    document = {**complete, **result.summary(), "seconds": time.perf_counter() - started}
    kept = result.essential_parameters() if essential else None
    if kept is not None:
        document["essential"] = {"kept": kept.kept, "dropped": kept.dropped, "p_value": kept.p_value}

    def tell() -> None:
        show(console, result, document, kept)
        if published and published.remark:
            console.print(published.remark)

    write_and_show(console, json_file, document, tell)


def _refuse_beside_method(options: list[str]) -> None:
    if options:
        raise InputError(f"--method settles {', '.join(options)} itself; leave either out")


def _show_progress(progress: Progress, task: TaskID, phase: str, fraction: float) -> None:
    progress.update(task, description=phase, completed=fraction)


def _cross_validation(word: str | None) -> bool:
    if word not in {None, "recording"}:
        raise InputError(f"--cross-validate: only 'recording' can be left out, got {word!r}")
    return word is not None


def _stop_margin(word: str) -> float | Literal["auto"]:
    if word == "auto":
        return "auto"
    return parse_number(word, f"--stop-margin: {word!r} is neither 'auto' nor a number of seconds")
