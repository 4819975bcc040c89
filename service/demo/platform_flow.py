"""The demonstration of a platform: designed motions, force sensors, drives, and a table that goes back to the PLC.

All of it over the service's REST API. Nothing here reads the plant's truth (see ``service.demo.platform_truth``).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.recordings import Recording, read
from service.client import Client
from service.demo.flow import Progress, fetch_table, follow, refusal
from service.demo.robots import DemoPlatform

Array = NDArray[np.float64]

APPROACH = {"speed": 0.1, "acceleration": 0.5}
"""How the legs go to the first pose; m/s and m/s² of the leading one."""

MOVING = 1e-3
"""m/s of a leg's target, from which on it is asked to move."""

DESIGNS: dict[str, dict[str, Any]] = {
    "excitation": {"criterion": "cond", "harmonics": 5, "period": 10.0, "time_budget": 20.0, "seed": 0},
    "validation": {"criterion": "d_optimal", "harmonics": 3, "period": 8.0, "time_budget": 6.0, "seed": 1},
}
"""What is designed within the model's own limits: one motion to identify on, another kind to judge on."""

CRITERIA = {"forces": 0.05, "currents": 0.2}
"""Largest residual on the second motion over what was measured there."""


@dataclass(frozen=True)
class Tracking:
    """How far legs were off their targets while these moved; each (6,) m."""

    rms: Array
    largest: Array

    def to_document(self) -> dict[str, list[float]]:
        return {"rms": self.rms.tolist(), "largest": self.largest.tolist()}


@dataclass
class PlatformOutcome:
    """What came of it, ready to be judged and written as JSON."""

    designs: dict[str, dict[str, Any]] = field(default_factory=dict)
    motions: dict[str, dict[str, Any]] = field(default_factory=dict)
    recordings: dict[str, dict[str, Any]] = field(default_factory=dict)
    calibration: dict[str, Any] = field(default_factory=dict)
    forces: dict[str, Any] = field(default_factory=dict)
    forces_validation: dict[str, Any] = field(default_factory=dict)
    drives: dict[str, Any] = field(default_factory=dict)
    drives_found: dict[str, Any] = field(default_factory=dict)
    drives_validation: dict[str, Any] = field(default_factory=dict)
    table: dict[str, Any] = field(default_factory=dict)
    current: Array = field(default_factory=lambda: np.empty((0, 6)))
    definition: dict[str, Any] = field(default_factory=dict)
    """Of the second motion, along which the table goes."""
    formats_agree: bool = False
    loaded: dict[str, Any] = field(default_factory=dict)
    tracking: dict[str, Tracking] = field(default_factory=dict)
    added: dict[str, Array] = field(default_factory=dict)
    """Largest current (6,) A that the PLC says it added, with the table and without."""
    refusals: dict[str, str] = field(default_factory=dict)


def run(client: Client, robot: DemoPlatform, progress: Progress) -> PlatformOutcome:
    """Go the whole way and return what came out; raises ServiceError where a step is refused."""
    outcome = PlatformOutcome()
    _design(client, robot, progress, outcome)
    with client.lease(robot.name, holder="dynid demo") as lease:
        _refused_motions(client, robot, lease, outcome)
        for name in DESIGNS:
            _play(client, robot, lease, progress, outcome, name, name)
        _identify_forces(client, robot, progress, outcome)
        _identify_drives(client, robot, progress, outcome)
        _feed_forward(client, robot, progress, outcome)
        load = {"kind": "load_feedforward", "robot": robot.name, "table_id": outcome.table["id"]}
        outcome.refusals["load without lease"] = refusal(client, load, None)
        outcome.loaded = client.run_job(load, lease=lease, progress=follow(progress, "write the table to the PLC"))
        _play(client, robot, lease, progress, outcome, "validation", "feedforward")
        client.run_job({**load, "table_id": None}, lease=lease)
    for name in ("validation", "feedforward"):
        recording = _download(client, outcome.recordings[name]["id"])
        outcome.tracking[name] = _tracking(recording)
        assert recording.target_current is not None  # noqa: S101 - every sample of this PLC has it
        outcome.added[name] = np.abs(recording.target_current).max(axis=0)
    return outcome


def _design(client: Client, robot: DemoPlatform, progress: Progress, outcome: PlatformOutcome) -> None:
    for name, design in DESIGNS.items():
        request = {"kind": "excite", "robot": robot.name, "name": name, "limits": {}, "friction": None, **design}
        step = follow(progress, f"design {name}")
        outcome.designs[name] = client.run_job(request, progress=step)
    identifier = outcome.designs["validation"]["trajectory_id"]
    outcome.definition = client.get(f"/trajectories/{identifier}")["definition"]


def _refused_motions(client: Client, robot: DemoPlatform, lease: str, outcome: PlatformOutcome) -> None:
    """Ask for a motion while disarmed, and for one that is larger than the legs' strokes."""
    play = {"kind": "play", "robot": robot.name, "approach": APPROACH, "record": True}
    possible = {**play, "trajectory_id": outcome.designs["excitation"]["trajectory_id"]}
    outcome.refusals["disarmed"] = refusal(client, possible, lease)
    larger = {**outcome.definition, **{key: _tenfold(outcome.definition[key]) for key in ("a", "b")}}
    stored = client.post("/trajectories", {"name": "too large", "robot": robot.name, "definition": larger})
    client.post(f"/robots/{robot.name}/permit", lease=lease)
    outcome.refusals["too large"] = refusal(client, {**play, "trajectory_id": stored["id"]}, lease)
    client.request("DELETE", f"/robots/{robot.name}/permit")


def _tenfold(coefficients: list[list[float]]) -> list[list[float]]:
    larger: list[list[float]] = (10.0 * np.array(coefficients)).tolist()
    return larger


def _play(
    client: Client,
    robot: DemoPlatform,
    lease: str,
    progress: Progress,
    outcome: PlatformOutcome,
    trajectory: str,
    name: str,
) -> None:
    """Play a designed trajectory and keep motion and recording as ``name``."""
    client.post(f"/robots/{robot.name}/permit", lease=lease)
    request = {
        "kind": "play",
        "robot": robot.name,
        "trajectory_id": outcome.designs[trajectory]["trajectory_id"],
        "approach": APPROACH,
        "record": True,
    }
    motion = client.run_job(request, lease=lease, progress=follow(progress, f"play {name}"))
    outcome.motions[name] = motion
    outcome.recordings[name] = client.get(f"/recordings/{motion['recording_id']}")


def _identify_forces(client: Client, robot: DemoPlatform, progress: Progress, outcome: PlatformOutcome) -> None:
    """First stage: sensors, then what the legs carry, judged on the second motion."""
    about = {"robot": robot.name, "recordings": [outcome.recordings["excitation"]["id"]], "without": robot.without}
    outcome.calibration = client.run_job(
        {"kind": "calibrate_sensors", **about}, progress=follow(progress, "calibrate sensors")
    )
    request = {
        "kind": "identify",
        **about,
        "gains": "configured",
        "friction": "none",
        "sensors": outcome.calibration["sensors"],
    }
    done = client.run_job(request, progress=follow(progress, "identify forces"))
    outcome.forces = client.get(f"/results/{done['result_id']}")
    outcome.forces_validation = _validate(client, progress, outcome, outcome.forces["id"], "forces")


def _identify_drives(client: Client, robot: DemoPlatform, progress: Progress, outcome: PlatformOutcome) -> None:
    """Second stage: from these forces to currents, judged on the second motion."""
    request = {
        "kind": "leg_drives",
        "result_id": outcome.forces["id"],
        "recordings": [outcome.recordings["excitation"]["id"]],
        "friction": robot.friction,
    }
    outcome.drives_found = client.run_job(request, progress=follow(progress, "identify drives"))
    outcome.drives = client.get(f"/results/{outcome.drives_found['result_id']}")
    outcome.refusals["not validated"] = refusal(client, _table_request(robot, outcome), None)
    outcome.drives_validation = _validate(client, progress, outcome, outcome.drives["id"], "currents")


def _validate(
    client: Client, progress: Progress, outcome: PlatformOutcome, result_id: str, what: str
) -> dict[str, Any]:
    request = {
        "kind": "validate",
        "result_id": result_id,
        "recordings": [outcome.recordings["validation"]["id"]],
        "criteria": {"max_relative_residual": CRITERIA[what]},
    }
    return client.run_job(request, progress=follow(progress, f"validate {what}"))


def _table_request(robot: DemoPlatform, outcome: PlatformOutcome) -> dict[str, Any]:
    return {
        "kind": "feedforward",
        "result_id": outcome.drives["id"],
        "trajectory_id": outcome.designs["validation"]["trajectory_id"],
        "cycle_time": robot.cycle_time,
    }


def _feed_forward(client: Client, robot: DemoPlatform, progress: Progress, outcome: PlatformOutcome) -> None:
    client.post(f"/results/{outcome.drives['id']}/promote")
    built = client.run_job(_table_request(robot, outcome), progress=follow(progress, "build feedforward table"))
    outcome.table, outcome.current, outcome.formats_agree = fetch_table(client, built["table_id"], "current")


def _download(client: Client, recording_id: str) -> Recording:
    with tempfile.TemporaryDirectory(prefix="dynid-demo-") as folder:
        path = Path(folder) / f"{recording_id}.mcap"
        path.write_bytes(client.request("GET", f"/recordings/{recording_id}/mcap").content)
        return read(path, "mcap")


def _tracking(recording: Recording) -> Tracking:
    assert recording.target_q is not None  # noqa: S101 - every sample of this PLC has it
    assert recording.target_qd is not None  # noqa: S101
    moving = np.abs(recording.target_qd).max(axis=1) > MOVING
    error = (recording.target_q - recording.q)[moving]
    return Tracking(np.sqrt(np.mean(error**2, axis=0)), np.abs(error).max(axis=0))
