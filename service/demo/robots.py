"""The robots that the demonstration can be given, and what is known of each without looking at its plant."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from core.errors import InputError


@dataclass(frozen=True)
class DemoRobot:
    """One of them. ``cycle_time`` is its controller's, s, for which the feedforward table is made; ``settings`` are the
    service's, besides the address.
    """

    key: str
    label: str
    cycle_time: float
    base_parameters: int
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the service calls it."""
        return f"demo_{self.key}"

    def toml(self, host: str) -> str:
        """Return its part of the service's settings."""
        settings = {**self.settings, "host": host, "virtual": True, "motion_enabled": True}
        return "\n".join([f"[robots.{self.name}]", *(f"{key} = {_toml(value)}" for key, value in settings.items()), ""])


@dataclass(frozen=True)
class DemoArm(DemoRobot):
    """A serial arm. ``motions`` names the ready-made ones, ``<motions>_excitation`` to identify on and
    ``<motions>_validation`` to judge on. ``gains`` is where drive gains come from.
    """

    motions: str = ""
    gains: str = "configured"


@dataclass(frozen=True)
class DemoPlatform(DemoRobot):
    """A 6-UPRU platform behind a PLC. Its motions are designed.

    ``without`` are the base parameters that no motion within its limits tells, and that are not estimated.
    ``friction`` is what its cylinders are taken to have.
    """

    without: tuple[str, ...] = ()
    friction: str = "coulomb_viscous"

    def toml(self, host: str) -> str:
        return super().toml(host) + f'ads = {{ ams_net_id = "{host}.1.1" }}\n'


def _toml(value: Any) -> str:
    """Return a setting as TOML writes it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(entry)}" for key, entry in value.items()) + " }"
    return json.dumps(value)


_WORKSPACE = {"floor": 0.05, "self_collision": 0.05}
_ROBOTS: tuple[DemoRobot, ...] = (
    DemoArm(
        key="ur10e",
        label="virtual UR10e",
        motions="ur10e",
        cycle_time=0.002,
        gains="from-recording",
        base_parameters=40,  # with rotor inertias and a vertical base (methods, section 0)
        settings={"driver": "universal_robots", "model": "ur10e", "workspace": _WORKSPACE},
    ),
    DemoArm(
        key="coman_r5",
        label="virtual COMAN R5",
        motions="coman_r5",
        cycle_time=0.001,
        base_parameters=40,
        settings={
            "driver": "vendor_socket",
            "layout": "coman_r5",
            "rate_hz": 1000.0,
            "model": "coman_r5",
            "drive_gains": [12.5, 12.5, 10.0, 6.0, 6.0, 6.0],  # of its type; each of this robot's is 2 to 8 % off
            "workspace": _WORKSPACE,
        },
    ),
    DemoPlatform(
        key="upru6",
        label="virtual 6-UPRU",
        cycle_time=0.001,
        base_parameters=15,
        without=("Ia1", "Ia2+Ia3+Ia4"),  # turning of legs about themselves
        friction="stribeck",
        settings={"driver": "beckhoff_ads", "rate_hz": 1000.0, "model": "upru6", "tracking_limit": 0.01},
    ),
)
ROBOTS = {robot.key: robot for robot in _ROBOTS}


def demo_robot(key: str) -> DemoRobot:
    """Return a robot by name; raises `InputError` where there is none."""
    if key not in ROBOTS:
        raise InputError(f"no demonstration with robot '{key}'; there are: {', '.join(ROBOTS)}")
    return ROBOTS[key]
