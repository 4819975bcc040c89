"""Salvage: what the service does at start-up with recordings that nobody finished.

Every ``.partial`` is cut to what is whole and completed in place, so that it needs no room; a file that is
finished but not entered is entered; what cannot be read is put aside, never deleted. The files' locks make it
safe to run twice at once, and beside a recorder that is still completing its file.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from core.errors import RecordingError
from core.recordings.mcap_log import McapSampleWriter, StoredLog, describe, read_samples
from core.recordings.mcap_samples import CONTEXT, RECORDING, SUMMARY, StoredSamples
from core.recordings.partial_file import partial_path
from service.errors import ConflictError, StorageRefusedError
from service.storage import Database, RecordingRow, RecordingState, events, recordings

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""How long a recorder that is still completing its file is waited for, s."""

NOT_ENTERED = "the file had been finished, but the service ended before it could enter it"


class Outcome(StrEnum):
    SALVAGED = "salvaged"
    FAILED = "failed"
    BUSY = "busy"  # somebody is still writing it


@dataclass(frozen=True)
class Salvaged:
    """What became of one recording; ``detail`` says it in words."""

    recording_id: str
    outcome: Outcome
    path: Path
    samples: int
    detail: str


def salvage(data_dir: Path, database: Database, *, patience: float = PATIENCE) -> list[Salvaged]:
    """Rescue every unfinished recording; return what was done, having logged it and entered it as events.

    Blocking; for start-up, before anything new is recorded. Idempotent.
    """
    with database.reading() as session:
        rows = recordings.find(session, state=RecordingState.RECORDING, limit=None)
        failed = recordings.find(session, state=RecordingState.FAILED, limit=None)
    rows += [row for row in failed if partial_path(recordings.file_of(data_dir, row)).exists()]
    rows += _adopt_orphans(data_dir, database)
    done = [_salvage(data_dir, database, row, patience) for row in sorted(rows, key=lambda row: row.id)]
    return [item for item in done if item is not None]


def salvage_recording(
    data_dir: Path, database: Database, recording_id: str, *, patience: float = PATIENCE
) -> Salvaged | None:
    """Rescue one recording whose recorder is gone; None when there is nothing left to do.

    Raises
    ------
    NotFoundError
        There is no such recording.
    """
    with database.reading() as session:
        row = recordings.get(session, recording_id)
    if row.state in (RecordingState.COMPLETE, RecordingState.SALVAGED):
        return None
    return _salvage(data_dir, database, row, patience)


def _salvage(data_dir: Path, database: Database, row: RecordingRow, patience: float) -> Salvaged | None:
    path = recordings.file_of(data_dir, row)
    try:
        stored, reason = _complete(path, patience)
    except RecordingError as error:
        if error.code == "recording-busy":
            log.warning("recording %s is still being written, and is left alone", row.id)
            return Salvaged(row.id, Outcome.BUSY, path, 0, error.detail)
        return _enter_failure(database, row, path, error.detail)
    except OSError as error:
        detail = f"{partial_path(path)} cannot be completed ({error.strerror}); the next start tries again"
        return _enter_failure(database, row, path, detail)
    return _enter(database, row, stored, reason)


def _complete(path: Path, patience: float) -> tuple[StoredLog, str]:
    """Make the file whole; return its facts, and why the recording did not end in the usual way.

    Raises
    ------
    RecordingError
        ``recording-busy``: somebody writes it. Anything else: there is nothing to be had.
    OSError
        The disk is full, or cannot be written.
    """
    try:
        writer, seen = _resume(path, patience)
    except RecordingError as error:
        if error.code == "recording-busy":
            raise
        if error.code != "recording-gone":
            raise RecordingError(f"{error.detail}; {_put_aside(path)}", code=error.code) from error
        if path.exists():
            return _finished_already(path)
        raise RecordingError("its file was never begun, or has been removed", code=error.code) from error
    try:
        if not writer.samples:
            raise RecordingError(f"no sample had been stored; {_put_aside(path)}", code="recording-empty")
        damage = f", at byte {seen.damage.offset} {seen.damage.reason}" if seen.damage else ""
        reason = f"the recorder ended before the file was finished{damage}"
        return writer.finish({"salvaged": "true", "interrupted": "true", "reason": reason}), reason
    finally:
        writer.close()


def _resume(path: Path, patience: float) -> tuple[McapSampleWriter, StoredSamples]:
    """Open the ``.partial``; wait while a recorder that outlived the service completes it."""
    due = time.monotonic() + patience
    while True:
        try:
            return McapSampleWriter.resume(path)
        except RecordingError as error:
            if error.code != "recording-busy" or time.monotonic() > due:
                raise
        time.sleep(0.05)


def _finished_already(path: Path) -> tuple[StoredLog, str]:
    stored, facts = describe(path)
    return stored, facts.get(SUMMARY, {}).get("reason") or NOT_ENTERED


def _put_aside(path: Path) -> str:
    """Rename what cannot be used, so that it is kept, but not tried again."""
    aside = path.with_name(path.name + ".unreadable")
    try:
        partial_path(path).rename(aside)
    except FileNotFoundError:  # another salvage has just done it
        return "the file has been put aside"
    return f"the file is kept as {aside.name}"


def _enter(database: Database, row: RecordingRow, stored: StoredLog, reason: str) -> Salvaged | None:
    try:
        with database.session() as session:
            recordings.finish(
                session,
                row.id,
                RecordingState.SALVAGED,
                sha256=stored.sha256,
                size=stored.bytes,
                samples=stored.samples,
                lost=stored.lost,
                lapped=stored.lapped,
                reason=reason,
            )
    except ConflictError:  # another salvage has just entered it
        return None
    log.warning("recording %s salvaged, %d samples: %s", row.id, stored.samples, reason)
    return Salvaged(row.id, Outcome.SALVAGED, stored.path, stored.samples, reason)


def _enter_failure(database: Database, row: RecordingRow, path: Path, detail: str) -> Salvaged | None:
    log.error("recording %s cannot be salvaged: %s", row.id, detail)
    if row.state != RecordingState.FAILED:
        try:
            with database.session() as session:
                recordings.fail(session, row.id, detail)
        except ConflictError:
            return None
    return Salvaged(row.id, Outcome.FAILED, path, 0, detail)


def _adopt_orphans(data_dir: Path, database: Database) -> list[RecordingRow]:
    """Enter unfinished files that the database knows nothing of: it may have been lost, or set back."""
    adopted = []
    for partial in sorted((data_dir / recordings.FOLDER).rglob("*.partial")):
        path = partial.with_suffix("")
        relative = path.relative_to(data_dir).as_posix()
        with database.reading() as session:
            known = recordings.find_by_path(session, relative)
        if known is None:
            adopted.append(_adopt(database, partial, relative))
    return [row for row in adopted if row is not None]


def _adopt(database: Database, partial: Path, relative: str) -> RecordingRow | None:
    facts = _facts_of(partial)
    robot = facts.get(RECORDING, {}).get("robot", partial.parent.name)
    identifier = facts.get(CONTEXT, {}).get("recording_id") or None
    try:
        with database.session() as session:
            row = recordings.create(session, robot=robot, identifier=identifier, path=relative)
            events.record(
                session,
                "recording.adopted",
                f"{relative} was found without an entry in the database",
                subject=row.id,
                robot=robot,
            )
    except StorageRefusedError:  # another salvage adopts it, or the identifier is taken
        log.warning("%s is left alone: %s has an entry of another file", partial, identifier)
        return None
    return row


def _facts_of(partial: Path) -> dict[str, dict[str, str]]:
    try:
        return read_samples(partial, allow_truncated=True).facts
    except RecordingError:  # nothing in it; what is done about that is decided when it is salvaged
        return {}
