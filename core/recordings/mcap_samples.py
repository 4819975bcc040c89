"""Reading the samples back: the whole part of an MCAP file of ours, and what its metadata says."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Metadata, MetadataIndex, Schema
from mcap.stream_reader import get_chunk_data_stream

from core.errors import RecordingError
from core.recordings.joint_sample import (
    CDR_LITTLE_ENDIAN,
    MESSAGE_ENCODING,
    SCHEMA_NAME,
    joints_of_schema,
    message_dtype,
)
from core.recordings.mcap_container import (
    MAGIC,
    RECORD_HEAD,
    Damage,
    Index,
    Record,
    chunk_index,
    decode,
    inner_records,
    records,
)
from core.streaming.samples import SampleBlock, sample_dtype

RECORDING, CONTEXT, LAPPED, SUMMARY = "dynid.recording", "dynid.context", "dynid.lapped", "dynid.summary"
"""Names of the metadata records: facts of the file, the caller's own, overwritten samples, the end."""

_MESSAGE_HEAD = struct.calcsize("<HIQQ")
_LITTLE_ENDIAN = np.frombuffer(CDR_LITTLE_ENDIAN, np.uint8)


@dataclass
class StoredSamples:
    """The whole part of a file.

    Attributes
    ----------
    samples : structured array of ``sample_dtype(n_joints)``.
    facts : the metadata records by name, plus ``damage``: JSON-serialisable.
    sha256 : of the whole file as it is, hex.
    damage : where and why the file stops being whole; None when it is whole.
    whole : length of the part that can be gone on with, bytes: without damage, summary and footer.
    lapped, lapped_inside : samples overwritten before they were stored; those after the first stored one.
    index : the entries of ``whole`` for a summary.
    """

    n_joints: int
    topic: str
    samples: SampleBlock
    sha256: str
    whole: int
    damage: Damage | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    lapped: int = 0
    lapped_inside: int = 0
    index: Index = field(default_factory=Index)


def load(file: BufferedReader, path: Path) -> StoredSamples:
    """Read the whole part of ``file``; ``path`` is for messages.

    Raises
    ------
    RecordingError
        Empty, not MCAP, or MCAP with other messages than ours.
    """
    head = file.read(len(MAGIC))
    if not head:
        raise RecordingError(f"{path}: is empty", code="recording-empty", path=str(path))
    if head != MAGIC:
        raise RecordingError(
            f"{path}: is not an MCAP file (it begins with {head!r})", code="recording-foreign", path=str(path)
        )
    reader = _Loader(path)
    for record in records(file):
        if isinstance(record, Damage):
            reader.damage = record
            break
        try:
            reader.take(record)
        except _DamagedRecordError as error:
            reader.damage = Damage(record.begin, str(error))
            break
    file.seek(0)
    return reader.result(hashlib.file_digest(file, "sha256").hexdigest())


class _DamagedRecordError(Exception):
    """The record's frame is there, but not its content."""


class _Loader:
    """Collects the content of the records in the order of the file."""

    def __init__(self, path: Path) -> None:
        self.damage: Damage | None = None
        self._path = path
        self._in_data = True
        self._whole = len(MAGIC)
        self._index = Index()
        self._chunk: tuple[Chunk, Record, int] | None = None  # not yet followed by its message index
        self._schemas: dict[int, Schema] = {}
        self._topics: dict[str, str] = {}
        self._channel: Channel | None = None
        self._n_joints = 0
        self._blocks: list[SampleBlock] = []
        self._metadata: dict[str, Any] = {}
        self._lapped = self._lapped_inside = 0

    def take(self, record: Record) -> None:
        """Take one record in; raise `_DamagedRecordError` when its content is not whole."""
        if record.opcode == Opcode.DATA_END:
            self._in_data = False
        if not self._in_data:
            return  # the summary only repeats
        try:
            self._take(record)
        except (ValueError, struct.error) as error:
            raise _DamagedRecordError(str(error)) from error
        if self._chunk is None:
            self._whole = record.end

    def result(self, sha256: str) -> StoredSamples:
        """What has been collected."""
        if self._channel is None:
            found = ", ".join(f"{topic} ({schema})" for topic, schema in self._topics.items())
            raise RecordingError(
                f"{self._path}: holds no {SCHEMA_NAME} messages in CDR, but {found or 'no channel at all'}",
                code="recording-foreign",
                path=str(self._path),
            )
        facts = {**self._metadata, "lapped": self._lapped}
        if self.damage:
            facts["damage"] = self.damage._asdict()
        return StoredSamples(
            n_joints=self._n_joints,
            topic=self._channel.topic,
            samples=np.concatenate([np.empty(0, sample_dtype(self._n_joints)), *self._blocks]),
            sha256=sha256,
            whole=self._whole,
            damage=self.damage,
            facts=facts,
            lapped=self._lapped,
            lapped_inside=self._lapped_inside,
            index=self._index,
        )

    def _take(self, record: Record) -> None:
        if record.opcode == Opcode.CHUNK:
            self._take_chunk(record)
        elif record.opcode == Opcode.MESSAGE_INDEX:
            self._take_index(record)
        elif record.opcode == Opcode.METADATA:
            self._take_metadata(record)
        else:
            self._take_plain([record])

    def _take_chunk(self, record: Record) -> None:
        chunk: Chunk = decode(Chunk, record)
        try:
            stream, length = get_chunk_data_stream(chunk, validate_crc=True)
        except McapError as error:  # a compression whose package is not installed
            raise RecordingError(f"{self._path}: {error}", path=str(self._path)) from error
        data = stream.read(length)
        block = self._uniform(data)
        count = self._take_plain(inner_records(data)) if block is None else block.size
        if block is not None:
            self._blocks.append(block)
        self._chunk = (chunk, record, count)

    def _take_index(self, record: Record) -> None:
        if self._chunk is None:
            return
        chunk, at, count = self._chunk
        self._index.chunks.append(chunk_index(chunk, at.begin, at.end - at.begin, record.end - record.begin))
        self._index.messages += count
        self._chunk = None

    def _take_metadata(self, record: Record) -> None:
        metadata: Metadata = decode(Metadata, record)
        if metadata.name == LAPPED:
            count = int(metadata.metadata["samples"])
            self._lapped += count
            self._lapped_inside += count if self._blocks else 0
        else:
            self._metadata[metadata.name] = metadata.metadata
        entry = MetadataIndex(offset=record.begin, length=record.end - record.begin, name=metadata.name)
        self._index.metadata.append(entry)

    def _take_plain(self, plain: Iterable[Record]) -> int:
        """Take declarations and messages one by one, as other tools may have ordered them."""
        payloads = []
        for record in plain:
            if record.opcode == Opcode.SCHEMA:
                schema: Schema = decode(Schema, record)
                self._schemas[schema.id] = schema
            elif record.opcode == Opcode.CHANNEL:
                self._take_channel(decode(Channel, record))
            elif record.opcode == Opcode.MESSAGE and self._is_ours(record):
                payloads.append(record.content[_MESSAGE_HEAD:])
        if payloads:
            self._blocks.append(self._join(payloads))
        return len(payloads)

    def _take_channel(self, channel: Channel) -> None:
        schema = self._schemas.get(channel.schema_id)
        self._topics[channel.topic] = f"{schema.name if schema else 'no schema'}, {channel.message_encoding}"
        if schema is None or schema.name != SCHEMA_NAME or channel.message_encoding != MESSAGE_ENCODING:
            return
        n_joints = joints_of_schema(schema.data.decode(errors="replace"))
        if n_joints is None:
            raise self._foreign(f"its {SCHEMA_NAME} is laid out differently from this version's")
        if self._channel is not None and self._channel.topic != channel.topic:
            raise self._foreign(f"holds several robots ({self._channel.topic}, {channel.topic}); split it first")
        self._channel, self._n_joints = channel, n_joints

    def _is_ours(self, record: Record) -> bool:
        (channel,) = struct.unpack_from("<H", record.content)
        return self._channel is not None and channel == self._channel.id

    def _uniform(self, data: bytes) -> SampleBlock | None:
        """The samples of a chunk that holds nothing but messages of ours, as our writer makes them."""
        dtype = message_dtype(self._n_joints)
        if self._channel is None or len(data) % dtype.itemsize:
            return None
        messages = np.frombuffer(data, dtype)
        uniform = (
            (messages["opcode"] == Opcode.MESSAGE)
            & (messages["length"] == dtype.itemsize - RECORD_HEAD)
            & (messages["channel"] == self._channel.id)
            & (messages["encapsulation"] == _LITTLE_ENDIAN).all(axis=1)
        )
        return messages["sample"] if uniform.all() else None

    def _join(self, payloads: list[bytes]) -> SampleBlock:
        dtype = np.dtype([("encapsulation", "u1", (4,)), ("sample", sample_dtype(self._n_joints))])
        if any(len(payload) != dtype.itemsize for payload in payloads):
            raise self._foreign("holds messages whose size is not that of their schema")
        messages = np.frombuffer(b"".join(payloads), dtype)
        if not (messages["encapsulation"] == _LITTLE_ENDIAN).all():
            raise self._foreign("holds messages that are not plain little-endian CDR")
        return messages["sample"]

    def _foreign(self, what: str) -> RecordingError:
        return RecordingError(f"{self._path}: {what}", code="recording-foreign", path=str(self._path))
