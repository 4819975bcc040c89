"""Recordings as MCAP files: written so that nothing but the last moments can be lost, read in one piece.

While it is written the file is called ``<name>.partial``, and its writer holds a lock on it (``flock``)
which the kernel lets go when the process dies. Whoever gets the lock of a ``.partial`` may finish the file:
see `McapSampleWriter.resume`.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from mcap.opcode import Opcode
from mcap.records import Channel, Schema
from numpy.typing import NDArray

from core.errors import RecordingError
from core.recordings.joint_sample import (
    CDR_LITTLE_ENDIAN,
    MESSAGE_ENCODING,
    SCHEMA_ENCODING,
    SCHEMA_NAME,
    message_dtype,
    schema_text,
    topic,
)
from core.recordings.mcap_container import CHANNEL_ID, RECORD_HEAD, SCHEMA_ID, ContainerWriter
from core.recordings.mcap_samples import CONTEXT, LAPPED, RECORDING, SUMMARY, StoredSamples, load
from core.recordings.recording import Recording
from core.streaming.samples import SampleBlock

FORMAT_VERSION = "1"
OPTIONAL_SIGNALS = ("current", "torque", "target_q", "target_qd", "target_current", "target_torque")


@dataclass(frozen=True)
class StoredLog:
    """A finished file. ``lost`` samples never arrived, ``lapped`` ones were overwritten before being read."""

    path: Path
    sha256: str
    bytes: int
    samples: int
    lost: int
    lapped: int


def partial_path(path: Path) -> Path:
    """The name that the file at ``path`` has until it is finished."""
    return path.with_name(path.name + ".partial")


def read_mcap(path: Path, rows: tuple[int, int] | None = None, *, allow_truncated: bool = False) -> Recording:
    """Read the recording at ``path``.

    Parameters
    ----------
    rows : keep samples first..last only, 1-based and inclusive, before anything is checked.
    allow_truncated : of a damaged file return what is whole, and say so in ``provenance["damage"]``.

    Returns
    -------
    Recording
        ``t`` on the controller's clock, s. Signals that the controller does not have (NaN throughout, e.g.
        ``torque`` without torque sensors) are None. ``lost`` counts what is missing in the sequence, whether
        it was never received or overwritten before it was stored.

    Raises
    ------
    RecordingError
        Not a whole MCAP file of ours (the message says what it is instead), or its samples are not
        increasing in sequence and time, or not finite.
    """
    stored = read_samples(path, allow_truncated=allow_truncated)
    samples = stored.samples
    if rows is not None:
        first, last = rows
        if not 1 <= first < last <= samples.size:
            raise RecordingError(f"{path}: rows {first}-{last} do not lie within 1-{samples.size} with first < last")
        samples = samples[first - 1 : last]
    signals = {name: np.ascontiguousarray(samples[name]) for name in Recording.SIGNALS}
    absent = {name for name in OPTIONAL_SIGNALS if np.isnan(signals[name]).all()}
    provenance = {"path": str(path), "format": "mcap", "sha256": stored.sha256, **stored.facts}
    if rows is not None:
        provenance["rows"] = list(rows)
    return Recording(
        name=path.name,
        t=np.ascontiguousarray(samples["controller_time"]),
        lost=_missing(samples["sequence"], path),
        provenance=provenance,
        **{name: value for name, value in signals.items() if name not in absent},
    )


def read_samples(path: Path, *, allow_truncated: bool = False) -> StoredSamples:
    """Read the samples as they were stored, without judging them. Raises as `read_mcap` does."""
    try:
        with path.open("rb") as file:
            stored = load(file, path)
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}", path=str(path)) from error
    if stored.damage and not allow_truncated:
        raise RecordingError(
            f"{path}: damaged at byte {stored.damage.offset} ({stored.damage.reason}); the "
            f"{stored.samples.size} samples before it are whole: read it with allow_truncated to use them",
            code="recording-truncated",
            path=str(path),
            offset=stored.damage.offset,
            samples=stored.samples.size,
        )
    if not stored.samples.size:
        raise RecordingError(f"{path}: holds no samples", code="recording-empty", path=str(path))
    return stored


class McapSampleWriter:
    """Writes the samples of one robot; every call leaves a file that is whole up to it.

    Not thread-safe. Leave it through `finish` (the file gets its name), `discard` (it goes away) or `close`
    (it stays a ``.partial`` that can be resumed).
    """

    def __init__(self, path: Path, descriptor: int, n_joints: int) -> None:
        self.path = path
        self.n_joints = n_joints
        self.samples = 0
        self.lapped = 0
        self._missing = 0  # in the sequence, whatever the reason
        self._lapped_inside = 0  # those of them that had been received
        self._last: int | None = None
        self._descriptor = descriptor
        self._dtype = message_dtype(n_joints)
        self._container: ContainerWriter
        self._clock_offset = 0

    @classmethod
    def create(cls, path: Path, n_joints: int, *, robot: str, context: Mapping[str, str] | None = None) -> Self:
        """Begin the file that will be ``path``.

        Parameters
        ----------
        context : what else belongs into the file: recording id, model digest, ...

        Raises
        ------
        RecordingError
            ``recording-exists``: there is a file of that name, finished or not.
        OSError
            The disk is full, or the folder cannot be written.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        _require_free(path)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(partial_path(path), flags, 0o644)
        except FileExistsError:
            raise RecordingError(
                f"{path}: is being written, or waits to be salvaged", code="recording-exists"
            ) from None
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        writer = cls(path, descriptor, n_joints)
        writer._clock_offset = time.time_ns() - time.monotonic_ns()
        facts = {
            "format": FORMAT_VERSION,
            "robot": robot,
            "n_joints": str(n_joints),
            "realtime_minus_monotonic_ns": str(writer._clock_offset),
        }
        try:
            writer._container = ContainerWriter.begin(
                descriptor, *_declarations(n_joints, topic(robot)), RECORDING, facts
            )
            if context:
                writer._container.add_metadata(CONTEXT, context)
            os.fsync(descriptor)
            _sync_folder(path)
        except BaseException:
            writer.discard()
            raise
        return writer

    @classmethod
    def resume(cls, path: Path) -> tuple[Self, StoredSamples]:
        """Go on with the unfinished file of ``path``: cut off what is damaged; return also what is whole.

        Raises
        ------
        RecordingError
            ``recording-busy``: its writer is alive. ``recording-gone``: it has just been finished.
            Others: the file is not one of ours up to the first sample.
        """
        partial = partial_path(path)
        try:
            descriptor = os.open(partial, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise RecordingError(f"{partial}: does not exist", code="recording-gone") from None
        try:
            _lock(descriptor, partial)
            with os.fdopen(os.dup(descriptor), "rb") as file:
                stored = load(file, partial)
            writer = cls(path, descriptor, stored.n_joints)
            writer._clock_offset = _stored_clock_offset(stored, partial)
            writer._container = ContainerWriter.resume(
                descriptor, stored.whole, *_declarations(stored.n_joints, stored.topic), stored.index
            )
            indexed = stored.index.messages
            writer._account(stored.samples["sequence"][:indexed])
            writer.lapped, writer._lapped_inside = stored.lapped, stored.lapped_inside
            writer.write(stored.samples[indexed:])  # a chunk whose message index did not get written
        except BaseException:
            os.close(descriptor)
            raise
        return writer, stored

    @property
    def lost(self) -> int:
        """Samples missing between the first and the last that were never received."""
        return self._missing - self._lapped_inside

    @property
    def last_sequence(self) -> int | None:
        """``sequence`` of the newest sample written."""
        return self._last

    def write(self, block: SampleBlock) -> None:
        """Append the samples (m,) as one chunk; m = 0 writes nothing.

        Raises
        ------
        RecordingError
            ``sequence-not-increasing``: these samples belong to another run of the controller.
        OSError
            The disk is full; what was written before is still whole.
        """
        if not block.size:
            return
        sequence = block["sequence"]
        _require_increasing(sequence, self._last, self.path)
        messages = np.zeros(block.size, self._dtype)
        messages["opcode"] = Opcode.MESSAGE
        messages["length"] = self._dtype.itemsize - RECORD_HEAD
        messages["channel"] = CHANNEL_ID
        messages["sequence"] = sequence & 0xFFFFFFFF
        messages["log_time"] = block["receive_time"] + self._clock_offset
        messages["publish_time"] = messages["log_time"]
        messages["encapsulation"] = np.frombuffer(CDR_LITTLE_ENDIAN, np.uint8)
        messages["sample"] = block
        self._container.add_chunk(messages.tobytes(), messages["log_time"])
        self._account(sequence)

    def note_lapped(self, count: int) -> None:
        """Put down that ``count`` samples were overwritten before they could be read, right here."""
        after = "" if self._last is None else str(self._last)
        self._container.add_metadata(LAPPED, {"samples": str(count), "after_sequence": after})
        self.lapped += count
        if self._last is not None:
            self._lapped_inside += count

    def sync(self) -> None:
        """Wait until everything written so far is on the disk."""
        os.fdatasync(self._descriptor)

    def finish(self, summary: Mapping[str, str] | None = None) -> StoredLog:
        """Complete the file, put it on the disk and give it its name.

        Raises
        ------
        OSError
            The disk is full; the ``.partial`` stays and can be resumed.
        RecordingError
            ``recording-exists``: in the meantime somebody made a file of that name.
        """
        facts = {"samples": str(self.samples), "lost": str(self.lost), "lapped": str(self.lapped)}
        self._container.add_metadata(SUMMARY, {**(summary or {}), **facts})
        self._container.finish()
        os.fsync(self._descriptor)
        _require_free(self.path)
        partial_path(self.path).rename(self.path)
        _sync_folder(self.path)
        self.close()
        return StoredLog(
            path=self.path,
            sha256=self._container.sha256,
            bytes=self._container.size,
            samples=self.samples,
            lost=self.lost,
            lapped=self.lapped,
        )

    def discard(self) -> None:
        """Remove the unfinished file."""
        partial_path(self.path).unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of the file as it is; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _account(self, sequence: NDArray[np.uint64]) -> None:
        if not sequence.size:
            return
        first = self._last if self._last is not None else int(sequence[0]) - 1
        self._missing += int(sequence[-1]) - first - sequence.size
        self._last = int(sequence[-1])
        self.samples += sequence.size


def _declarations(n_joints: int, name: str) -> tuple[Schema, Channel]:
    text = schema_text(n_joints).encode()
    schema = Schema(id=SCHEMA_ID, data=text, encoding=SCHEMA_ENCODING, name=SCHEMA_NAME)
    channel = Channel(
        id=CHANNEL_ID,
        topic=name,
        message_encoding=MESSAGE_ENCODING,
        metadata={"offered_qos_profiles": ""},  # rosbag2 looks for it
        schema_id=SCHEMA_ID,
    )
    return schema, channel


def _stored_clock_offset(stored: StoredSamples, partial: Path) -> int:
    try:
        return int(stored.facts[RECORDING]["realtime_minus_monotonic_ns"])
    except (KeyError, ValueError):
        raise RecordingError(
            f"{partial}: its first metadata record is missing or damaged, so it cannot be gone on with",
            code="recording-foreign",
            path=str(partial),
        ) from None


def _require_increasing(sequence: NDArray[np.uint64], last: int | None, path: Path) -> None:
    back = np.flatnonzero(sequence[1:] <= sequence[:-1]) + 1
    if last is not None and int(sequence[0]) <= last:
        back = np.array([0])
    if not back.size:
        return
    row = int(back[0])
    previous = last if row == 0 else int(sequence[row - 1])
    raise RecordingError(
        f"{path}: the sequence goes from {previous} to {int(sequence[row])}, at sample {row + 1} of those "
        "given; a recording holds one uninterrupted run of the controller",
        code="sequence-not-increasing",
        row=row + 1,
    )


def _missing(sequence: NDArray[np.uint64], path: Path) -> int:
    _require_increasing(sequence, None, path)
    return int(sequence[-1]) - int(sequence[0]) + 1 - sequence.size


def _require_free(path: Path) -> None:
    if path.exists():
        raise RecordingError(f"{path}: there is a file of that name already", code="recording-exists", path=str(path))


def _lock(descriptor: int, partial: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RecordingError(f"{partial}: is being written", code="recording-busy") from None
    try:
        same = partial.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        same = False
    if not same:
        raise RecordingError(f"{partial}: has just been finished", code="recording-gone")


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
