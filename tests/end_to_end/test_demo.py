"""The README's demonstration, run as a user runs it, on addresses of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)  # s, with the wait for others of its kind

DEMO = [sys.executable, "-m", "service.cli", "demo"]


@pytest.mark.parametrize(
    ("robot", "rate", "motions", "base_parameters"),
    [
        ("ur10e", 500, (20, 12), 40),
        pytest.param("coman_r5", 1000, (20, 12), 40, marks=pytest.mark.long),
        pytest.param("upru6", 1000, (10, 8, 8), 15, marks=pytest.mark.long),
    ],
)
def test_the_whole_way_passes_its_own_checks(
    tmp_path: Path, loopback_host: str, robot: str, rate: int, motions: tuple[int, ...], base_parameters: int
) -> None:
    """``motions`` are the durations of what is recorded, s."""
    report = tmp_path / "demo.json"
    arguments = ["--robot", robot, "--robot-host", loopback_host, "--json", str(report)]
    done = subprocess.run(
        [*DEMO, *arguments, "--data-dir", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(report.read_text())
    assert seen["passed"]
    assert seen["robot"] == robot
    assert all(check["passed"] for check in seen["checks"])
    assert seen["base_parameters"] == base_parameters
    assert seen["samples_lost"] == 0
    assert seen["samples_recorded"] >= rate * sum(motions)
    recordings = list((tmp_path / "data" / "recordings").rglob("*.mcap"))
    assert len(recordings) == len(motions)
    assert "samples recorded, 0 lost" in done.stdout


def test_a_taken_port_is_named(tmp_path: Path, loopback_host: str) -> None:
    with socket.create_server((loopback_host, 29999)):
        done = subprocess.run(
            [*DEMO, "--robot-host", loopback_host], capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 1
    assert f"{loopback_host}:29999" in done.stderr
    assert "Traceback" not in done.stderr
