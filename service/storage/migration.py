"""From an older version of the tables to the present one; what is new is made at the present one at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, column, inspect, select, table

VERSION_TABLE = "dynid_migrations"
HEAD = "0002"
"""Version of ``service.storage.tables``: the last step in ``service/storage/migrations``."""
_FIRST_TABLE, _FIRST, _FIRST_NUMBER = "dynid_schema", "0001", 1
"""What told the version before there were steps."""


def version_of(connection: Connection) -> str | None:
    """Return the version of a database's tables; None where they are not ours."""
    names = inspect(connection).get_table_names()
    if VERSION_TABLE in names:
        found = connection.scalar(select(column("version_num")).select_from(table(VERSION_TABLE)))
        return "" if found is None else str(found)
    if _FIRST_TABLE in names:
        number = connection.scalar(select(column("version")).select_from(table(_FIRST_TABLE)))
        return _FIRST if number == _FIRST_NUMBER else str(number)
    return None


def steps_from(version: str) -> int | None:
    """Return how many steps lead from a version to the present one; None where no step knows it."""
    known = [step.revision for step in _script().walk_revisions()]  # newest first
    return known.index(version) if version in known else None


def upgrade(connection: Connection) -> None:
    """Take the steps to the present version, all in the connection's transaction."""
    from alembic import command  # noqa: PLC0415 - takes a third of a second, and is needed once in a version

    config = _config()
    config.attributes["connection"] = connection
    if VERSION_TABLE not in inspect(connection).get_table_names():
        command.stamp(config, _FIRST)
    command.upgrade(config, "head")


def _config() -> Any:
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    return config


def _script() -> Any:
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    return ScriptDirectory.from_config(_config())
