"""A robot's connection, permit and lease, as the API shows them. For the event loop: they live there."""

from __future__ import annotations

import hashlib

from service.api.models import LeaseView, PermitView, RobotStatus
from service.motion import MotionGuard


def robot_status(guard: MotionGuard) -> RobotStatus:
    """What is known about a robot without reading a sample or the database."""
    grant = guard.lease.current
    lease = (
        None
        if grant is None
        else LeaseView(holder=grant.holder, fencing=grant.fencing, seconds_left=guard.lease.seconds_left)
    )
    return RobotStatus(device=guard.device.status, permit=permit_view(guard), lease=lease)


def status_etag(status: RobotStatus) -> str:
    """Return a weak entity tag: it stays the same while only what runs on all the time (samples, ages) differs."""
    counters = {"samples": True, "lost": True, "sample_age_ms": True}
    device = status.device.model_dump_json(exclude={**counters, "controller": {"joint_temperatures"}})
    lease = None if status.lease is None else status.lease.fencing
    what_matters = f"{device} {status.permit.state} {lease} {status.permit.reason}"
    return f'W/"{hashlib.blake2b(what_matters.encode(), digest_size=12).hexdigest()}"'


def permit_view(guard: MotionGuard) -> PermitView:
    permit = guard.permit
    state = permit.state  # asking for it lets an arm lapse that is due, so the rest is read after it
    return PermitView(state=state, reason=permit.reason, armed_seconds_left=permit.armed_seconds_left)
