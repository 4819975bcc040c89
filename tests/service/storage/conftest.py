from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from service.storage import Database

_NAMES = count(1)


def _program(name: str) -> str | None:
    """Return a program of a PostgreSQL server; Debian keeps them out of the way."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(installed[-1]) if installed else None)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The folder of the socket of a PostgreSQL server of our own, which ends with the tests."""
    initdb, server = _program("initdb"), _program("postgres")
    if not initdb or not server:
        pytest.skip("no PostgreSQL server is installed (Debian: apt install postgresql)")
    user = "postgres" if os.getuid() == 0 else None  # it refuses to run as root
    if user and user not in {entry.pw_name for entry in pwd.getpwall()}:
        pytest.skip("a PostgreSQL server does not run as root, and there is no user 'postgres' to run it as")
    with tempfile.TemporaryDirectory(prefix="dynid-postgresql-") as name:
        folder = Path(name)
        if user:
            shutil.chown(folder, user)
        data = folder / "data"
        make = [initdb, "-D", data, "-U", "dynid", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        subprocess.run(make, check=True, user=user, stdout=subprocess.DEVNULL, cwd=folder)
        settings = {"listen_addresses": "", "unix_socket_directories": folder, "fsync": "off"}
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with (
            (folder / "log").open("w") as log,
            subprocess.Popen(
                [server, "-D", data, *options], user=user, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            ) as running,
        ):
            assert running.stderr is not None
            for line in running.stderr:  # it says when it answers, or ends
                log.write(line.decode())
                if b"ready to accept connections" in line:
                    break
            else:
                raise AssertionError(f"PostgreSQL did not start: {(folder / 'log').read_text()}")
            yield str(folder)
            running.terminate()
            running.communicate(timeout=30)


def _create(server: str, template: str = "template0") -> str:
    """Return the URL of a new database."""
    name = f"test_{next(_NAMES)}"
    with psycopg.connect(f"host={server} user=dynid dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    return f"postgresql://dynid@/{name}?host={server}"


@pytest.fixture
def postgresql_url(postgresql_server: str) -> str:
    """The URL of an empty database."""
    return _create(postgresql_server)


@pytest.fixture(scope="session")
def postgresql_template(postgresql_server: str) -> str:
    """The name of a database with tables, which are quicker to copy than to make."""
    where = _create(postgresql_server)
    database = Database(where)
    database.create()
    database.close()
    return make_url(where).database or ""


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database of either kind."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'dynid.sqlite3'}"
    else:
        url = _create(request.getfixturevalue("postgresql_server"), request.getfixturevalue("postgresql_template"))
    database = Database(url)
    database.create()
    yield database
    database.close()
