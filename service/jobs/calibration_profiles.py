"""Profiles of the settings as requests for a calibration: whoever asks names the profile, nothing else."""

from __future__ import annotations

from sqlalchemy.orm import Session

from service.errors import ConflictError, NotFoundError
from service.jobs.models import CalibrateRequest
from service.jobs.models.motion import ApproachRequest
from service.settings import RobotSettings
from service.storage import trajectories


def calibrate_request(session: Session, robot: RobotSettings, name: str) -> CalibrateRequest:
    """Return the job that a robot's profile describes, with the newest trajectory of the profile's name.

    Raises
    ------
    NotFoundError
        ``profile-not-found``.
    ConflictError
        ``trajectory-not-stored``: there is no trajectory of that name for this robot.
    """
    if name not in robot.calibration:
        known = ", ".join(sorted(robot.calibration)) or "none"
        raise NotFoundError(
            f"{robot.name} has no calibration profile {name!r}; its settings have {known}",
            code="profile-not-found",
            robot=robot.name,
        )
    profile = robot.calibration[name]
    stored = trajectories.find(session, name=profile.trajectory, limit=50)
    own = [row.id for row in stored if row.robot in (None, robot.name)]
    if not own:
        raise ConflictError(
            f"the profile {name!r} of {robot.name} plays the trajectory {profile.trajectory!r}, and there is none of "
            "that name; store it first",
            code="trajectory-not-stored",
            robot=robot.name,
        )
    return CalibrateRequest(
        robot=robot.name,
        trajectory_id=own[0],
        approach=ApproachRequest(**profile.approach.model_dump()),
        level=profile.level,
        time_limit=profile.time_limit,
    )
