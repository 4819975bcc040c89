"""Identify: base and friction parameters from recordings; what comes out is a candidate."""

from __future__ import annotations

from sqlalchemy.orm import Session

from core.estimators import make_estimator
from core.friction import friction_model
from core.pipelines.friction_selection import AUTO
from core.signals import SignalSettings
from service.jobs.computations import IdentifiedModel, identify_recordings
from service.jobs.context import JobContext, Kind
from service.jobs.kinds.references import recordings_of, sources_of
from service.jobs.models import IdentifyRequest, IdentifyResult, JobKind
from service.storage import results

TIME_LIMIT = 1800.0
CHOICES = ("moving_threshold", "stop_margin", "preferred", "without", "random_state")
"""Fields that are handed on as they are."""


def check(session: Session, request: IdentifyRequest) -> None:
    if request.friction != AUTO:
        joints = 1 if isinstance(request.friction, str) else len(request.friction)
        friction_model(request.friction, joints)  # refuse an unknown name now, not when the job runs
    make_estimator(request.estimator)
    SignalSettings.from_document(request.signals.settings())
    recordings_of(session, request.recordings, request.robot)


async def run(context: JobContext, request: IdentifyRequest) -> IdentifyResult:
    rows = await context.read(recordings_of, request.recordings, request.robot)
    robot = context.robot(request.robot).settings
    context.enter("identify")
    identified: IdentifiedModel = await context.compute(
        identify_recordings,
        model=robot.model,
        rotor_inertia=request.rotor_inertia,
        sources=sources_of(context.settings.data_dir, rows),
        gains=robot.drive_gains if request.gains == "configured" else request.gains,
        friction=request.friction,
        cross_validate=request.cross_validate,
        estimator=request.estimator,
        signals=request.signals.settings(),
        sensors=None if request.sensors is None else request.sensors.model_dump(),
        choices={name: getattr(request, name) for name in CHOICES},
    )
    context.enter("store")
    row = await context.write(
        results.create,
        robot=request.robot,
        recording_ids=request.recordings,
        settings=request.model_dump(mode="json", exclude={"kind", "robot", "recordings"}),
        document=identified.document,
        job_id=context.job.id,
    )
    return IdentifyResult(
        result_id=row.id,
        base_parameters=identified.base_parameters,
        condition_number=identified.condition_number,
        normalised_condition_number=identified.normalised_condition_number,
        rms=identified.rms,
    )


IDENTIFY = Kind(
    name=JobKind.IDENTIFY,
    request=IdentifyRequest,
    phases={"identify": 0.97, "store": 0.03},
    computes=True,
    time_limit=TIME_LIMIT,
    check=check,
    run=run,
)
