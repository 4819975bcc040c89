"""What a layout file may say, and that it says nothing else.

A layout is TOML. ``source`` says which document confirms what. Binary feedback::

    format = "dynid-vendor-socket"
    version = 1
    name = "some_robot"
    source = "Vendor's manual 1.2, table 7"
    confirmed = true                   # false: not checked against the vendor's document
    n_joints = 6
    rate_hz = 1000.0

    [feedback]
    kind = "binary"
    port = 7788
    endian = "little"
    size = 180                         # bytes; or, where firmware decides:
    # size = { offset = 0, type = "u32", least = 607, most = 4096 }
    #                                    and `excludes = 4` where it does not count so many bytes of header
    magic = { offset = 0, hex = "52 35 aa 55" }                # optional, may be anywhere in the frame
    sequence = { offset = 8, type = "u32" }                    # optional; `step` between two frames, 1
    stamp = { offset = 12, type = "u64", unit = "ns" }         # s, ms, us or ns
    checksum = { kind = "crc32", offset = 176, type = "u32" }  # optional; over bytes [first, end), by default
    #                                                            from 0 to the checksum itself

    [feedback.signals]                 # q and any of qd, current, torque, target_q, target_qd, target_current,
    q = { offset = 20, type = "f64", unit = "rad" }            # target_torque; `count` values are there,
    current = { offset = 116, type = "i32", unit = "mA" }      # n_joints by default, of which `joints` are used,
    #                                    the first ones by default; value x `scale` (1) is in `unit`; `optional`:
    #                                    not in the shorter frames of older firmware

    [feedback.status]                  # moving, program_running, protective_stop, emergency_stop, fault:
    protective_stop = { offset = 164, type = "u32", mask = 4 } # any of these bits set, or
    fault = { offset = 24, type = "u64", values = [9, 11] }    # one of these values

    [feedback.robot_mode]              # and safety_mode: words for what the operator sees
    offset = 24
    type = "u64"
    names = { 5 = "ENABLED", 7 = "RUNNING" }

JSON feedback has ``kind = "json"``, ``begin``, the text every frame begins with, and a ``path`` in place of each
offset and type: ``"joints.*.current"`` goes through objects by key and arrays by index, ``*`` through a whole
array. A stamp is optional there; without one losses cannot be counted.

Commands are lines of text, whatever their syntax::

    [commands]
    port = 7789
    end = "\\n"                        # appended to each command
    reply_end = "\\n"                  # closes each reply
    accepted = '"ok": ?true'           # regular expression that finds something in the reply to what was accepted
    answers = '"id": ?<id>\\b'         # ... and one for which reply belongs to a command, if others may come: <id> is
    #                                    the command's number, <text> the whole of what was sent
    angle = "rad"                      # of points: rad or deg
    period = 0.004                     # s between points
    lookahead = 0.1                    # s of points that are sent ahead, for the controller to buffer

    [commands.texts]                   # each optional
    servo_point = 'ServoJ(<q>,t=<period>)'
    stop = { text = 'Stop()', accepted = '^0,' }               # `accepted` or `answers` of its own
    quiet = { text = '...', replies = false }                  # or none, where the controller does not answer

    [commands.identity]                # regular expressions over the reply to read_state, one group each
    model = '"model": ?"([^"]*)"'

The texts are ``read_state``, ``start_feedback`` (``<rate_hz>``, ``<period_ms>``), ``stop_feedback``, ``enable``,
``servo_begin`` (``<period_ms>``, ``<lookahead_ms>``, ``<period>``, ``<lookahead>``), ``servo_point`` (``<q>``,
``<qd>`` and these four), ``servo_end``, ``stop``, ``release`` (of a protective stop); ``<id>`` counts in all of
them. To move, a robot needs ``servo_point`` and ``stop``, and q, qd and target_q in its feedback, by which it is
watched; where something is missing it can only be listened to.
"""

from __future__ import annotations

import itertools
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from core.errors import InputError
from drivers.vendor_socket.command_layout import Commands
from drivers.vendor_socket.feedback_layout import UNITS, BinaryFeedback, JsonFeedback, Part

WATCHED = ("q", "qd", "target_q")
"""Signals without which a motion could not be watched over."""


class LayoutError(InputError):
    """A layout file is missing, or says something that it may not."""

    code = "layout-invalid"


class Layout(Part):
    """One vendor's protocol; see this module's text."""

    format: Literal["dynid-vendor-socket"]
    version: Literal[1]
    name: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    confirmed: bool
    n_joints: Annotated[int, Field(ge=1, le=32)]
    rate_hz: Annotated[float, Field(gt=0, le=4000)]
    feedback: Annotated[BinaryFeedback | JsonFeedback, Field(discriminator="kind")]
    commands: Commands | None = None

    @property
    def motion_gap(self) -> str | None:
        """What is missing to move the robot; None when nothing is."""
        if self.commands is None:
            return "it describes no commands"
        missing = [name for name in ("servo_point", "stop") if self.commands.texts.get(name) is None]
        if missing:
            return f"its commands lack {' and '.join(missing)}"
        unseen = [name for name in WATCHED if name not in self.feedback.signals]
        return f"its feedback lacks {' and '.join(unseen)}, by which a motion is watched" if unseen else None

    @model_validator(mode="after")
    def _signals_fit(self) -> Self:
        if "q" not in self.feedback.signals:
            raise ValueError("feedback.signals: q is missing")
        for name, signal in self.feedback.signals.items():
            units = UNITS[name.removeprefix("target_")]
            if signal.unit not in units:
                raise ValueError(f"feedback.signals.{name}: unknown unit '{signal.unit}'; known: {', '.join(units)}")
            count = signal.count or self.n_joints
            joints = range(self.n_joints) if signal.joints is None else signal.joints
            if len(joints) != self.n_joints or max(joints) >= count:
                raise ValueError(
                    f"feedback.signals.{name}: {len(joints)} of {count} values are used, the robot has "
                    f"{self.n_joints} joints"
                )
        if isinstance(self.feedback, BinaryFeedback):
            _check_places(self.feedback, self.n_joints)
        return self


def load_layout(name: str) -> Layout:
    """Read a layout that ships, by name, or a file, by a path that has a folder or a suffix.

    Raises
    ------
    LayoutError
    """
    shipped = files("drivers.vendor_socket") / "layouts"
    try:
        if is_path(name):
            text = Path(name).read_text(encoding="utf-8")
        else:
            text = (shipped / f"{name}.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        names = sorted(entry.name.removesuffix(".toml") for entry in shipped.iterdir())
        raise LayoutError(
            f"layout '{name}' cannot be read ({error}); give the path of a file or one of {', '.join(names)}"
        ) from error
    try:
        return Layout.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise LayoutError(f"layout '{name}' is not valid TOML: {error}") from error
    except ValidationError as error:
        raise LayoutError(f"layout '{name}': {_problems(error)}") from error


def is_path(name: str) -> bool:
    """Tell a path from the name of a layout that ships."""
    return "/" in name or bool(Path(name).suffix)


def _check_places(feedback: BinaryFeedback, n_joints: int) -> None:
    """Everything lies within the shortest frame, and header and signals do not overlap."""
    taken: list[tuple[int, int, str]] = []
    for key, offset, width in feedback.places(n_joints):
        taken.append((offset, offset + width, key))
    taken.sort()
    for (_, end, first), (begin, _, second) in itertools.pairwise(taken):
        if begin < end:
            raise ValueError(f"feedback.{second} begins at byte {begin}, within feedback.{first}")
    optional = {f"signals.{name}" for name, signal in feedback.signals.items() if signal.optional}
    conditions = [(place.offset, place.offset + place.width, key) for key, place in feedback.conditions()]
    for begin, end, key in taken + conditions:
        if end > feedback.least and key not in optional:
            raise ValueError(f"feedback.{key}: bytes {begin} to {end} are not within a frame of {feedback.least} bytes")


def _problems(error: ValidationError) -> str:
    messages = {"extra_forbidden": "is not known here", "missing": "is required"}
    found: list[str] = []
    for item in error.errors(include_url=False):
        where = ".".join(str(part) for part in item["loc"] if part not in ("binary", "json", "[key]"))
        message = messages.get(item["type"], item["msg"].removeprefix("Value error, "))
        found.append(f"{where} {message}" if where else message)
    return "; ".join(dict.fromkeys(found))
