"""``dynid identify``: from recorded files to parameters, without a service running."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from core.errors import InputError

if TYPE_CHECKING:
    from core.pipelines.identification import Identification
    from core.recordings.recording import Recording


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
    format: Annotated[str, typer.Option(help="Format of the files: ur-log, mcap.")] = "mcap",
    gains: Annotated[
        list[str] | None,
        typer.Option(
            help="Drive gains in N·m/A, one per joint; or 'from-recording': the controller's own, "
            "read from target torque and current at rest. Absent: the model's."
        ),
    ] = None,
    rotor_inertia: Annotated[bool, typer.Option("--rotor-inertia", help="Identify rotor inertias too.")] = False,
    friction: Annotated[str, typer.Option(help="Friction model.")] = "coulomb_viscous",
    estimator: Annotated[str, typer.Option(help="Estimator: ols, wls.")] = "wls",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the whole result to this file.")] = None,
) -> None:
    """Identify base and friction parameters from recorded motions and score them on held-out ones."""
    from rich.console import Console
    from rich.progress import Progress

    from core.models import resolve
    from core.pipelines import identification

    console = Console()
    started = time.perf_counter()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("reading", total=1.0)
        chain = resolve(model, rotor_inertia=rotor_inertia)
        recordings = _read_all(train, format)
        held_out = _read_all(validate or [], format)
        result = identification.identify(
            chain,
            recordings,
            held_out,
            gains=_gains(gains, chain.n_joints),
            friction=friction,
            estimator=estimator,
            progress=lambda phase, fraction: progress.update(task, description=phase, completed=fraction),
        )
    document = {**result.to_document(), **result.summary(), "seconds": time.perf_counter() - started}
    _print(console, result, document)
    if json_file is not None:
        _write_json(json_file, document)
        console.print(f"written to {json_file}")


def _read_all(sources: Sequence[str], file_format: str) -> list[Recording]:
    from core.recordings import parse_source, read

    return [read(path, file_format, rows) for path, rows in map(parse_source, sources)]


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
    if document.get("validate"):
        columns["held out\nRMS, all"] = document["validate"]["rms_all"]
        columns["held out\nRMS, moving"] = document["validate"]["rms_moving"]
    for name in columns:
        table.add_column(f"{name} [{unit}]", justify="right")
    for joint, name in enumerate(result.model.joint_names):
        figures = (_figure(values[joint]) for values in columns.values())
        table.add_row(f"{joint + 1} {name.removesuffix('_joint')}", *figures)
    console.print(table)
    for warning in document.get("warnings", ()):
        console.print(f"[yellow]note:[/yellow] {warning}")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
