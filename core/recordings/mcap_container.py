"""The MCAP container: records in, records out, and where a damaged file stops being whole.

The ``mcap`` package encodes the single records; it is not used to write files because it takes messages one
by one, and cannot go on with a file that another process left unfinished. Format: https://mcap.dev/spec.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader, BytesIO
from typing import Any, NamedTuple, Protocol

import numpy as np
from mcap.data_stream import ReadDataStream, RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    Chunk,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)
from numpy.typing import NDArray

MAGIC = b"\x89MCAP0\r\n"
LIBRARY = "dynid"
SCHEMA_ID = 1
CHANNEL_ID = 1

_RECORD_HEAD = struct.Struct("<BQ")
RECORD_HEAD = _RECORD_HEAD.size
"""Bytes of opcode and length in front of each record's content."""

_INDEX_HEAD = struct.Struct("<BQHI")
_INDEX_ENTRY = np.dtype([("log_time", "<u8"), ("offset", "<u8")])
_FOOTER_FIELDS = struct.Struct("<BQQQ")  # what the summary's checksum covers of the footer


class Record(NamedTuple):
    """One record of a file: where it begins and ends (bytes from the start), and what it holds."""

    opcode: int
    begin: int
    end: int
    content: bytes


class Damage(NamedTuple):
    """From ``offset`` on the file is not whole, because of ``reason``."""

    offset: int
    reason: str


class _Writable(Protocol):
    def write(self, stream: RecordBuilder) -> None: ...


def encode(*records: _Writable) -> bytes:
    """The records' bytes, one after another."""
    builder: Any = RecordBuilder()
    for record in records:
        record.write(builder)
    return bytes(builder.end())


def decode(kind: Any, record: Record) -> Any:
    """Decode a record as the ``mcap.records`` class ``kind``; ValueError when its content is not one."""
    try:
        return kind.read(ReadDataStream(BytesIO(record.content)))
    except Exception as error:  # the package raises whatever it runs into
        raise ValueError(f"{kind.__name__} record at byte {record.begin} cannot be decoded") from error


def records(file: BufferedReader) -> Iterator[Record | Damage]:
    """Yield the top-level records after the magic, up to the footer; a `Damage` ends them early.

    A file that was cut, or whose tail was never written, has no footer: its last item is a `Damage`.
    """
    size = file.seek(0, os.SEEK_END)
    position = file.seek(len(MAGIC))
    while True:
        if position + _RECORD_HEAD.size > size:
            yield Damage(position, "it ends without a footer")
            return
        opcode, length = _RECORD_HEAD.unpack(file.read(_RECORD_HEAD.size))
        begin, position = position, position + _RECORD_HEAD.size + length
        if opcode == 0:
            yield Damage(begin, "what follows is not MCAP records")
            return
        if position > size:
            yield Damage(begin, "it ends within a record")
            return
        yield Record(opcode, begin, position, file.read(length))
        if opcode == Opcode.FOOTER:
            if file.read(len(MAGIC)) != MAGIC:
                yield Damage(position, "it ends within the footer")
            return


def inner_records(chunk: bytes) -> Iterator[Record]:
    """Yield the records within a chunk's (uncompressed, checked) bytes."""
    position = 0
    while position < len(chunk):
        opcode, length = _RECORD_HEAD.unpack_from(chunk, position)
        begin, position = position, position + _RECORD_HEAD.size + length
        yield Record(opcode, begin, position, chunk[begin + _RECORD_HEAD.size : position])


class _Descriptor:
    """Append-only file that keeps its length and hash; short writes are continued."""

    def __init__(self, descriptor: int, size: int, hasher: Any) -> None:
        self.descriptor = descriptor
        self.size = size
        self.hasher = hasher

    def append(self, data: bytes) -> None:
        """Write all of ``data``; when the disk refuses, leave the file as it was before and raise OSError."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.descriptor, view) :]
        except OSError:
            self.cut(self.size, self.hasher)
            raise
        self.hasher.update(data)
        self.size += len(data)

    def cut(self, size: int, hasher: Any) -> None:
        """Go back to the first ``size`` bytes, whose hash is ``hasher``."""
        os.ftruncate(self.descriptor, size)
        os.lseek(self.descriptor, size, os.SEEK_SET)
        self.size, self.hasher = size, hasher


@dataclass
class Index:
    """What a finished file's summary says about its data section."""

    chunks: list[ChunkIndex] = field(default_factory=list)
    metadata: list[MetadataIndex] = field(default_factory=list)
    messages: int = 0


class Mark(NamedTuple):
    """A place in a file being written, to which it can be cut back."""

    size: int
    hasher: Any
    chunks: int
    metadata: int
    messages: int


class ContainerWriter:
    """Writes one schema, one channel, chunks of equal-sized messages, and metadata to an open file.

    Each call is one ``write``, so that what a killed process leaves is whole up to its last call.
    """

    def __init__(self, descriptor: int, schema: Schema, channel: Channel) -> None:
        self._file = _Descriptor(descriptor, 0, hashlib.sha256())
        self._schema = schema
        self._channel = channel
        self._index = Index()

    @classmethod
    def begin(
        cls, descriptor: int, schema: Schema, channel: Channel, name: str, metadata: Mapping[str, str]
    ) -> ContainerWriter:
        """Start an empty file; everything a reader needs before the first message goes out in one piece."""
        writer = cls(descriptor, schema, channel)
        writer._file.append(MAGIC + encode(Header("ros2", LIBRARY), schema, channel))
        writer.add_metadata(name, metadata)
        return writer

    @classmethod
    def resume(cls, descriptor: int, whole: int, schema: Schema, channel: Channel, index: Index) -> ContainerWriter:
        """Go on after the first ``whole`` bytes, the undamaged part of the file; the rest is cut off."""
        writer = cls(descriptor, schema, channel)
        os.ftruncate(descriptor, whole)
        os.lseek(descriptor, 0, os.SEEK_SET)
        with os.fdopen(os.dup(descriptor), "rb") as file:
            hasher = hashlib.file_digest(file, "sha256")
        writer._file.cut(whole, hasher)
        writer._index = index
        return writer

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.size

    @property
    def sha256(self) -> str:
        """Hash of the bytes written so far, hex."""
        return str(self._file.hasher.hexdigest())

    def add_chunk(self, messages: bytes, log_time: NDArray[np.uint64]) -> None:
        """Append a chunk of ``log_time.size`` >= 1 messages of equal size, with its message index."""
        chunk = Chunk(
            compression="",
            data=messages,
            message_start_time=int(log_time.min()),
            message_end_time=int(log_time.max()),
            uncompressed_crc=zlib.crc32(messages),
            uncompressed_size=len(messages),
        )
        chunk_bytes = encode(chunk)
        index_bytes = _message_index(log_time, len(messages) // log_time.size)
        begin = self._file.size
        self._file.append(chunk_bytes + index_bytes)
        self._index.chunks.append(chunk_index(chunk, begin, len(chunk_bytes), len(index_bytes)))
        self._index.messages += log_time.size

    def add_metadata(self, name: str, metadata: Mapping[str, str]) -> None:
        """Append a metadata record."""
        data = encode(Metadata(name=name, metadata=dict(metadata)))
        begin = self._file.size
        self._file.append(data)
        self._index.metadata.append(MetadataIndex(offset=begin, length=len(data), name=name))

    def mark(self) -> Mark:
        """Remember this place."""
        index = self._index
        return Mark(self._file.size, self._file.hasher.copy(), len(index.chunks), len(index.metadata), index.messages)

    def cut_back(self, mark: Mark) -> None:
        """Drop everything appended since ``mark``."""
        self._file.cut(mark.size, mark.hasher.copy())
        del self._index.chunks[mark.chunks :]
        del self._index.metadata[mark.metadata :]
        self._index.messages = mark.messages

    def finish(self) -> None:
        """Append the end of the data, the summary and the footer. The file is whole, if not yet on disk."""
        data_end = encode(DataEnd(0))
        start = self._file.size + len(data_end)
        groups: list[tuple[Opcode, Sequence[_Writable]]] = [
            (Opcode.SCHEMA, [self._schema]),
            (Opcode.CHANNEL, [self._channel]),
            (Opcode.STATISTICS, [self._statistics()]),
            (Opcode.CHUNK_INDEX, self._index.chunks),
            (Opcode.METADATA_INDEX, self._index.metadata),
        ]
        summary = b""
        offsets = []
        for opcode, group in groups:
            data = encode(*group)
            if data:
                offsets.append(SummaryOffset(opcode, start + len(summary), len(data)))
            summary += data
        offset_start = start + len(summary)
        summary += encode(*offsets)
        footer_fields = _FOOTER_FIELDS.pack(Opcode.FOOTER, 20, start, offset_start)
        footer = Footer(start, offset_start, zlib.crc32(footer_fields, zlib.crc32(summary)))
        self._file.append(data_end + summary + encode(footer) + MAGIC)

    def _statistics(self) -> Statistics:
        chunks = self._index.chunks
        return Statistics(
            attachment_count=0,
            channel_count=1,
            channel_message_counts={CHANNEL_ID: self._index.messages},
            chunk_count=len(chunks),
            message_count=self._index.messages,
            message_start_time=min((c.message_start_time for c in chunks), default=0),
            message_end_time=max((c.message_end_time for c in chunks), default=0),
            metadata_count=len(self._index.metadata),
            schema_count=1,
        )


def chunk_index(chunk: Chunk, begin: int, length: int, index_length: int) -> ChunkIndex:
    """The summary's entry for a chunk of ``length`` bytes at ``begin``, its message index right behind it."""
    return ChunkIndex(
        chunk_length=length,
        chunk_start_offset=begin,
        compression=chunk.compression,
        compressed_size=len(chunk.data),
        message_end_time=chunk.message_end_time,
        message_start_time=chunk.message_start_time,
        message_index_length=index_length,
        message_index_offsets={CHANNEL_ID: begin + length},
        uncompressed_size=chunk.uncompressed_size,
    )


def _message_index(log_time: NDArray[np.uint64], message_size: int) -> bytes:
    entries = np.empty(log_time.size, _INDEX_ENTRY)
    entries["log_time"] = log_time
    entries["offset"] = np.arange(log_time.size, dtype=np.uint64) * message_size
    head = _INDEX_HEAD.pack(Opcode.MESSAGE_INDEX, 2 + 4 + entries.nbytes, CHANNEL_ID, entries.nbytes)
    return head + entries.tobytes()
