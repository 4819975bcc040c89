"""The demonstration's service: a process of its own, configured through a file like any other."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.errors import DynidError
from service.client import Client
from service.demo.robots import DemoRobot

START_SECONDS = 60.0
"""The first start compiles the numerical kernels; later ones take a few seconds."""

STOP_SECONDS = 15.0


class DemoError(DynidError):
    """The demonstration's service did not start or did not become ready."""

    code = "demo-failed"


@dataclass(frozen=True)
class RunningService:
    """Where the service answers, and the key it asks for."""

    url: str
    api_key: str


@contextmanager
def demo_service(
    data_dir: Path, robot: DemoRobot, robot_host: str, port: int, progress: Callable[[str, float], None]
) -> Iterator[RunningService]:
    """Start the service for one robot, wait until it is ready, and stop it in the end."""
    data_dir.mkdir(parents=True, exist_ok=True)
    api_key = secrets.token_urlsafe(24)
    config, log = data_dir / "dynid.toml", data_dir / "service.log"
    config.write_text(_settings(data_dir, robot, robot_host, port, api_key), encoding="utf-8")
    config.chmod(0o600)
    with log.open("w", encoding="utf-8") as log_file:
        process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "serve", "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=log_file,
            text=True,
        )
        try:
            service = RunningService(_announced_url(process, log), api_key)
            _wait_ready(service, process, log, progress)
            yield service
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _settings(data_dir: Path, robot: DemoRobot, robot_host: str, port: int, api_key: str) -> str:
    return "\n".join(
        (
            f"data_dir = {json.dumps(str(data_dir.absolute()))}",
            f"port = {port}",
            f"api_key = {json.dumps(api_key)}",
            robot.toml(robot_host),
        )
    )


def _announced_url(process: subprocess.Popen[str], log: Path) -> str:
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        process.wait()
        raise DemoError(f"the service did not start:\n{_tail(log)}")
    url: str = json.loads(line)["url"]
    return url


def _wait_ready(
    service: RunningService, process: subprocess.Popen[str], log: Path, progress: Callable[[str, float], None]
) -> None:
    began = time.monotonic()
    with Client(service.url, service.api_key) as client:
        while not client.ready():
            waited = time.monotonic() - began
            if process.poll() is not None or waited > START_SECONDS:
                raise DemoError(f"the service did not become ready:\n{_tail(log)}")
            progress("wait until service and robot are ready", min(waited / START_SECONDS, 1.0))
            time.sleep(0.1)


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(encoding="utf-8").splitlines()[-lines:])
