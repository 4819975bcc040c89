"""What follows a calibration that found the robot changed, where its profile says so: identify it again.

Two motions are needed, the one that was compared and another to judge on; each is armed by itself. The model in force
is replaced only by one that passes on the second motion. All of it goes over REST, so it is audited like anybody's
writes.
"""

from __future__ import annotations

from typing import Any

from service.client import Client
from service.settings import CalibrationProfile, ReidentificationSettings


def identify_again(
    client: Client,
    robot: str,
    profile: CalibrationProfile,
    settings: ReidentificationSettings,
    flagged: dict[str, Any],
    lease: str,
) -> dict[str, Any]:
    """Return the calibration's result with what came of it: ``outcome`` is "reidentified" or stays "flagged".

    Beside it: ``new_result_id``, ``reasons`` why that one did not pass (empty where it did), and ``table_id`` of the
    feedforward table that replaces the newest one; None where there is none to replace.

    Raises
    ------
    JobFailedError
        A job did not succeed; the model in force is still the old one.
    """
    present = client.get(f"/results/{flagged['result_id']}")
    client.post(f"/robots/{robot}/permit", lease=lease)
    judged_on = client.run_job(
        {
            "kind": "play",
            "robot": robot,
            "trajectory_id": newest_trajectory(client, robot, settings.trajectory),
            "approach": profile.approach.model_dump(),
        },
        lease=lease,
    )
    recordings = [flagged["recording_id"]]
    found = client.run_job({**present["settings"], "kind": "identify", "robot": robot, "recordings": recordings})
    verdict = client.run_job(
        {
            "kind": "validate",
            "result_id": found["result_id"],
            "recordings": [judged_on["recording_id"]],
            "criteria": {"max_relative_residual": settings.max_relative_residual},
        }
    )
    told = {**flagged, "new_result_id": found["result_id"], "reasons": verdict["reasons"], "table_id": None}
    if not verdict["passed"]:
        return told
    client.post(f"/results/{found['result_id']}/promote")
    return {**told, "outcome": "reidentified", "table_id": _table_anew(client, robot, found["result_id"])}


def newest_trajectory(client: Client, robot: str, name: str) -> str:
    """Return the newest stored trajectory of a name that is for this robot or for any."""
    from core.errors import InputError

    found = client.get("/trajectories", name=name, limit=50)["items"]
    own = [item["id"] for item in found if item["robot"] in (None, robot)]
    if not own:
        raise InputError(f"there is no trajectory {name!r} of {robot}; store one first", code="trajectory-not-found")
    return str(own[0])


def _table_anew(client: Client, robot: str, result_id: str) -> str | None:
    """Build the robot's newest feedforward table once more, from another result."""
    tables = client.get("/feedforward-tables", robot=robot, limit=1)["items"]
    if not tables:
        return None
    wanted = {name: tables[0][name] for name in ("trajectory_id", "cycle_time")}
    return str(client.run_job({"kind": "feedforward", "result_id": result_id, **wanted})["table_id"])
