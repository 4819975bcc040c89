"""A look at everything that may be wrong or unsafe with an installation, before it matters."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from core.errors import DynidError
from core.models import resolve
from service.api.auth import KEY_FILE
from service.settings import RobotSettings, Settings
from service.storage import Database, api_keys, audit
from service.upkeep.disk import free_bytes

Grade = Literal["ok", "warning", "unsafe"]

_ROOM_HOURS = 8.0
_BYTES_PER_SAMPLE = 320
"""What a recorded sample of six joints takes."""
_RLIMIT_RTPRIO_NEEDED = 20


@dataclass(frozen=True)
class Finding:
    """Of one thing that was looked at: how it is, in words, and what to do where it is not well."""

    subject: str
    grade: Grade
    text: str
    remedy: str | None = None


def examine(settings: Settings) -> list[Finding]:
    """Look at settings, folders, database, keys and machine; nothing is changed, no robot is asked."""
    found = [*_access(settings), *_folders(settings), *_database(settings), *_machine()]
    for robot in settings.robots.values():
        found += _robot(robot)
    if not settings.robots:
        found.append(Finding("robots", "warning", "none is configured", "add [robots.NAME] to the settings"))
    return found


def _access(settings: Settings) -> Iterator[Finding]:
    public = settings.host not in ("localhost", "::1") and not settings.host.startswith("127.")
    if not settings.authentication:
        yield Finding(
            "authentication",
            "unsafe",
            "is off: every program on this machine can move the robots",
            "remove authentication = false",
        )
    if not public:
        yield Finding("address", "ok", f"{settings.host} is reached from this machine only")
    elif settings.tls_certificate is not None:
        yield Finding("address", "ok", f"{settings.host} is reached from other machines, by TLS")
    else:
        yield Finding(
            "address",
            "warning",
            f"{settings.host} is reached from other machines without TLS of its own: keys are safe only if nothing but "
            "the proxy reaches this port",
            "keep the port closed for others by a firewall, or bind to the address that the proxy uses",
        )
    if settings.metrics_public:
        yield Finding("metrics", "warning", "are readable without a key", "remove metrics_public = true")


def _folders(settings: Settings) -> Iterator[Finding]:
    data = settings.data_dir
    if not data.is_dir():
        yield Finding("data_dir", "warning", f"{data} does not exist yet", "start the service once")
        return
    mode = data.stat().st_mode & 0o077
    if mode:
        yield Finding("data_dir", "unsafe", f"others may look into {data}", f"chmod 700 {data}")
    else:
        yield Finding("data_dir", "ok", f"{data} is for its owner only")
    key = data / KEY_FILE
    if key.is_file() and key.stat().st_mode & 0o077:
        yield Finding("api-key", "unsafe", f"others may read {key}", f"delete {key}, which makes a new key")
    needed = sum(_ROOM_HOURS * 3600.0 * robot.rate_hz * _BYTES_PER_SAMPLE for robot in settings.robots.values())
    free = free_bytes(data)
    text = f"{free / 1e9:.1f} GB are free in {data}"
    if free < settings.disk_floor_bytes:
        yield Finding("disk", "warning", f"{text}: nothing can be recorded", "make room, or set keep_recordings_days")
    elif free < needed:
        text += f"; eight hours of all robots take {needed / 1e9:.1f} GB"
        yield Finding("disk", "warning", text, "make room, or set keep_recordings_days")
    else:
        yield Finding("disk", "ok", text)


def _database(settings: Settings) -> Iterator[Finding]:
    try:
        database = Database(settings.database)
        database.verify()
        with database.reading() as session:
            broken = audit.first_broken(session)
            number, _ = audit.newest(session)
            wide = sorted(who.name for who in api_keys.principals(session).values() if who.role == "admin")
        database.close()
    except DynidError as error:
        yield Finding("database", "warning", error.detail, "start the service once, or see the message")
        return
    yield Finding("database", "ok", f"{database.name} can be read")
    if broken is not None:
        yield Finding(
            "audit",
            "unsafe",
            f"row {broken} does not continue the one before: the audit was changed",
            "compare with a backup",
        )
    else:
        yield Finding("audit", "ok", f"{number} rows, each continues the one before")
    if wide:
        yield Finding(
            "keys", "warning", f"{', '.join(wide)} may do everything, as admin", "give the least role that will do"
        )


def _machine() -> Iterator[Finding]:
    if os.getuid() == 0:
        yield Finding("user", "warning", "this is root", "run the service as a user of its own")
    if _may_use_realtime():
        yield Finding("real time", "ok", "device hosts may ask for SCHED_FIFO")
    else:
        yield Finding(
            "real time",
            "warning",
            "device hosts may not ask for SCHED_FIFO: on a busy machine samples are lost and motions end early",
            f"give LimitRTPRIO={_RLIMIT_RTPRIO_NEEDED} in the unit, or CAP_SYS_NICE",
        )


def _may_use_realtime() -> bool:
    """Ask the kernel for what device hosts ask for, in a process that ends at once."""
    child = os.fork()
    if child == 0:
        code = 0
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_RLIMIT_RTPRIO_NEEDED))
        except OSError:
            code = 1
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _robot(robot: RobotSettings) -> Iterator[Finding]:
    subject = f"robot {robot.name}"
    try:
        resolve(robot.model)
    except DynidError as error:
        yield Finding(subject, "warning", f"its model cannot be loaded: {error.detail}", "see the message")
    kind = "virtual" if robot.virtual else "real"
    moves = "may be moved" if robot.motion_enabled else "is only listened to"
    yield Finding(subject, "ok", f"{kind}, {moves}")
    if robot.motion_enabled and not robot.virtual and robot.workspace == type(robot.workspace)():
        yield Finding(
            subject,
            "unsafe",
            "moves without floor, box or self-collision: only its joints are limited",
            f"set workspace of [robots.{robot.name}]",
        )
    if robot.driver == "beckhoff_ads":
        yield Finding(
            subject,
            "warning",
            "ADS knows no keys: whoever reaches the PLC's port can write to it",
            "keep the PLC in a network of its own, and its route to this host only",
        )
