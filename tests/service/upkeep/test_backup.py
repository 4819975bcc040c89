"""Backups: whole, checked, and back in place."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.settings import Settings
from service.storage import Database, RecordingRow, RecordingState, audit, events, recordings
from service.upkeep.backup import MANIFEST, BackupError, make_backup, restore_backup


def settings_in(folder: Path) -> Settings:
    return Settings(data_dir=folder / "data", runtime_dir=folder / "run")


def recorded(settings: Settings, database: Database, content: bytes) -> RecordingRow:
    with database.session() as session:
        row = recordings.create(session, robot="cell")
        path = recordings.file_of(settings.data_dir, row)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        facts = {"sha256": digest, "size": len(content), "samples": 1, "lost": 0, "lapped": 0}
        return recordings.finish(session, row.id, RecordingState.COMPLETE, **facts)


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Settings, list[RecordingRow]]:
    """A data folder with two recordings, something in the audit, and a writer that still has it open."""
    settings = settings_in(tmp_path / "old")
    database = Database(settings.database)
    database.create()
    rows = [recorded(settings, database, content) for content in (b"first", b"second")]
    with database.session() as session:
        audit.record(session, principal="p", action="POST /", robot=None, request_id="r")
    return settings, rows


def test_what_was_backed_up_comes_back(tmp_path: Path, kept: tuple[Settings, list[RecordingRow]]) -> None:
    settings, rows = kept
    made = make_backup(settings, tmp_path / "backup.tar")
    assert (made.recordings, made.damaged, made.audit[0]) == (2, (), 1)
    again = settings_in(tmp_path / "new")
    assert restore_backup(again, tmp_path / "backup.tar").made_at == made.made_at
    database = Database(again.database)
    with database.reading() as session:
        assert [row.id for row in recordings.find(session)] == [row.id for row in reversed(rows)]
        assert audit.newest(session) == made.audit
        assert len(events.find(session)) == 4
        contents = [recordings.file_of(again.data_dir, recordings.get(session, row.id)).read_bytes() for row in rows]
    database.close()
    assert contents == [b"first", b"second"]


def test_a_damaged_recording_is_named_and_the_rest_is_backed_up(
    tmp_path: Path, kept: tuple[Settings, list[RecordingRow]]
) -> None:
    settings, rows = kept
    recordings.file_of(settings.data_dir, rows[0]).write_bytes(b"changed")
    recordings.file_of(settings.data_dir, rows[1]).unlink()
    assert make_backup(settings, tmp_path / "backup.tar").damaged == tuple(row.path for row in rows)
    file = tmp_path / "dynid.toml"
    file.write_text(f"data_dir = {json.dumps(str(settings.data_dir))}\n")
    answer = CliRunner().invoke(app, ["backup", str(tmp_path / "other.tar"), "--config", str(file)])
    assert answer.exit_code == 1
    assert answer.output.count("not in it") == 2


def test_nothing_is_overwritten(tmp_path: Path, kept: tuple[Settings, list[RecordingRow]]) -> None:
    settings, _ = kept
    make_backup(settings, tmp_path / "backup.tar")
    with pytest.raises(BackupError, match="exists already"):
        make_backup(settings, tmp_path / "backup.tar")
    with pytest.raises(BackupError, match="holds data") as refusal:
        restore_backup(settings, tmp_path / "backup.tar")
    assert refusal.value.code == "backup-target-not-empty"


def rewritten(source: Path, target: Path, change: str) -> None:
    """Copy a backup with one thing wrong."""
    with tarfile.open(source) as tar, tarfile.open(target, "w") as out:
        for member in tar:
            stream = tar.extractfile(member)
            content = b"" if stream is None else stream.read()
            if member.name.endswith(".mcap"):
                if change == "missing":
                    continue
                content = b"other" if change == "damaged" else content
                member.name = "../../outside" if change == "outside" else member.name
            if change == "outside" and member.name == MANIFEST:
                content = json.dumps(manifest_leading_outside(json.loads(content))).encode()
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))


def manifest_leading_outside(document: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    names = list(document["files"])
    files = {"../../outside" if name.endswith(".mcap") else name: document["files"][name] for name in names}
    return {**document, "files": files}


@pytest.mark.parametrize(
    ("change", "code"), [("missing", "damaged"), ("damaged", "damaged"), ("outside", "damaged"), ("foreign", "foreign")]
)
def test_a_damaged_backup_changes_nothing(
    tmp_path: Path, kept: tuple[Settings, list[RecordingRow]], change: str, code: str
) -> None:
    make_backup(kept[0], tmp_path / "backup.tar")
    if change == "foreign":
        with tarfile.open(tmp_path / "bad.tar", "w") as tar:
            tar.add(tmp_path / "backup.tar", "something")
    else:
        rewritten(tmp_path / "backup.tar", tmp_path / "bad.tar", change)
    target = settings_in(tmp_path / "new")
    with pytest.raises(BackupError) as refusal:
        restore_backup(target, tmp_path / "bad.tar")
    assert refusal.value.code == f"backup-{code}"
    assert not (target.data_dir / "dynid.sqlite3").exists()
    assert not (tmp_path / "outside").exists()
    assert list((target.data_dir / recordings.FOLDER).iterdir()) == []


def test_a_server_has_its_own_backups(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, database_url="postgresql://dynid@db/dynid")
    with pytest.raises(BackupError, match="pg_dump"):
        make_backup(settings, tmp_path / "backup.tar")
