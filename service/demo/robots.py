"""The robots that the demonstration can be given, and what is known of each without looking at its plant."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from core.errors import InputError


@dataclass(frozen=True)
class DemoRobot:
    """One of them.

    ``motions`` names the ready-made ones, ``<motions>_excitation`` to identify on and ``<motions>_validation`` to
    judge on. ``cycle_time`` is its controller's, s, for which the feedforward table is made. ``gains`` is where drive
    gains come from. ``base_parameters`` are to be expected. ``settings`` are the service's, besides the address.
    """

    key: str
    label: str
    motions: str
    cycle_time: float
    gains: str
    base_parameters: int
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the service calls it."""
        return f"demo_{self.key}"

    def toml(self, host: str) -> str:
        """Return its part of the service's settings."""
        settings = {**self.settings, "host": host, "virtual": True, "motion_enabled": True}
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        return "\n".join([f"[robots.{self.name}]", *lines, "workspace = { floor = 0.05, self_collision = 0.05 }", ""])


_ROBOTS = (
    DemoRobot(
        key="ur10e",
        label="virtual UR10e",
        motions="ur10e",
        cycle_time=0.002,
        gains="from-recording",
        base_parameters=40,  # with rotor inertias and a vertical base (methods, section 0)
        settings={"driver": "universal_robots", "model": "ur10e"},
    ),
    DemoRobot(
        key="coman_r5",
        label="virtual COMAN R5",
        motions="coman_r5",
        cycle_time=0.001,
        gains="configured",
        base_parameters=40,
        settings={
            "driver": "vendor_socket",
            "layout": "coman_r5",
            "rate_hz": 1000.0,
            "model": "coman_r5",
            "drive_gains": [12.5, 12.5, 10.0, 6.0, 6.0, 6.0],  # of its type; each of this robot's is 2 to 8 % off
        },
    ),
)
ROBOTS = {robot.key: robot for robot in _ROBOTS}


def demo_robot(key: str) -> DemoRobot:
    """Return a robot by name; raises `InputError` where there is none."""
    if key not in ROBOTS:
        raise InputError(f"no demonstration with robot '{key}'; there are: {', '.join(ROBOTS)}")
    return ROBOTS[key]
