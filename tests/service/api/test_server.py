"""Start and end of the service: ports, folders, keys, signals, restarts."""

from __future__ import annotations

import asyncio
import signal
import socket
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.api.app import create_app
from service.api.auth import KEY_FILE, Authentication, Keys, api_key
from service.api.folders import own_folders
from service.api.server import BindError, serve
from service.errors import StorageError
from service.settings import ConfigurationError, Settings
from service.storage import Database

API = "/api/v1"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- ports ------------------------------------------------------------------------------------------------


def test_taken_port_is_named_and_nothing_is_touched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BindError, match=f"port {port} on 127.0.0.1 is taken") as caught:
            serve(Settings(port=port, data_dir=tmp_path / "data"))
    assert caught.value.code == "port-in-use"
    assert caught.value.context == {"host": "127.0.0.1", "port": port}
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_address_that_is_not_this_machines(tmp_path: Path, host: str) -> None:
    with pytest.raises(BindError, match=host) as caught:
        serve(Settings(host=host, behind_proxy=True, port=0, data_dir=tmp_path))
    assert caught.value.code == "bind-failed"


# --- what keeps it from starting --------------------------------------------------------------------------


def test_reason_for_not_starting_arrives_as_it_was_raised(tmp_path: Path) -> None:
    (tmp_path / "dynid.sqlite3").write_bytes(b"this is not a database, but long enough to look like one" * 20)
    with pytest.raises(StorageError) as caught:
        serve(Settings(port=0, data_dir=tmp_path, runtime_dir=tmp_path / "run"))
    assert caught.value.code == "database-foreign"
    with own_folders(Settings(data_dir=tmp_path, runtime_dir=tmp_path / "run")):
        pass  # what had been taken was given back


def test_application_touches_nothing_before_it_is_started(tmp_path: Path) -> None:
    create_app(Settings(data_dir=tmp_path / "data")).openapi()
    assert not (tmp_path / "data").exists()


def test_folders_are_private_and_one_services(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", runtime_dir=tmp_path / "run")
    with own_folders(settings):
        assert mode(settings.data_dir) == mode(settings.runtime_path) == 0o700
        with pytest.raises(ConfigurationError, match="another service") as caught, own_folders(settings):
            pass
    assert caught.value.code == "data-dir-in-use"


def test_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigurationError, match="data_dir: cannot make"),
        own_folders(Settings(data_dir=tmp_path / "file")),
    ):
        pass


@pytest.mark.parametrize("kind", ["link", "writable"])
def test_runtime_folder_that_somebody_else_may_have_made(tmp_path: Path, kind: str) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    elsewhere.mkdir()
    if kind == "link":
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir()
        folder.chmod(0o777)
    settings = Settings(data_dir=tmp_path / "data", runtime_dir=folder)
    with pytest.raises(ConfigurationError, match="somebody else"), own_folders(settings):
        pass


# --- keys -------------------------------------------------------------------------------------------------


def test_key_is_made_once_for_the_owners_eyes(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    key = api_key(settings)
    assert key is not None
    assert len(key) >= 32
    assert mode(tmp_path / KEY_FILE) == 0o600
    assert api_key(settings) == key
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_key_of_the_settings_wins(tmp_path: Path) -> None:
    assert api_key(Settings(data_dir=tmp_path, api_key="from the settings")) == "from the settings"
    assert not (tmp_path / KEY_FILE).exists()


@pytest.mark.parametrize(
    ("content", "bits", "reason"),
    [("long enough to be a key", 0o640, "chmod 600"), ("short", 0o600, "shorter"), ("", 0o600, "shorter")],
)
def test_key_file_that_is_not_safe_is_refused(tmp_path: Path, content: str, bits: int, reason: str) -> None:
    (tmp_path / KEY_FILE).write_text(content)
    (tmp_path / KEY_FILE).chmod(bits)
    with pytest.raises(ConfigurationError, match=reason):
        api_key(Settings(data_dir=tmp_path))


@pytest.mark.parametrize(
    ("key", "public", "path", "expected"),
    [
        ("right", False, "/metrics", 401),
        ("right", True, "/metrics", 200),
        ("right", True, f"{API}/robots", 401),
        (None, False, f"{API}/robots", 200),
    ],
)
def test_what_the_settings_open(tmp_path: Path, key: str | None, public: bool, path: str, expected: int) -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    database = Database(f"sqlite:///{tmp_path / 'dynid.sqlite3'}")
    database.create()
    keys = Keys(key, database)

    async def ask() -> int:
        transport = httpx.ASGITransport(Authentication(answer, keys=lambda: keys, metrics_public=public))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return (await client.get(path)).status_code

    assert asyncio.run(ask()) == expected


# --- end and restart --------------------------------------------------------------------------------------


def test_it_starts_again_after_it_was_killed_and_ends_in_order_while_it_is_followed(start_service: Any) -> None:
    with start_service(orderly=False) as running, running.client() as client:
        body = {"kind": "record", "robot": "cell", "duration": 60.0}
        job = client.post(f"{API}/jobs", json=body).json()["id"]
        lease = client.post(f"{API}/robots/cell/lease", json={"holder": "before"}).json()
        running.process.kill()
        running.process.wait(10)
    with start_service() as running, running.client() as client:
        interrupted = client.get(f"{API}/jobs/{job}").json()
        assert interrupted["state"] == "interrupted"
        assert interrupted["error"]["code"] == "job-interrupted"
        state = client.get(f"{API}/robots/cell/state").json()
        assert state["lease"] is None
        again = client.post(f"{API}/robots/cell/lease", json={"holder": "after"}).json()
        assert again["fencing"] > lease["fencing"]
        with client.stream("GET", f"{API}/robots/cell/state/stream") as stream:
            lines = stream.iter_lines()
            next(lines)
            running.process.send_signal(signal.SIGINT)
            for _ in lines:  # ends as a whole answer does; a broken one would raise
                pass
        assert running.process.wait(60) == 0
    assert not list((running.folder / "run").glob("*.ring"))
