"""``dynid export`` and ``dynid convert``: results and recordings for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.errors import InputError
from service.cli.options import read_result
from service.cli.outputs import write_output


def export(
    result: Annotated[Path, typer.Argument(help="Result of 'dynid identify --json', or of the service.")],
    out: Annotated[Path, typer.Argument(help="File to write.")],
    to: Annotated[str, typer.Option(help="urdf, toml (model file), c (header with the torque function), csv, json.")],
    allow_deviation: Annotated[
        float | None,
        typer.Option(
            help="N·m (N) RMS that the torque of a joint in urdf and toml may differ by from what was identified, "
            "where bodies cannot have the identified parameters. Absent: the joint's residual. Results of "
            "'--estimator consistent' never differ."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if there is one.")] = False,
) -> None:
    """Write an identified robot as URDF, model file, C header or table of parameters."""
    from core import export as exporting

    written = exporting.export(read_result(result), to, allow_deviation=allow_deviation)
    if out.exists() and not force:
        raise InputError(f"{out}: there is such a file already; choose another name, or give --force")
    write_output("OUT", out, written.text)
    for note in written.notes:
        typer.echo(note)
    typer.echo(f"written to {out}")


def convert(
    source: Annotated[str, typer.Argument(help="FILE or FILE:first-last (1-based rows).")],
    out: Annotated[Path, typer.Argument(help="File to write.")],
    to: Annotated[str, typer.Option(help="mcap, csv, npz, hdf5, parquet.")],
    format: Annotated[
        str, typer.Option("--format", help="Format of FILE: ur-log, mcap, rosbag, csv, npz, hdf5, parquet.")
    ] = "mcap",
    columns: Annotated[
        Path | None, typer.Option(help="Column map (TOML or JSON): which columns are which signals, in which units.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Drop rows that are torn, not finite or out of order.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if there is one.")] = False,
) -> None:
    """Read a recording and write it in another format, in SI units."""
    from core.recordings import parse_source, read, write

    path, rows = parse_source(source)
    recording = read(path, format, rows, columns=columns, repair=repair)
    write(recording, out, to, overwrite=force)
    signals = ", ".join(recording.present())
    typer.echo(f"{recording.t.size} samples of {recording.n_joints} joints ({signals}) written to {out}")
