"""``dynid doctor``, ``dynid backup`` and ``dynid restore``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from service.cli.outputs import check_output, write_json

Config = Annotated[Path | None, typer.Option(help="Settings file (TOML), as of 'dynid serve'.")]


def doctor(
    config: Config = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the findings to this file.")] = None,
) -> None:
    """Say what is wrong or unsafe with this installation; exit code 1 when something is unsafe."""
    from rich.console import Console
    from rich.markup import escape

    from service.settings import load_settings
    from service.upkeep.doctor import examine

    check_output("--json", json_file)
    found = examine(load_settings(config))
    console = Console()
    marks = {"ok": "[green]ok[/green]", "warning": "[yellow]warning[/yellow]", "unsafe": "[red]unsafe[/red]"}
    for finding in found:
        console.print(f"{marks[finding.grade]} {escape(f'{finding.subject}: {finding.text}')}", soft_wrap=True)
        if finding.remedy:
            console.print(escape(f"    -> {finding.remedy}"), soft_wrap=True)
    if json_file is not None:
        write_json(json_file, {"findings": [asdict(finding) for finding in found]})
    if any(finding.grade == "unsafe" for finding in found):
        raise typer.Exit(1)


def backup(
    out: Annotated[Path, typer.Argument(help="File to write (tar).")],
    config: Config = None,
) -> None:
    """Back up database and recordings, also while the service runs. Keys are in it as digests only.

    Exit code 1 when a recording is damaged; the backup holds all the others.
    """
    from service.settings import load_settings
    from service.upkeep.backup import make_backup

    made = make_backup(load_settings(config), out)
    number, chain = made.audit
    typer.echo(f"{out}: {made.recordings} recordings, {made.bytes / 1e6:.1f} MB; audit up to row {number}, {chain}")
    for path in made.damaged:
        typer.echo(f"not in it: {path} is gone, or is not what was recorded", err=True)
    if made.damaged:
        raise typer.Exit(1)


def restore(
    source: Annotated[Path, typer.Argument(help="File that 'dynid backup' wrote.")],
    config: Config = None,
) -> None:
    """Put a backup into an empty data folder, while no service runs."""
    from service.settings import load_settings
    from service.upkeep.backup import restore_backup

    found = restore_backup(load_settings(config), source)
    typer.echo(f"restored what was backed up at {found.made_at:%Y-%m-%d %H:%M:%S} UTC: {found.recordings} recordings")
