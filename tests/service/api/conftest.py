"""A service in a process of its own, as it runs anywhere, and the database behind it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.storage import Database

KEY = "a key for the tests only"
START_SECONDS = 60.0
STOP_SECONDS = 20.0


@dataclass
class Running:
    """A running service: how to ask it, and what lies behind it."""

    url: str
    folder: Path
    log: Path
    process: subprocess.Popen[str]

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def database(self) -> Database:
        return Database(f"sqlite:///{self.data_dir / 'dynid.sqlite3'}")

    def client(self, key: str | None = KEY) -> httpx.Client:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=20.0)


def _write_settings(folder: Path, **robots: str) -> Path:
    """Settings with one robot per keyword, its value the controller's address."""
    lines = [f"data_dir = {json.dumps(str(folder / 'data'))}", "port = 0", "workers = 1", "queue_limit = 1"]
    lines.append(f"runtime_dir = {json.dumps(str(folder / 'run'))}")
    lines.append(f"max_body_bytes = {64 * 1024}")
    for name, host in robots.items():
        lines += [
            f"[robots.{name}]",
            'driver = "universal_robots"',
            f'host = "{host}"',
            'model = "ur10e"',
            "virtual = true",
            f"motion_enabled = {'false' if name == 'fixed' else 'true'}",
        ]
    file = folder / "dynid.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@contextmanager
def _running_service(settings: Path, environment: dict[str, str], *, orderly: bool) -> Iterator[Running]:
    """Run ``dynid serve`` until the end of the block; it has to end in good order then (``orderly``)."""
    folder = settings.parent
    log = folder / "service.log"
    with log.open("w", encoding="utf-8") as log_file:
        process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "serve", "--config", str(settings)],
            stdout=subprocess.PIPE,
            stderr=log_file,
            text=True,
            env={**os.environ, "DYNID_API_KEY": KEY, **environment},
        )
        try:
            yield Running(_announced_url(process, log), folder, log, process)
        finally:
            process.terminate()
            try:
                code = process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
            finally:
                assert process.stdout is not None
                process.stdout.close()
    text = log.read_text(encoding="utf-8")
    if orderly:
        assert code == 0, text
        assert "Traceback" not in text, text
        assert "Warning" not in text, text


def _announced_url(process: subprocess.Popen[str], log: Path) -> str:
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    threading.Thread(target=lambda out: lines.put(out.readline()), args=(process.stdout,), daemon=True).start()
    line = lines.get(timeout=START_SECONDS)
    assert line, log.read_text(encoding="utf-8")
    ready = json.loads(line)
    assert ready["event"] == "ready"
    assert ready["pid"] == process.pid
    url: str = ready["url"]
    return url


StartService = Callable[..., AbstractContextManager[Running]]


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service for the tests that only ask it things; its two robots cannot be reached."""
    folder = tmp_path_factory.mktemp("service")
    settings = _write_settings(folder, cell="127.250.250.1", fixed="127.250.250.2")
    with _running_service(settings, {}, orderly=True) as running:
        yield running


@pytest.fixture
def start_service(tmp_path: Path, loopback_host: str) -> StartService:
    """Start services of this test's own, one after the other in one folder, with one unreachable robot."""
    settings = _write_settings(tmp_path, cell=loopback_host)

    def start(*, orderly: bool = True, **environment: str) -> AbstractContextManager[Running]:
        return _running_service(settings, environment, orderly=orderly)

    return start


@pytest.fixture
def client(service: Running) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


ExpectProblem = Callable[[httpx.Response, int, str], dict[str, Any]]


@pytest.fixture
def expect_problem() -> ExpectProblem:
    """Check that an answer is a problem document of this status and code, and return it."""

    def check(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
        document: dict[str, Any] = response.json()
        assert (document["status"], document["code"]) == (status, code)
        assert document["detail"]
        assert document["request_id"] == response.headers["x-request-id"]
        return document

    return check
