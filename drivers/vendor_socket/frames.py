"""Bytes of a connection become frames, whatever is between them; no sockets here.

A frame's head is its magic, its size field, or both. A frame without head, or with a wrong checksum, is not passed
on: one byte is skipped, and the next head is looked for from there, so that no intact frame is lost to a damaged
one. Where there is no checksum, the first frame after that counts only when another head follows it; what is damaged
inside a frame cannot be seen then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivers.vendor_socket.checksums import CHECKSUMS
from drivers.vendor_socket.feedback_layout import TYPES, BinaryFeedback, SizeField

Frames = NDArray[np.void]
"""A structured array (m,) of what was read: the signals, ``stamp``, ``sequence``, ``status.*`` and modes there are."""


SEARCHED = 4096  # bytes at a time that are looked through for a size


@dataclass
class FrameCounts:
    """What was read and what was not: ``damaged`` frames, and bytes ``skipped`` that belong to no intact frame."""

    frames: int = 0
    damaged: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class _Head:
    """What frames of one size begin with: ``values`` (k,) at ``offsets`` (k,), ascending."""

    record: np.dtype[Any]
    values: NDArray[np.uint8]
    offsets: NDArray[np.intp]

    def matches(self, stream: bytes, at: int, count: int) -> NDArray[np.bool_]:
        """Tell which of ``count`` frames, one after the other from ``at`` on, have it."""
        size = self.record.itemsize
        block = np.frombuffer(stream, np.uint8, count * size, at).reshape(count, size)
        same: NDArray[np.bool_] = (block[:, self.offsets] == self.values).all(axis=1)
        return same

    def begins(self, stream: bytes, at: int) -> bool:
        """Tell whether it is at ``at``, where enough bytes are."""
        block = np.frombuffer(stream, np.uint8, int(self.offsets[-1]) + 1, at)
        return bool((block[self.offsets] == self.values).all())


class FrameParser:
    """Takes received bytes, returns the frames they complete; keeps what is incomplete. Never raises."""

    def __init__(self, layout: BinaryFeedback, n_joints: int, counts: FrameCounts | None = None) -> None:
        self.counts = counts or FrameCounts()
        self._layout = layout
        self._n_joints = n_joints
        self._order = "<" if layout.endian == "little" else ">"
        self._magic = (0, b"") if layout.magic is None else (layout.magic.offset, layout.magic.pattern)
        self._head: _Head | None = None
        self._locked = False  # a frame is expected to begin where the stream stands
        self._rest = b""
        if layout.checksum is not None:
            self._sum = CHECKSUMS[layout.checksum.kind]
            self._first = layout.checksum.first
            self._end = layout.checksum.offset if layout.checksum.end is None else layout.checksum.end

    @property
    def incomplete(self) -> bytes:
        """What has come and is not (yet) a frame."""
        return self._rest

    def feed(self, data: bytes) -> list[Frames]:
        """Return runs of frames, in order, viewed, not copied."""
        stream = self._rest + data if self._rest else data
        found: list[Frames] = []
        at = 0
        while True:
            if not self._locked:
                begun, at = at, self._seek(stream, at)
                self.counts.skipped += at - begun
            if not self._locked or self._head is None:
                break
            size = self._head.record.itemsize
            whole = (len(stream) - at) // size
            if whole == 0:
                break
            good = self._intact(stream, at, whole)
            if good:
                found.append(np.frombuffer(stream, self._head.record, good, at))
                at += good * size
            if good < whole:
                self._locked = False
                self.counts.skipped += 1
                at += 1
        self.counts.frames += sum(run.size for run in found)
        self._rest = stream[at:]
        return found

    def _intact(self, stream: bytes, at: int, whole: int) -> int:
        """Return how many frames are intact before the first of ``whole`` that is not."""
        head = self._head
        assert head is not None  # noqa: S101 - the stream is locked
        matches = head.matches(stream, at, whole)
        count = whole if matches.all() else int(np.argmin(matches))
        if self._layout.checksum is None:
            return count
        size = head.record.itemsize
        for index, expected in enumerate(np.frombuffer(stream, head.record, count, at)["checksum"].tolist()):
            begin = at + index * size
            if self._sum(stream[begin + self._first : begin + self._end]) != expected:
                self.counts.damaged += 1
                return index
        return count

    # --- finding the beginning of a frame --------------------------------------------------------------------

    def _seek(self, stream: bytes, at: int) -> int:
        """Return where a frame begins, and lock on it; or how far there is surely none."""
        while True:
            at, size = self._candidate(stream, at)
            if size is None:
                return at
            if self._head is None or self._head.record.itemsize != size:
                self._head = self._head_of(size)
            head = self._head
            confirmed = self._layout.checksum is not None  # then the frame itself tells
            if not confirmed:
                if len(stream) - at <= size + head.offsets[-1]:
                    return at  # what follows it has yet to come
                confirmed = head.begins(stream, at + size)
            if confirmed:
                self._locked = True
                return at
            at += 1

    def _candidate(self, stream: bytes, at: int) -> tuple[int, int | None]:
        """Return the first place from ``at`` on that looks like a head, and the size of its frame.

        Without a size there is none, or it is incomplete: the place is where to go on with more bytes.
        """
        size = self._layout.size
        offset, pattern = self._magic
        if not pattern:
            assert isinstance(size, SizeField)  # noqa: S101 - a layout has the one or the other
            while True:
                part = stream[: at + SEARCHED]
                at, found = self._sized(part, at, size)
                if found is not None or len(part) == len(stream):
                    return at, found
        while True:
            place = stream.find(pattern, at + offset)
            if place < 0:
                return max(at, len(stream) - offset - len(pattern) + 1), None
            at = place - offset
            if isinstance(size, int):
                return at, size
            first, found = self._sized(stream[: at + size.offset + 8], at, size)
            if first == at:
                return at, found
            at += 1

    def _sized(self, stream: bytes, at: int, field: SizeField) -> tuple[int, int | None]:
        """Return the first place from ``at`` on with a size that a frame may have, and that size."""
        kind = np.dtype(self._order + TYPES[field.type])
        count = len(stream) - at - field.offset - kind.itemsize + 1
        if count <= 0:
            return at, None
        block = np.frombuffer(stream, np.uint8, count + kind.itemsize - 1, at + field.offset)
        windows = np.lib.stride_tricks.sliding_window_view(block, kind.itemsize)
        sizes = np.ascontiguousarray(windows).view(kind).ravel().astype(np.float64) + field.excludes
        fits = np.flatnonzero((sizes >= field.least) & (sizes <= field.most))
        return (at + count, None) if fits.size == 0 else (at + int(fits[0]), int(sizes[fits[0]]))

    # --- heads -----------------------------------------------------------------------------------------------

    def _head_of(self, size: int) -> _Head:
        """Return what frames of ``size`` bytes begin with."""
        layout = self._layout
        runs = [self._magic]
        if isinstance(layout.size, SizeField):
            width = np.dtype(TYPES[layout.size.type]).itemsize
            runs.append((layout.size.offset, (size - layout.size.excludes).to_bytes(width, layout.endian)))
        places = sorted((offset + i, byte) for offset, run in runs for i, byte in enumerate(run))
        values = np.array([byte for _, byte in places], np.uint8)
        return _Head(self._record(size), values, np.array([offset for offset, _ in places], np.intp))

    def _record(self, size: int) -> np.dtype[Any]:
        """Return the record of a frame of ``size`` bytes, without the optional signals that it has no room for."""
        layout, order = self._layout, self._order
        fields: list[tuple[str, Any, int]] = [("stamp", order + TYPES[layout.stamp.type], layout.stamp.offset)]
        if layout.sequence is not None:
            fields.append(("sequence", order + TYPES[layout.sequence.type], layout.sequence.offset))
        if layout.checksum is not None:
            fields.append(("checksum", order + TYPES[layout.checksum.type], layout.checksum.offset))
        for name, signal in layout.signals.items():
            count = signal.count or self._n_joints
            if signal.offset + count * signal.width <= size:
                fields.append((name, (order + TYPES[signal.type], (count,)), signal.offset))
        fields += [(key, order + TYPES[place.type], place.offset) for key, place in layout.conditions()]
        names, formats, offsets = zip(*fields, strict=True)
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})
