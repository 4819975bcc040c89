"""The application: routes, errors, authentication, and the service behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import APIRouter, Depends, FastAPI, Security

from service.api.auditing import Auditing
from service.api.auth import Authentication, bearer
from service.api.context import API_PREFIX, open_service
from service.api.docs import install_docs
from service.api.openapi import install_openapi, problems
from service.api.permissions import authorise, check_all_listed
from service.api.problems import install_problem_handlers
from service.api.requests import BodyLimit, RequestContext
from service.api.routes import (
    access,
    calibrations,
    feedforward,
    health,
    jobs,
    recordings,
    results,
    robots,
    trajectories,
)
from service.api.unchanged import AnswerUnchanged
from service.settings import Settings

DESCRIPTION = """
Robot-side dynamic identification: stream, excite, record, identify, validate, feed forward.

Every error is an RFC 9457 problem document whose `code` never changes its meaning. Every answer carries
`X-Request-ID`. **This is not a safety function**: the robot's own emergency stop and safety controller
remain in charge.
"""

TAGS = [
    {"name": "robots", "description": "What they are and what they do now."},
    {"name": "motion", "description": "Who may move them (lease), whether they may move (permit), and stop."},
    {"name": "jobs", "description": "Work that takes longer than a request."},
    {"name": "calibrations", "description": "Whether a robot is still the one that was identified."},
    {"name": "recordings", "description": "Samples in MCAP files."},
    {"name": "trajectories", "description": "Motions by their definitions."},
    {"name": "results", "description": "Identifications, and which is in force."},
    {"name": "feedforward tables", "description": "Torque per controller cycle, for whoever drives the robot."},
    {"name": "access", "description": "Keys with their roles, and the audit of every write."},
    {"name": "health", "description": "For supervisors and dashboards."},
]


def create_app(settings: Settings) -> FastAPI:
    """Return the application. Its lifespan starts and ends the service; nothing is touched before."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_service(settings) as context:
            app.state.context = context
            yield

    def count(method: str, status: int) -> None:
        app.state.context.metrics.count_request(method, status)

    app = FastAPI(
        title="dynid",
        summary="Robot-side dynamic identification",
        description=DESCRIPTION,
        version=version("dynid"),
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        openapi_tags=TAGS,
        docs_url=None,  # of install_docs, which needs no other host
        redoc_url=None,
        lifespan=lifespan,
        responses=problems(500),
    )
    install_problem_handlers(app)
    _add_routes(app, settings)
    install_openapi(app)
    install_docs(app)
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    app.add_middleware(Auditing, database=lambda: app.state.context.database)
    app.add_middleware(AnswerUnchanged, unchanged=lambda: app.state.context.unchanged)
    app.add_middleware(Authentication, keys=lambda: app.state.context.keys, metrics_public=settings.metrics_public)
    app.add_middleware(RequestContext, count=count)
    return app


def _add_routes(app: FastAPI, settings: Settings) -> None:
    locked = [Security(bearer)] if settings.authentication else []
    api = APIRouter(
        prefix=API_PREFIX,
        dependencies=[*locked, Depends(authorise)],
        responses=problems(400, 401, 403, 413, 415, 422, 429),
    )
    modules = (robots, jobs, calibrations, recordings, trajectories, results, feedforward, access)
    check_all_listed(module.router for module in modules)
    for module in modules:
        api.include_router(module.router)
    app.include_router(api)
    app.include_router(health.open_router)
    app.include_router(health.router, dependencies=[] if settings.metrics_public else locked)
