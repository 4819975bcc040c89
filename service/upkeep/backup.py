"""Backups of a running service, and what restores them.

A backup is one tar file: ``manifest.json`` first, with the SHA-256 of everything that follows and the newest link of
the audit's chain; then the database as it was at one moment, and every finished recording that it names. It holds no
key.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from core.errors import DynidError
from service.api.folders import own_folders
from service.settings import Settings
from service.storage import Database, RecordingState, audit, recordings, utc_now

KIND = "dynid-backup"
VERSION = 1
MANIFEST = "manifest.json"
DATABASE = "dynid.sqlite3"
_FINISHED = (RecordingState.COMPLETE, RecordingState.SALVAGED)
_CHUNK = 1 << 20


class BackupError(DynidError):
    """It cannot be made, read or put back; nothing was changed."""

    code = "backup-failed"


@dataclass(frozen=True)
class Backup:
    """What a backup holds: when it was made, how many recordings, how many bytes, and the audit's newest link.

    ``damaged`` are recordings that are not in it, as their files are gone or not what was recorded.
    """

    made_at: datetime
    recordings: int
    bytes: int
    damaged: tuple[str, ...]
    audit: tuple[int, str]


def make_backup(settings: Settings, target: Path) -> Backup:
    """Write a backup of the service's data, which may be running, to a new file.

    Raises
    ------
    BackupError
        The file exists or cannot be written, or the database is on a server, of which ``pg_dump`` makes backups.
    StorageError
        The database cannot be read.
    """
    source = _sqlite_file(settings)
    if target.exists():
        raise BackupError(f"{target} exists already; give another name", code="backup-exists", path=str(target))
    with _explained(target), tempfile.TemporaryDirectory(prefix=".dynid-backup-", dir=target.parent) as scratch:
        copy = Path(scratch) / DATABASE
        with closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as live, closing(sqlite3.connect(copy)) as to:
            live.backup(to)
        named, newest = _contents(settings.data_dir, copy)
        files = {name: (path, digest) for name, (path, digest) in named.items() if _is_whole(path, digest)}
        manifest = {
            "kind": KIND,
            "version": VERSION,
            "made_at": utc_now().isoformat(),
            "files": {DATABASE: _sha256(copy), **{name: digest for name, (_, digest) in files.items()}},
            "damaged": sorted(set(named) - set(files)),
            "audit": list(newest),
        }
        made = Path(scratch) / "backup.tar"
        with tarfile.open(made, "w") as tar:
            _add_text(tar, MANIFEST, json.dumps(manifest, indent=1))
            tar.add(copy, DATABASE)
            for name, (path, _) in files.items():
                tar.add(path, name)
        with made.open("rb") as written:
            os.fsync(written.fileno())
        made.replace(target)
    return _described(manifest, target)


def restore_backup(settings: Settings, source: Path) -> Backup:
    """Put a backup into the data folder, which must hold neither a database nor recordings.

    Everything is unpacked and checked beside it before anything is moved in.

    Raises
    ------
    BackupError
        The file is no backup, damaged or of a later version; or there is data in the folder.
    ConfigurationError
        A service works in the folder.
    """
    database = _sqlite_file(settings)
    with own_folders(settings), _explained(source):
        present = [path for path in (database, settings.data_dir / recordings.FOLDER) if _holds_something(path)]
        if present:
            raise BackupError(
                f"{present[0]} holds data; restore into an empty data folder, and move the old one away yourself",
                code="backup-target-not-empty",
                path=str(present[0]),
            )
        with tempfile.TemporaryDirectory(prefix=".dynid-restore-", dir=settings.data_dir) as scratch:
            manifest = _unpack(source, Path(scratch))
            Database(f"sqlite:///{Path(scratch) / DATABASE}").create()  # which brings an older one up to date
            for name in manifest["files"]:
                if name != DATABASE:
                    goal = settings.data_dir / name
                    goal.parent.mkdir(parents=True, exist_ok=True)
                    (Path(scratch) / name).replace(goal)
            with closing(sqlite3.connect(Path(scratch) / DATABASE)) as whole:
                whole.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (Path(scratch) / DATABASE).replace(database)  # last: without it there is nothing
    return _described(manifest, source)


def _contents(data_dir: Path, database: Path) -> tuple[dict[str, tuple[Path, str]], tuple[int, str]]:
    """Return path and digest of the finished recordings that a database names, and the audit's newest link."""
    copy = Database(f"sqlite:///{database}")
    try:
        copy.verify()
        with copy.reading() as session:
            rows = [row for state in _FINISHED for row in recordings.find(session, state=state, limit=None)]
            newest = audit.newest(session)
    finally:
        copy.close()
    return {row.path: (recordings.file_of(data_dir, row), str(row.sha256)) for row in rows}, newest


def _is_whole(path: Path, digest: str) -> bool:
    return path.is_file() and _sha256(path) == digest


def _unpack(source: Path, folder: Path) -> Mapping[str, Any]:
    """Unpack what the manifest lists, checked, into a folder."""
    with tarfile.open(source, "r:") as tar:
        first = tar.next()
        manifest = _manifest(_read(tar, first) if first is not None and first.name == MANIFEST else b"", source)
        expected = dict(manifest["files"])
        for member in iter(tar.next, None):
            digest = expected.pop(member.name, None)
            if digest is None or not member.isfile():
                raise BackupError(f"{source}: {member.name} is not in its manifest", code="backup-damaged")
            goal = folder / member.name
            if not goal.resolve().is_relative_to(folder.resolve()):
                raise BackupError(f"{source}: {member.name} leads out of the folder", code="backup-damaged")
            goal.parent.mkdir(parents=True, exist_ok=True)
            stream = tar.extractfile(member)
            assert stream is not None  # noqa: S101 - of a file there is one
            with goal.open("wb") as out:
                shutil.copyfileobj(stream, out, _CHUNK)
            if _sha256(goal) != digest:
                raise BackupError(f"{source}: {member.name} is damaged", code="backup-damaged", path=str(source))
    if expected:
        raise BackupError(f"{source}: {next(iter(expected))} is missing", code="backup-damaged", path=str(source))
    return manifest


def _manifest(text: bytes, source: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
        known = document["kind"] == KIND and document["version"] == VERSION
        files = {str(name): str(digest) for name, digest in document["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupError(f"{source} is no backup of dynid", code="backup-foreign", path=str(source)) from error
    if not known or DATABASE not in files:
        raise BackupError(f"{source} is no backup that this dynid knows", code="backup-foreign", path=str(source))
    return {**document, "files": files}


def _described(manifest: Mapping[str, Any], path: Path) -> Backup:
    number, chain = manifest["audit"]
    made_at = datetime.fromisoformat(manifest["made_at"])
    count, size = len(manifest["files"]) - 1, path.stat().st_size
    return Backup(made_at, count, size, tuple(manifest["damaged"]), (int(number), str(chain)))


def _sqlite_file(settings: Settings) -> Path:
    if settings.database_url is not None and not settings.database_url.startswith("sqlite"):
        raise BackupError(
            "the database is on a server: back it up with pg_dump and restore it with pg_restore, and copy the folder "
            f"{settings.data_dir / recordings.FOLDER}",
            code="backup-of-server",
        )
    return Path(settings.database.removeprefix("sqlite:///"))


def _holds_something(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(text.encode())
    tar.addfile(member, io.BytesIO(text.encode()))


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = tar.extractfile(member)
    return b"" if stream is None else stream.read()


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, tarfile.TarError, sqlite3.Error) as error:
        raise BackupError(f"{path}: {error}", path=str(path)) from error
