"""Is it alive, is it ready, and what do its counters say."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response, status

from service.api.context import Context
from service.api.metrics import MEDIA_TYPE
from service.api.models import Health, Readiness
from service.api.openapi import problems

router = APIRouter(tags=["health"])
open_router = APIRouter(tags=["health"])


@open_router.get("/healthz", summary="Is the process alive")
async def healthz() -> Health:
    """Answers as long as the event loop runs, whatever else may be broken."""
    return Health()


@open_router.get(
    "/readyz",
    summary="Is everything usable",
    responses={503: {"model": Readiness, "description": "Something is not; the checks say what and why."}},
)
async def readyz(context: Context, response: Response) -> Readiness:
    """Looks at the database, the workers, every robot and, where it is served, Modbus.

    A robot is not ready that cannot be reached, is not the one that is meant, or is kept stopped by its controller or
    by a fault that nobody has reset.
    """
    found = await context.readiness()
    if not found.ready:
        response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    return found


@router.get(
    "/metrics",
    summary="Counters for Prometheus",
    response_class=Response,
    responses={
        200: {"description": "Prometheus text format.", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **problems(401),
    },
)
async def metrics(context: Context) -> Response:
    """Needs the key unless the settings say `metrics_public = true`."""
    robots = {name: context.status(name) for name in context.engine.guards}
    return Response(await asyncio.to_thread(context.metrics.render, robots), media_type=MEDIA_TYPE)
