"""The steps of the demonstration, all of them over the service's REST API, as any client would go.

Nothing here reads the plant's truth; the comparison at the very end does (``service.demo.truth``).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.client import Client, ServiceError
from service.demo.robots import DemoArm

Array = NDArray[np.float64]

APPROACH = {"speed": 0.8, "acceleration": 1.2}
"""How the virtual robot moves to the first pose; rad/s and rad/s²."""

Progress = Callable[[str, float], None]


@dataclass
class Outcome:
    """What the demonstration produced, ready to be judged and written as JSON."""

    motions: dict[str, dict[str, Any]] = field(default_factory=dict)
    recordings: dict[str, dict[str, Any]] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    validation: dict[str, Any] = field(default_factory=dict)
    table: dict[str, Any] = field(default_factory=dict)
    torque: Array = field(default_factory=lambda: np.empty((0, 0)))
    formats_agree: bool = False
    refused_while_disarmed: str = ""
    refused_unvalidated: str = ""


def run(client: Client, robot: DemoArm, progress: Progress) -> Outcome:
    """Go the whole way and return what came out; raises ServiceError where a step is refused."""
    outcome = Outcome()
    motions = {"excitation": f"{robot.motions}_excitation", "validation": f"{robot.motions}_validation"}
    trajectories = {name: _store_trajectory(client, robot, motion) for name, motion in motions.items()}
    with client.lease(robot.name, holder="dynid demo") as lease:
        play = {"kind": "play", "robot": robot.name, "approach": APPROACH, "record": True}
        outcome.refused_while_disarmed = refusal(client, {**play, "trajectory_id": trajectories["excitation"]}, lease)
        for name, trajectory in trajectories.items():
            client.post(f"/robots/{robot.name}/permit", lease=lease)
            motion = client.run_job(
                {**play, "trajectory_id": trajectory}, lease=lease, progress=follow(progress, f"play {name}")
            )
            outcome.motions[name] = motion
            outcome.recordings[name] = client.get(f"/recordings/{motion['recording_id']}")
    _identify(client, robot, progress, outcome)
    feedforward = {
        "kind": "feedforward",
        "result_id": outcome.result["id"],
        "trajectory_id": trajectories["validation"],
        "cycle_time": robot.cycle_time,
    }
    outcome.refused_unvalidated = refusal(client, feedforward, None)
    _validate(client, progress, outcome)
    client.post(f"/results/{outcome.result['id']}/promote")
    built = client.run_job(feedforward, progress=follow(progress, "build feedforward table"))
    outcome.table, outcome.torque, outcome.formats_agree = fetch_table(client, built["table_id"])
    return outcome


def _store_trajectory(client: Client, robot: DemoArm, name: str) -> str:
    body = {"name": name, "robot": robot.name, "ready_made": name}
    identifier: str = client.post("/trajectories", body)["id"]
    return identifier


def _identify(client: Client, robot: DemoArm, progress: Progress, outcome: Outcome) -> None:
    request = {
        "kind": "identify",
        "robot": robot.name,
        "recordings": [outcome.recordings["excitation"]["id"]],
        "gains": robot.gains,
        "friction": "coulomb_viscous",
        "estimator": "wls",
        "rotor_inertia": True,
    }
    done = client.run_job(request, progress=follow(progress, "identify"))
    outcome.result = client.get(f"/results/{done['result_id']}")


def _validate(client: Client, progress: Progress, outcome: Outcome) -> None:
    request = {
        "kind": "validate",
        "result_id": outcome.result["id"],
        "recordings": [outcome.recordings["validation"]["id"]],
        "criteria": {"max_relative_residual": 0.25},
    }
    outcome.validation = client.run_job(request, progress=follow(progress, "validate on the second motion"))


def fetch_table(client: Client, table_id: str, quantity: str = "torque") -> tuple[dict[str, Any], Array, bool]:
    """Fetch a table in all three formats; return what is known of it, its numbers (N, n), and whether all say the same.

    ``quantity`` is torque, whose CRC comes with the table, or current.
    """
    path = f"/feedforward-tables/{table_id}"
    table = client.get(path)
    answer = client.request("GET", path, params={"format": "binary", "quantity": quantity})
    rows = client.request("GET", path, params={"format": "csv"}).text.splitlines()
    n = int(table["n_joints"])
    values = np.frombuffer(answer.content, "<f4").reshape(-1, n)
    header = rows[0].split(",")
    columns = [i for i, name in enumerate(header) if name.startswith(quantity)]
    csv = np.array([[float(row.split(",")[i]) for i in columns] for row in rows[1:]])
    agree = (
        zlib.crc32(answer.content) == int(answer.headers["Dynid-CRC32"])
        and (quantity != "torque" or zlib.crc32(answer.content) == table["crc32"])
        and len(answer.content) == table["samples"] * n * struct.calcsize("<f")
        and np.array_equal(csv.astype("<f4"), values)
        and np.array_equal(np.array(table[quantity]).astype("<f4"), values)
    )
    return table, values.astype(np.float64), agree


def refusal(client: Client, request: dict[str, Any], lease: str | None) -> str:
    """Ask for what must be refused and return the code of the refusal; '' if it was accepted."""
    try:
        client.run_job(request, lease=lease)
    except ServiceError as refused:
        return refused.code
    return ""


def follow(progress: Progress, step: str) -> Callable[[Any], None]:
    return lambda job: progress(f"{step}: {job['phase'] or job['state']}", float(job["progress"]))
