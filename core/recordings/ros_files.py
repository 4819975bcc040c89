"""Files of ROS 2 messages: MCAP files and bags, from which JointState messages are read."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Schema
from mcap.stream_reader import get_chunk_data_stream

from core.errors import RecordingError
from core.recordings.column_map import ColumnMap
from core.recordings.joint_sample import MESSAGE_ENCODING, SCHEMA_NAME
from core.recordings.joint_state import MESSAGE_TYPE, RawMessages, joint_state_recording
from core.recordings.mcap_container import MAGIC, Damage, Record, decode, inner_records, records
from core.recordings.optional_packages import optional_package
from core.recordings.recording import Recording

Rows = tuple[int, int]

_MESSAGE = struct.Struct("<HIQQ")


class _Message(NamedTuple):
    topic: str
    log_time: int
    payload: bytes


def holds_joint_states(path: Path) -> bool:
    """Tell whether an MCAP file's first channel of a known kind is of JointState messages, not of our own.

    False for anything that is no MCAP file: the reader of our own recordings says what it is instead.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return False
            channels = _Channels(path)
            for record in _flat(records(file), path, []):
                channels.take(record)
                if channels.of_joint_states:
                    return True
                if channels.of_ours:
                    return False
    except OSError:
        return False
    return False


def read_mcap_joint_states(
    path: Path, rows: Rows | None = None, *, columns: ColumnMap, repair: bool = False
) -> Recording:
    """Read the JointState messages of an MCAP file.

    Parameters
    ----------
    rows : first and last message, 1-based and inclusive.
    columns : ``topic`` where there are several, ``joint_names`` to choose joints, ``effort`` if it is current.
    repair : of a damaged file take what is whole; drop messages that are not finite or out of time order.

    Raises
    ------
    RecordingError
        Code ``recording-missing``, ``-truncated``, ``-foreign`` and those of ``joint_state_recording``.
    """
    damage: list[Damage] = []
    found: list[_Message] = []
    try:
        with path.open("rb") as file:
            file.seek(len(MAGIC))
            channels = _Channels(path)
            for record in _flat(records(file), path, damage):
                channels.take(record)
                if record.opcode == Opcode.MESSAGE:
                    channel, _, log_time, _ = _MESSAGE.unpack_from(record.content)
                    if channel in channels.of_joint_states:
                        topic = channels.of_joint_states[channel]
                        found.append(_Message(topic, log_time, record.content[_MESSAGE.size :]))
            file.seek(0)
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error
    if damage and not repair:
        raise RecordingError(
            f"{path}: damaged at byte {damage[0].offset} ({damage[0].reason}); the {len(found)} messages before it are "
            "whole: have the rest dropped by a repair to use them",
            code="recording-truncated",
            path=str(path),
            offset=damage[0].offset,
        )
    provenance: dict[str, Any] = {"format": "mcap", "sha256": sha256}
    if damage:
        provenance["damage"] = damage[0]._asdict()
    return joint_state_recording(_of_one_topic(found, columns, path), path, rows, columns, provenance, repair=repair)


def read_rosbag(path: Path, rows: Rows | None = None, *, columns: ColumnMap, repair: bool = False) -> Recording:
    """Read the JointState messages of a ROS 2 bag: its folder, or one of its files (``.db3``, ``.mcap``).

    Arguments and errors as in ``read_mcap_joint_states``, and ``extra-missing``.
    """
    rosbag2 = optional_package("rosbags.rosbag2", "rosbag")
    apsw = optional_package("apsw", "rosbag")
    if not path.exists():
        raise RecordingError(f"{path}: there is no such file or folder", code="recording-missing", path=str(path))
    try:
        with rosbag2.Reader(path) as bag:
            wanted = [connection for connection in bag.connections if connection.msgtype == MESSAGE_TYPE]
            others = {connection.topic: connection.msgtype for connection in bag.connections}
            if not wanted:
                raise _foreign(path, others)
            found = [_Message(c.topic, time, bytes(data)) for c, time, data in bag.messages(wanted)]
    except (rosbag2.ReaderError, apsw.Error, OSError, ValueError, KeyError, struct.error) as error:
        raise RecordingError(
            f"{path}: cannot be read as a ROS 2 bag: {error}", code="recording-foreign", path=str(path)
        ) from error
    messages = _of_one_topic(found, columns, path)
    provenance = {"format": "rosbag", "sha256": _hash(path)}
    return joint_state_recording(messages, path, rows, columns, provenance, repair=repair)


class _Channels:
    """Which channels of an MCAP file are which."""

    def __init__(self, path: Path) -> None:
        self.of_joint_states: dict[int, str] = {}
        self.of_ours = False
        self._schemas: dict[int, str] = {}
        self._path = path

    def take(self, record: Record) -> None:
        try:
            if record.opcode == Opcode.SCHEMA:
                schema: Schema = decode(Schema, record)
                self._schemas[schema.id] = schema.name
            elif record.opcode == Opcode.CHANNEL:
                channel: Channel = decode(Channel, record)
                name = self._schemas.get(channel.schema_id)
                if name == MESSAGE_TYPE and channel.message_encoding == MESSAGE_ENCODING:
                    self.of_joint_states[channel.id] = channel.topic
                self.of_ours |= name == SCHEMA_NAME
        except ValueError as error:
            raise RecordingError(f"{self._path}: {error}", code="recording-truncated", path=str(self._path)) from error


def _flat(found: Iterable[Record | Damage], path: Path, damage: list[Damage]) -> Iterator[Record]:
    """Yield the records of the data section, those within chunks among them; note where the file is damaged."""
    for record in found:
        if isinstance(record, Damage):
            damage.append(record)
            return
        if record.opcode == Opcode.DATA_END:
            return
        if record.opcode != Opcode.CHUNK:
            yield record
            continue
        try:
            stream, length = get_chunk_data_stream(decode(Chunk, record), validate_crc=True)
        except (McapError, ValueError) as error:
            damage.append(Damage(record.begin, str(error)))
            return
        yield from inner_records(stream.read(length))


def _of_one_topic(found: list[_Message], columns: ColumnMap, path: Path) -> RawMessages:
    topics = sorted({message.topic for message in found})
    topic = columns.topic or (topics[0] if len(topics) == 1 else None)
    if topic is None or topic not in topics:
        what = f"topic {topic} has none" if topic else "there are several"
        raise RecordingError(
            f"{path}: of topics with {MESSAGE_TYPE} messages, {what if topics else 'none has any'}; there are "
            f"{', '.join(topics) or 'none'}. Say by topic of the column map which to read",
            code="recording-topic",
            path=str(path),
            topics=topics,
        )
    own = [message for message in found if message.topic == topic]
    return RawMessages(topic, [message.log_time for message in own], [message.payload for message in own])


def _foreign(path: Path, others: Mapping[str, str]) -> RecordingError:
    listed = ", ".join(f"{topic} ({kind})" for topic, kind in sorted(others.items()))
    return RecordingError(
        f"{path}: holds no {MESSAGE_TYPE} messages, but {listed or 'nothing'}", code="recording-foreign", path=str(path)
    )


def _unreadable(path: Path, error: OSError) -> RecordingError:
    return RecordingError(f"{path}: cannot be read: {error.strerror}", code="recording-missing", path=str(path))


def _hash(path: Path) -> str:
    """Return the SHA-256 of a bag's file, or of all files of its folder in the order of their names."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            whole.update(hashlib.file_digest(content, "sha256").digest())
    return whole.hexdigest()
