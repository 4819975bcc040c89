"""A robot's connection, permit and lease, as the API shows them. For the event loop: they live there."""

from __future__ import annotations

import hashlib

from service.api.models import DriftView, LeaseView, PermitView, RobotStatus
from service.monitoring import DriftWatch
from service.motion import MotionGuard


def robot_status(guard: MotionGuard, watch: DriftWatch | None = None) -> RobotStatus:
    """What is known about a robot without reading a sample or the database."""
    grant = guard.lease.current
    lease = (
        None
        if grant is None
        else LeaseView(holder=grant.holder, fencing=grant.fencing, seconds_left=guard.lease.seconds_left)
    )
    drift = None if watch is None or watch.state is None else DriftView.model_validate(watch.state)
    return RobotStatus(device=guard.device.status, permit=permit_view(guard), lease=lease, drift=drift)


def status_etag(status: RobotStatus) -> str:
    """Return a weak entity tag: it stays the same while only what runs on all the time (samples, ages) differs."""
    counters = {"samples": True, "lost": True, "sample_age_ms": True}
    device = status.device.model_dump_json(exclude={**counters, "controller": {"joint_temperatures"}})
    lease = None if status.lease is None else status.lease.fencing
    tripped = None if status.drift is None else (status.drift.result_id, status.drift.trips)
    what_matters = f"{device} {status.permit.state} {lease} {status.permit.reason} {tripped}"
    return f'W/"{hashlib.blake2b(what_matters.encode(), digest_size=12).hexdigest()}"'


def permit_view(guard: MotionGuard) -> PermitView:
    permit = guard.permit
    state = permit.state  # asking for it lets an arm lapse that is due, so the rest is read after it
    return PermitView(state=state, reason=permit.reason, armed_seconds_left=permit.armed_seconds_left)
