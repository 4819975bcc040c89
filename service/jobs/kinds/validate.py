"""Validate: judge a result on recordings it was not made from; VALIDATED if it meets the stated criteria."""

from __future__ import annotations

from sqlalchemy.orm import Session

from service.errors import ConflictError
from service.jobs.computations import Judgement, validate_result
from service.jobs.context import JobContext, Kind
from service.jobs.kinds.references import recordings_of, robot_of_result, sources_of
from service.jobs.models import JobKind, ValidateRequest, ValidateResult
from service.storage import RecordingRow, ResultRow, recordings, results

TIME_LIMIT = 600.0


def references(session: Session, request: ValidateRequest) -> tuple[ResultRow, list[RecordingRow]]:
    """Return the result and the recordings to judge it on.

    Raises
    ------
    ConflictError
        ``validation-on-training-data``: one of them was used to make the result, under whatever
        identifier: the files' checksums count.
    """
    result = results.get(session, request.result_id)
    rows = recordings_of(session, request.recordings, result.robot)
    trained_on = {recordings.get(session, identifier).sha256: identifier for identifier in result.recording_ids}
    for row in rows:
        if row.id in result.recording_ids or row.sha256 in trained_on:
            raise ConflictError(
                f"result {result.id} was identified from recording {row.id}; "
                "on its own training data any model looks good: validate it on another motion",
                code="validation-on-training-data",
                id=row.id,
                result_id=result.id,
            )
    return result, rows


async def run(context: JobContext, request: ValidateRequest) -> ValidateResult:
    result, rows = await context.read(references, request)
    context.enter("validate")
    judgement: Judgement = await context.compute(
        validate_result,
        document=result.document,
        sources=sources_of(context.settings.data_dir, rows),
        sensors=result.settings.get("sensors"),
        max_relative_residual=request.criteria.max_relative_residual,
        min_moving_samples=request.criteria.min_moving_samples,
    )
    context.enter("store")
    passed = not judgement.reasons
    await context.write(
        results.set_validation,
        request.result_id,
        {
            "job_id": context.job.id,
            "recordings": request.recordings,
            "criteria": request.criteria.model_dump(mode="json"),
            "passed": passed,
            "reasons": judgement.reasons,
            "report": judgement.report,
        },
    )
    for reason in judgement.reasons:
        context.job.log(reason)
    return ValidateResult(
        result_id=request.result_id,
        passed=passed,
        reasons=judgement.reasons,
        rms_moving=judgement.rms_moving,
        relative_moving=judgement.relative_moving,
    )


VALIDATE = Kind(
    name=JobKind.VALIDATE,
    request=ValidateRequest,
    phases={"validate": 0.97, "store": 0.03},
    computes=True,
    time_limit=TIME_LIMIT,
    robot=robot_of_result,
    check=references,
    run=run,
)
