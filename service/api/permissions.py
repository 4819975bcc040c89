"""Which role a request needs. Looking is for viewers; what changes something is listed here, or does not start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute

from service.access import Role
from service.api.auth import principal_of
from service.jobs.models import JobKind

READING = frozenset({"GET", "HEAD"})

ROLES: Mapping[str, Role] = MappingProxyType(
    {
        "stop": Role.VIEWER,  # whoever may look may stop
        "acquire_lease": Role.OPERATOR,
        "renew_lease": Role.OPERATOR,
        "release_lease": Role.OPERATOR,
        "arm": Role.OPERATOR,
        "disarm": Role.OPERATOR,
        "reset_fault": Role.OPERATOR,
        "submit_job": Role.OPERATOR,
        "start_calibration": Role.OPERATOR,
        "cancel_job": Role.OPERATOR,
        "create_trajectory": Role.OPERATOR,
        "promote_result": Role.ENGINEER,
        "roll_back_result": Role.ENGINEER,
        "create_key": Role.ADMIN,
        "revoke_key": Role.ADMIN,
        "list_keys": Role.ADMIN,
        "list_audit": Role.ADMIN,
        "check_audit": Role.ADMIN,
    }
)
"""By the name of the route's function."""

OPERATORS_JOBS = frozenset({JobKind.PLAY, JobKind.RECORD, JobKind.CALIBRATE})
"""What an operator may submit; all other jobs are an engineer's."""


def authorise(request: Request) -> None:
    """Refuse a request whose principal's role is too low: a dependency of every route under the API's root."""
    route = request.scope["route"]
    needed = ROLES.get(route.name, Role.VIEWER)
    principal_of(request).require(needed, f"{request.method} {route.path}")


def check_all_listed(routers: Iterable[APIRouter]) -> None:
    """Refuse to start with a route that changes something and that nobody has given a role."""
    routes = [route for router in routers for route in router.routes]
    writing = [r.name for r in routes if isinstance(r, APIRoute) and not (r.methods or set()) <= READING]
    missing = sorted(set(writing) - set(ROLES))
    if missing:
        raise RuntimeError(f"no role is given for the routes {', '.join(missing)}")
