"""Recordings: what there is, and the files themselves."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from service.api.conditional import not_modified
from service.api.context import Context
from service.api.files import RangedFile
from service.api.models import Page, RecordingView
from service.api.openapi import problems
from service.api.paging import Paging, page_of
from service.errors import ConflictError, NotFoundError
from service.storage import recordings
from service.storage.states import RecordingState

router = APIRouter(prefix="/recordings", tags=["recordings"])

FINISHED = frozenset({RecordingState.COMPLETE, RecordingState.SALVAGED})


@router.get("", summary="List recordings")
def list_recordings(
    context: Context,
    paging: Paging,
    robot: Annotated[str | None, Query(description="Only of this robot.")] = None,
    state: Annotated[RecordingState | None, Query(description="Only in this state.")] = None,
    job_id: Annotated[str | None, Query(description="Only those that this job made.")] = None,
) -> Page[RecordingView]:
    """Recordings, newest first."""
    with context.database.reading() as session:
        return page_of(
            RecordingView,
            paging,
            lambda limit, before: recordings.find(
                session, robot=robot, state=state, job_id=job_id, limit=limit, before=before
            ),
        )


@router.get("/{recording_id}", summary="Get a recording", responses=problems(404))
def get_recording(context: Context, recording_id: str) -> RecordingView:
    """What is known about one recording."""
    with context.database.reading() as session:
        return RecordingView.model_validate(recordings.get(session, recording_id))


@router.get(
    "/{recording_id}/mcap",
    summary="Download a recording",
    response_class=RangedFile,
    responses={
        200: {"description": "The MCAP file.", "content": {"application/octet-stream": {}}},
        206: {"description": "The ranges that were asked for."},
        304: {"description": "The client has it already."},
        **problems(404, 409, 416),
    },
)
def get_recording_file(
    context: Context, recording_id: str, if_none_match: Annotated[str | None, Header()] = None
) -> Response:
    """The file, as Foxglove, PlotJuggler and `ros2 bag` open it. Takes Range; its ETag is its SHA-256."""
    with context.database.reading() as session:
        row = recordings.get(session, recording_id)
    if row.state not in FINISHED:
        raise ConflictError(
            f"recording {row.id} is {row.state}, its file is not finished",
            code="recording-not-finished",
            id=row.id,
            state=row.state,
        )
    etag = f'"{row.sha256}"'
    if (unchanged := not_modified(etag, if_none_match)) is not None:
        return unchanged
    path = recordings.file_of(context.settings.data_dir, row)
    if not path.is_file():
        raise NotFoundError(
            f"the file of recording {row.id} is gone from the data folder ({row.path})",
            code="recording-file-missing",
            id=row.id,
            path=row.path,
        )
    return RangedFile(path, filename=f"{row.id}.mcap", media_type="application/octet-stream", headers={"ETag": etag})
