"""``dynid identify``: from recorded files to parameters, without a service running."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from core.errors import InputError

if TYPE_CHECKING:
    from core.pipelines.identification import Identification
    from core.recordings.recording import Recording
    from core.signals import SignalSettings


class ListOptionsCommand(TyperCommand):
    """A command whose list options take all values up to the next option: ``--train A B C``.

    Shell globs expand to several words, so repeating the option before each would be a nuisance; that
    form works as well.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        multiple = {name for p in self.params if getattr(p, "multiple", False) for name in p.opts}
        return super().parse_args(ctx, repeat_list_options(args, multiple))


def repeat_list_options(args: Sequence[str], multiple: set[str]) -> list[str]:
    """Turn ``--train A B`` into ``--train A --train B`` for the options named in ``multiple``."""
    out: list[str] = []
    current: str | None = None
    pending = False
    for word in args:
        if word.startswith("--"):
            current = word if word in multiple else None
            pending = current is not None
            out.append(word)
        elif current is not None and not pending:
            out += [current, word]
        else:
            out.append(word)
            pending = False
    return out


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
    estimator: Annotated[str, typer.Option(help="Estimator: ols, wls.")] = "wls",
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
    from core.pipelines import identification

    console = Console()
    started = time.perf_counter()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("reading", total=1.0)
        chain = resolve(model, rotor_inertia=rotor_inertia)
        recordings = _read_all(train, format, columns)
        held_out = _read_all(validate or [], format, columns)
        result = identification.identify(
            chain,
            recordings,
            held_out,
            gains=_gains(gains, chain.n_joints),
            friction=_friction(friction),
            estimator=estimator,
            signals=_signals(signals),
            cross_validate=_cross_validation(cross_validate),
            stop_margin=_stop_margin(stop_margin),
            progress=lambda phase, fraction: progress.update(task, description=phase, completed=fraction),
        )
    document = {**result.to_document(), **result.summary(), "seconds": time.perf_counter() - started}
    _print(console, result, document)
    if json_file is not None:
        _write_json(json_file, document)
        console.print(f"written to {json_file}")


def _read_all(sources: Sequence[str], file_format: str, columns: Path | None) -> list[Recording]:
    from core.recordings import parse_source, read

    return [read(path, file_format, rows, columns=columns) for path, rows in map(parse_source, sources)]


def _signals(words: Sequence[str] | None) -> SignalSettings:
    """Return the settings with some of them replaced by NAME=VALUE."""
    from core.signals import SignalSettings

    document: dict[str, Any] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"--signals: {word!r} is not NAME=VALUE")
        try:
            document[name] = json.loads(value)
        except ValueError:
            document[name] = value
    return SignalSettings.from_document(document)


def _gains(words: Sequence[str] | None, n_joints: int) -> Any:
    """Return the gains as the pipeline takes them: None, 'from-recording' or n numbers."""
    if not words:
        return None
    if list(words) == ["from-recording"]:
        return "from-recording"
    parts = [part for word in words for part in word.replace(",", " ").split()]
    try:
        values = [float(part) for part in parts]
    except ValueError as error:
        raise InputError(f"--gains: {error}; give {n_joints} numbers in N·m/A, or from-recording") from error
    if len(values) != n_joints or any(not value > 0.0 for value in values):
        raise InputError(
            f"--gains: the model has {n_joints} joints, so {n_joints} positive numbers are needed, got {values}"
        )
    return values


def _friction(words: Sequence[str] | None) -> str | list[str]:
    """Return one composition for all joints, or one per joint."""
    if not words:
        return "coulomb_viscous"
    return words[0] if len(words) == 1 else list(words)


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


def _write_json(path: Path, document: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"--json: cannot write {path}: {error.strerror}") from error


def _print(console: Any, result: Identification, document: dict[str, Any]) -> None:
    from rich.table import Table

    unit = document["unit"]
    table = Table(
        title=f"{result.model.name}: {len(document['base_parameters'])} base parameters, condition number "
        f"{document['condition_number']:.1f}"
    )
    table.add_column("joint")
    columns = {"train\nRMS": document["train"]["rms"]}
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
