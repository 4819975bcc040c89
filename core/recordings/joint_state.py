"""``sensor_msgs/msg/JointState``: from CDR bytes to a table of stamps, positions, velocities and efforts.

Messages of one publisher differ in their stamp and their numbers only, so they are decoded together: one message
gives the layout, all that share it become one byte matrix.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import RecordingError
from core.recordings.column_map import ColumnMap, Key, SignalColumns
from core.recordings.recording import Recording
from core.recordings.table import recording_from

Array = NDArray[np.float64]

MESSAGE_TYPE = "sensor_msgs/msg/JointState"
_FIELDS = ("position", "velocity", "effort")
_BODY = 4
"""Bytes of the encapsulation header, from behind which CDR aligns."""
_STAMP = slice(_BODY, _BODY + 8)
_MOST_JOINTS = 4096


@dataclass(frozen=True)
class RawMessages:
    """The messages of one topic as they are stored.

    Attributes
    ----------
    log_times : ns since 1970 at which each was received.
    """

    topic: str
    log_times: Sequence[int]
    payloads: Sequence[bytes]


def joint_state_recording(
    messages: RawMessages,
    path: Path,
    rows: tuple[int, int] | None,
    columns: ColumnMap,
    provenance: dict[str, Any],
    *,
    repair: bool = False,
) -> Recording:
    """Return the recording that JointState messages hold; arguments as in ``recording_from``.

    The joints are those of ``columns.joint_names``, in that order; by default those of the messages, if all are of
    the same ones. Messages of none of the wanted joints are passed over, the provenance counts them. Times are the
    messages' own stamps, or the times of their arrival where a stamp is zero.

    Raises
    ------
    RecordingError
        Code ``recording-torn`` (a message is no JointState), ``joint-names-differ`` (different joints from message to
        message, or not those asked for), ``recording-shape`` and those of ``recording_from``.
    """
    groups = _decoded(messages, path)
    names = columns.joint_names or _common_names(groups, path)
    chosen = [group for group in groups if set(names) & set(group.names)]
    for group in chosen:
        missing = [name for name in names if name not in group.names]
        if missing:
            raise _names_differ(path, f"message {group.indices[0] + 1} has no {', '.join(missing)}", group.names)
    if not chosen:
        raise _names_differ(path, f"no message is of {', '.join(names)}", groups[0].names)
    used = np.sort(np.concatenate([group.indices for group in chosen]))
    fields = {
        field: _assembled(field, chosen, used, names, path)
        for field in _FIELDS
        if all(getattr(group, field) is not None for group in chosen)
    }
    stamps = _ordered(chosen, used, [group.stamps for group in chosen])
    stamped = bool(np.all(stamps > 0))
    if not stamped:
        stamps = np.array(messages.log_times, dtype=np.int64)[used]
    table = _JointStates((stamps - stamps[0]) * 1e-9, fields)
    facts = {
        **provenance,
        "topic": messages.topic,
        "clock": "stamps" if stamped else "arrival",
        "first_stamp_ns": int(stamps[0]),
        "messages_of_other_joints": len(messages.payloads) - used.size,
    }
    mapped = _mapped(replace(columns, joint_names=tuple(names)), fields)
    return recording_from(table, mapped, path, rows, facts, repair=repair)


@dataclass(frozen=True)
class _JointStates:
    stamps: Array
    fields: dict[str, Array]

    @property
    def names(self) -> Sequence[str]:
        return ("stamp", *self.fields)

    @property
    def n_rows(self) -> int:
        return int(self.stamps.size)

    def column(self, key: Key, first: int, last: int) -> NDArray[Any]:
        if key == "stamp":
            return self.stamps[first - 1 : last]
        if not isinstance(key, str):
            raise KeyError(key)
        return self.fields[key][first - 1 : last]


def _mapped(columns: ColumnMap, fields: dict[str, Array]) -> ColumnMap:
    if columns.signals:
        return columns
    where = {"t": "stamp", "q": "position", "qd": "velocity", columns.effort: "effort"}
    found = {signal: SignalColumns((name,)) for signal, name in where.items() if name == "stamp" or name in fields}
    return replace(columns, signals=found)


@dataclass(frozen=True)
class _Group:
    """Messages of one layout: where they come among all, and their values; None for an empty field."""

    indices: NDArray[np.intp]
    names: tuple[str, ...]
    stamps: NDArray[np.int64]
    position: Array | None
    velocity: Array | None
    effort: Array | None


@dataclass(frozen=True)
class _Layout:
    order: str  # of bytes
    names: tuple[str, ...]
    fields: dict[str, slice | None]


def _decoded(messages: RawMessages, path: Path) -> list[_Group]:
    waiting = np.arange(len(messages.payloads))
    sizes = np.array([len(payload) for payload in messages.payloads])
    groups = []
    while waiting.size:
        first = int(waiting[0])
        layout = _layout(messages.payloads[first], first, path)
        same_size = waiting[sizes[waiting] == sizes[first]]
        raw = np.frombuffer(b"".join(messages.payloads[i] for i in same_size), np.uint8).reshape(same_size.size, -1)
        fixed = np.ones(raw.shape[1], dtype=np.bool_)
        for part in (_STAMP, *(p for p in layout.fields.values() if p is not None)):
            fixed[part] = False
        alike = (raw[:, fixed] == raw[0, fixed]).all(axis=1)
        groups.append(_group(same_size[alike], raw[alike], layout))
        waiting = np.setdiff1d(waiting, same_size[alike])
    return groups


def _group(indices: NDArray[np.intp], raw: NDArray[np.uint8], layout: _Layout) -> _Group:
    def numbers(part: slice, kind: str) -> NDArray[Any]:
        return np.ascontiguousarray(raw[:, part]).view(layout.order + kind)

    seconds = numbers(slice(_STAMP.start, _STAMP.start + 4), "i4")[:, 0].astype(np.int64)
    nanoseconds = numbers(slice(_STAMP.start + 4, _STAMP.stop), "u4")[:, 0]
    fields = {
        name: None if part is None else numbers(part, "f8").astype(np.float64) for name, part in layout.fields.items()
    }
    return _Group(indices, layout.names, seconds * 1_000_000_000 + nanoseconds, **fields)


def _layout(payload: bytes, index: int, path: Path) -> _Layout:
    """Find out where a message has its numbers."""
    try:
        return _parsed(payload)
    except (struct.error, ValueError) as error:
        raise RecordingError(
            f"{path}: message {index + 1} is no {MESSAGE_TYPE}: {error}", code="recording-torn", path=str(path)
        ) from error


def _parsed(payload: bytes) -> _Layout:
    order = {b"\x00\x00": ">", b"\x00\x01": "<"}.get(payload[:2])
    if order is None:
        raise ValueError("its encapsulation is not plain CDR")
    _, at = _text(payload, _STAMP.stop, order)  # frame_id
    count, at = _count(payload, at, order)
    names = []
    for _ in range(count):
        name, at = _text(payload, at, order)
        names.append(name)
    fields: dict[str, slice | None] = {}
    for field in _FIELDS:
        size, at = _count(payload, at, order)
        if size not in (0, count):
            raise ValueError(f"it has {size} values of {field} for {count} names")
        start = _aligned(at, 8) if size else at
        at = start + 8 * size
        fields[field] = slice(start, at) if size else None
    if at > len(payload):
        raise ValueError("it ends within its numbers")
    return _Layout(order, tuple(names), fields)


def _aligned(at: int, size: int) -> int:
    return at + -(at - _BODY) % size


def _count(payload: bytes, at: int, order: str) -> tuple[int, int]:
    at = _aligned(at, 4)
    (count,) = struct.unpack_from(order + "I", payload, at)
    if count > _MOST_JOINTS:
        raise ValueError(f"it announces {count} entries")
    return count, at + 4


def _text(payload: bytes, at: int, order: str) -> tuple[str, int]:
    length, at = _count(payload, at, order)
    if at + length > len(payload):
        raise ValueError("it ends within a text")
    return payload[at : at + length].rstrip(b"\0").decode(), at + length


def _common_names(groups: Sequence[_Group], path: Path) -> tuple[str, ...]:
    first = groups[0].names
    for group in groups:
        if set(group.names) != set(first):
            raise _names_differ(path, f"message {group.indices[0] + 1} is of other joints than the first", group.names)
    return first


def _ordered(groups: Sequence[_Group], used: NDArray[np.intp], parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    joined = np.concatenate(parts)
    result = np.empty_like(joined)
    result[np.searchsorted(used, np.concatenate([group.indices for group in groups]))] = joined
    return result


def _assembled(field: str, groups: Sequence[_Group], used: NDArray[np.intp], names: Sequence[str], path: Path) -> Array:
    parts = [getattr(group, field)[:, [group.names.index(name) for name in names]] for group in groups]
    return _ordered(groups, used, parts)


def _names_differ(path: Path, what: str, found: Sequence[str]) -> RecordingError:
    return RecordingError(
        f"{path}: {what} ({', '.join(found)}); say by joint_names of the column map which joints to read, or by topic "
        "which messages",
        code="joint-names-differ",
        path=str(path),
        recorded=list(found),
    )
