"""The soak of `make soak` for a few seconds: nothing is lost and everybody is answered, whatever else goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.soak.run import soak
from benchmarks.soak.scene import RATES

pytestmark = pytest.mark.timeout(600)  # s, with the wait for others of its kind

SECONDS = 4.0
FEWEST = 300
"""Conditional requests per second; a tenth of what a machine of one's own answers."""


def test_nothing_is_lost_while_everybody_polls(tmp_path: Path, loopback_hosts: Callable[[], str]) -> None:
    soaked = soak(tmp_path, (loopback_hosts(), loopback_hosts()), SECONDS, friction="coulomb_viscous", warm_up=False)
    for robot, recorded in soaked.recorded.items():
        assert recorded["lost"] == soaked.left_out[robot], robot
        assert recorded["samples"] >= 0.9 * RATES[robot] * SECONDS
    assert soaked.identified >= 1
    assert (soaked.http.wrong, soaked.modbus.wrong, soaked.flood.wrong) == (0, 0, 0)
    assert soaked.http.latencies
    assert soaked.modbus.latencies
    assert soaked.flood.rate >= FEWEST
    log = (tmp_path / "service.log").read_text(encoding="utf-8")
    assert "Traceback" not in log
