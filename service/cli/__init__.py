"""The command ``dynid``.

Exit codes: 0 everything done and every check passed; 1 a check failed or the work could not be done
(the error says what to do); 2 the command line itself is wrong; 3 (calibrate) the robot is not as it was identified.
"""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Annotated

import typer

from core.errors import DynidError
from service.cli import calibrate, demo, drive_gains, excite, export, identify, keys, payload, serve, upkeep
from service.cli.options import ListOptionsCommand

app = typer.Typer(
    name="dynid",
    help="Robot-side dynamic identification: stream, excite, identify, validate, feed forward.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(metadata.version("dynid"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


app.command("serve")(serve.serve)
app.command("demo")(demo.demo)
app.command("excite", cls=ListOptionsCommand)(excite.excite)
app.command("identify", cls=ListOptionsCommand)(identify.identify)
app.command("payload", cls=ListOptionsCommand)(payload.payload)
app.command("drive-gains", cls=ListOptionsCommand)(drive_gains.drive_gains)
app.command("export")(export.export)
app.command("convert")(export.convert)
app.command("calibrate")(calibrate.calibrate)
app.command("doctor")(upkeep.doctor)
app.command("backup")(upkeep.backup)
app.command("restore")(upkeep.restore)
app.add_typer(keys.app, name="keys")


def main() -> None:
    """Run the command line; an error that dynid raised on purpose is a message, not a traceback."""
    try:
        app()
    except DynidError as error:
        sys.stderr.write(f"dynid: {error.detail} [{error.code}]\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.stderr.write("dynid: interrupted\n")
        sys.exit(130)
