"""Room on the disk, old recordings, and what the doctor says."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from core.errors import RecordingError
from service.api.auth import KEY_FILE
from service.cli import app
from service.settings import RobotSettings, Settings
from service.storage import Database, RecordingRow, RecordingState, api_keys, audit, recordings, utc_now
from service.storage.tables import ResultRow
from service.upkeep.disk import free_bytes, require_room
from service.upkeep.doctor import examine
from service.upkeep.retention import remove_old


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(data_dir=tmp_path / "data", runtime_dir=tmp_path / "run")
    database = Database(settings.database)
    database.create()
    database.close()
    settings.data_dir.chmod(0o700)
    return settings


def test_too_little_room_is_said_before_anything_is_recorded(tmp_path: Path) -> None:
    require_room(tmp_path, 0)
    with pytest.raises(RecordingError, match="have to stay free") as refusal:
        require_room(tmp_path, free_bytes(tmp_path) + (1 << 40))
    assert refusal.value.code == "disk-full"


def aged(settings: Settings, database: Database, days: float) -> RecordingRow:
    with database.session() as session:
        row = recordings.create(session, robot="cell")
        path = recordings.file_of(settings.data_dir, row)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"samples")
        recordings.finish(session, row.id, RecordingState.COMPLETE, sha256="0", size=7, samples=1, lost=0, lapped=0)
        row.ended_at = utc_now() - timedelta(days=days)
    return row


def test_old_recordings_go_unless_a_result_needs_them(settings: Settings) -> None:
    database = Database(settings.database)
    young, old, needed = (aged(settings, database, days) for days in (1.0, 40.0, 40.0))
    with database.session() as session:
        facts = {"robot": "cell", "kind": "identification", "state": "candidate", "settings": {}, "document": {}}
        session.add(ResultRow(id="res_1", recording_ids=[needed.id], created_at=utc_now(), **facts))
    assert remove_old(settings.data_dir, database, 30.0) == [old.id]
    assert remove_old(settings.data_dir, database, 30.0) == []
    with database.reading() as session:
        states = {row.id: recordings.get(session, row.id).state for row in (young, old, needed)}
    assert states == {young.id: "complete", old.id: "removed", needed.id: "complete"}
    present = {row.id for row in (young, old, needed) if recordings.file_of(settings.data_dir, row).exists()}
    assert present == {young.id, needed.id}
    database.close()


def test_a_file_that_was_left_by_a_crash_goes_the_next_time(settings: Settings) -> None:
    database = Database(settings.database)
    row = aged(settings, database, 40.0)
    with database.session() as session:
        recordings.remove(session, row.id, "too old")
    assert remove_old(settings.data_dir, database, 30.0) == []
    assert not recordings.file_of(settings.data_dir, row).exists()
    database.close()


def findings(settings: Settings) -> dict[str, tuple[str, str]]:
    return {finding.subject: (finding.grade, finding.text) for finding in examine(settings)}


def test_the_doctor_finds_a_sound_installation_sound(settings: Settings) -> None:
    found = findings(settings)
    assert {subject: found[subject][0] for subject in ("address", "data_dir", "database", "audit", "disk")} == {
        "address": "ok",
        "data_dir": "ok",
        "database": "ok",
        "audit": "ok",
        "disk": "ok",
    }


def test_the_doctor_names_what_is_unsafe(settings: Settings) -> None:
    settings.data_dir.chmod(0o755)
    (settings.data_dir / KEY_FILE).write_text("a key that everybody reads")
    (settings.data_dir / KEY_FILE).chmod(0o644)
    database = Database(settings.database)
    with database.session() as session:
        api_keys.create(session, name="everything", role=api_keys.Role.ADMIN, robots=None, created_by="test")
        audit.record(session, principal="p", action="POST /", robot=None, request_id="r")
        session.connection().exec_driver_sql("DROP TRIGGER audit_refuse_update")
        session.connection().exec_driver_sql("UPDATE audit SET principal = 'q'")
    database.close()
    arm = RobotSettings(name="arm", driver="universal_robots", host="192.0.2.1", model="ur10e", motion_enabled=True)
    wide = settings.model_copy(
        update={"host": "0.0.0.0", "authentication": False, "robots": {"arm": arm}, "disk_floor_bytes": 1 << 60}
    )
    found = findings(wide)
    unsafe = {subject for subject, (grade, _) in found.items() if grade == "unsafe"}
    assert unsafe == {"authentication", "data_dir", "api-key", "audit", "robot arm"}
    assert {found[subject][0] for subject in ("address", "disk", "keys")} == {"warning"}


def test_commands(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "dynid.toml"
    file.write_text(
        f'data_dir = "{settings.data_dir}"\n[robots.cell]\ndriver = "universal_robots"\nhost = "127.0.0.1"\n'
        'model = "ur10e"\nvirtual = true\n'
    )

    def run(*words: str) -> str:
        answer = CliRunner().invoke(app, [*words, "--config", str(file)], catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        return answer.output

    key = run("keys", "add", "plc-1", "--role", "viewer", "--robot", "cell").strip()
    assert key.startswith("dynid_")
    listed = run("keys", "list")
    assert "plc-1" in listed
    assert key not in listed
    assert "revoked" in run("keys", "revoke", "plc-1")
    assert "robot cell: virtual, is only listened to" in run("doctor")
    database = Database(settings.database)
    with database.reading() as session:
        assert [row.action for row in audit.find(session)] == ["revoke key plc-1", "add key plc-1"]
    database.close()
