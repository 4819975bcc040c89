"""``dynid keys``: who may do what. Works beside a running service, which takes a change up within a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

app = typer.Typer(help="Give, list and revoke API keys.", no_args_is_help=True)

Config = Annotated[Path | None, typer.Option(help="Settings file (TOML), as of 'dynid serve'.")]


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Whom it is for, as the audit will name it.")],
    role: Annotated[str, typer.Option(help="viewer (may stop, too), operator, engineer or admin.")],
    robots: Annotated[
        list[str] | None, typer.Option("--robot", help="For this robot only; may be repeated. Absent: for all.")
    ] = None,
    config: Config = None,
) -> None:
    """Make a key and print it, for the only time."""
    from core.errors import InputError
    from service.access import Role
    from service.settings import load_settings
    from service.storage import api_keys

    try:
        wanted = Role(role)
    except ValueError:
        raise InputError(f"--role: {role!r} is none of {', '.join(Role)}") from None
    known = load_settings(config).robots
    for robot in robots or ():
        if robot not in known:
            raise InputError(f"--robot: there is no robot {robot!r} in the settings; there are {', '.join(known)}")
    with _session(config, f"add key {name}") as session:
        _, key = api_keys.create(session, name=name, role=wanted, robots=robots or None, created_by="command line")
    typer.echo(key)


@app.command("list")
def list_keys(config: Config = None) -> None:
    """Say which keys there are; not the keys themselves, which nobody knows but their owners."""
    from rich.console import Console
    from rich.table import Table

    from service.storage import api_keys

    with _session(config, None) as session:
        rows = api_keys.find(session, limit=500)
    table = Table("name", "role", "robots", "made", "revoked")
    for row in rows:
        robots = "all" if row.robots is None else ", ".join(row.robots)
        revoked = "" if row.revoked_at is None else f"{row.revoked_at:%Y-%m-%d %H:%M}"
        table.add_row(row.name, row.role, robots, f"{row.created_at:%Y-%m-%d %H:%M} by {row.created_by}", revoked)
    Console().print(table)


@app.command("revoke")
def revoke(name: Annotated[str, typer.Argument(help="The key's name.")], config: Config = None) -> None:
    """End a key's use."""
    from service.errors import NotFoundError
    from service.storage import api_keys

    with _session(config, f"revoke key {name}") as session:
        row = api_keys.named(session, name)
        if row is None:
            raise NotFoundError(f"there is no key named {name!r}; see 'dynid keys list'", code="key-not-found")
        api_keys.revoke(session, row.id)
    typer.echo(f"{name} is revoked")


@contextmanager
def _session(config: Path | None, action: str | None) -> Iterator[Session]:
    """Open the service's database; what is done there is audited like a request."""
    from service.settings import load_settings
    from service.storage import Database, audit

    settings = load_settings(config)
    database = Database(settings.database)
    database.verify()
    try:
        with database.session() as session:
            if action is not None:
                audit.record(session, principal="command line", action=action, robot=None, request_id="-")
            yield session
    finally:
        database.close()
