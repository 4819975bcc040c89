"""Recordings as MCAP files: written so that nothing but the last moments can be lost, read in one piece."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from mcap.opcode import Opcode
from numpy.typing import NDArray

from core.errors import RecordingError
from core.recordings.joint_sample import CDR_LITTLE_ENDIAN, declarations, message_dtype, topic
from core.recordings.mcap_container import CHANNEL_ID, RECORD_HEAD, ContainerWriter, Mark
from core.recordings.mcap_samples import CONTEXT, LAPPED, RECORDING, SUMMARY, StoredSamples, load
from core.recordings.partial_file import create_locked, open_locked, partial_path, publish
from core.recordings.recording import Recording
from core.streaming.samples import SampleBlock

FORMAT_VERSION = "1"
JOINT_NAMES = "joint_names"
"""Entry of the context with the joints' names, a JSON list; where there is none, they are in the robot's order."""
OPTIONAL_SIGNALS = ("qd", "current", "torque", "target_q", "target_qd", "target_current", "target_torque")


@dataclass(frozen=True)
class StoredLog:
    """A finished file. ``lost`` samples never arrived, ``lapped`` ones were overwritten before being read."""

    path: Path
    sha256: str
    bytes: int
    samples: int
    lost: int
    lapped: int


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
    signals: dict[str, Any] = {name: np.ascontiguousarray(samples[name]) for name in Recording.SIGNALS}
    absent = {name for name in OPTIONAL_SIGNALS if np.isnan(signals[name]).all()}
    provenance = {"path": str(path), "format": "mcap", "sha256": stored.sha256, **stored.facts}
    if rows is not None:
        provenance["rows"] = list(rows)
    return Recording(
        name=path.name,
        t=np.ascontiguousarray(samples["controller_time"]),
        joint_names=_joint_names(stored.facts),
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


def describe(path: Path) -> tuple[StoredLog, dict[str, Any]]:
    """Count and hash the finished file at ``path``; return also its metadata. Raises as `read_mcap` does."""
    stored = read_samples(path)
    log = StoredLog(
        path=path,
        sha256=stored.sha256,
        bytes=path.stat().st_size,
        samples=stored.samples.size,
        lost=_missing(stored.samples["sequence"], path) - stored.lapped_inside,
        lapped=stored.lapped,
    )
    return log, stored.facts


@dataclass(frozen=True)
class _Count:
    """What has been written so far."""

    samples: int = 0
    missing: int = 0  # in the sequence, whatever the reason
    lapped: int = 0
    lapped_inside: int = 0  # those behind the first sample
    first: SampleBlock | None = None  # (1,)
    newest: SampleBlock | None = None

    def plus(self, block: SampleBlock) -> _Count:
        if not block.size:
            return self
        sequence = block["sequence"]
        before = int(sequence[0]) - 1 if self.newest is None else int(self.newest["sequence"][0])
        return replace(
            self,
            samples=self.samples + block.size,
            missing=self.missing + int(sequence[-1]) - before - block.size,
            first=block[:1].copy() if self.first is None else self.first,
            newest=block[-1:].copy(),
        )


class WriterMark(NamedTuple):
    """A place in the file to which `McapSampleWriter.cut_back` can return."""

    container: Mark
    counted: _Count


class McapSampleWriter:
    """Writes the samples of one robot; every call leaves a file that is whole up to it.

    Not thread-safe. Leave it through `finish` (the file gets its name), `discard` (it goes away) or `close`
    (it stays a ``.partial`` that can be resumed).
    """

    def __init__(self, path: Path, descriptor: int, n_joints: int) -> None:
        self.path = path
        self.n_joints = n_joints
        self._count = _Count()
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
        descriptor = create_locked(path)
        writer = cls(path, descriptor, n_joints)
        writer._clock_offset = time.time_ns() - time.monotonic_ns()
        facts = {
            "format": FORMAT_VERSION,
            "started_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "robot": robot,
            "n_joints": str(n_joints),
            "realtime_minus_monotonic_ns": str(writer._clock_offset),
        }
        try:
            writer._container = ContainerWriter.begin(
                descriptor, *declarations(n_joints, topic(robot)), RECORDING, facts
            )
            if context:
                writer._container.add_metadata(CONTEXT, context)
            writer.sync()
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
        descriptor = open_locked(path)
        try:
            with os.fdopen(os.dup(descriptor), "rb") as file:
                stored = load(file, partial)
            writer = cls(path, descriptor, stored.n_joints)
            writer._clock_offset = _stored_clock_offset(stored, partial)
            writer._container = ContainerWriter.resume(
                descriptor, stored.whole, *declarations(stored.n_joints, stored.topic), stored.index
            )
            indexed = stored.index.messages
            count = _Count(lapped=stored.lapped, lapped_inside=stored.lapped_inside)
            writer._count = count.plus(stored.samples[:indexed])
            writer.write(stored.samples[indexed:])  # a chunk whose message index did not get written
        except BaseException:
            os.close(descriptor)
            raise
        return writer, stored

    @property
    def samples(self) -> int:
        """Samples written."""
        return self._count.samples

    @property
    def lost(self) -> int:
        """Samples missing between the first and the last that were never received."""
        return self._count.missing - self._count.lapped_inside

    @property
    def lapped(self) -> int:
        """Samples noted as overwritten before they could be read."""
        return self._count.lapped

    @property
    def bytes(self) -> int:
        """Length of the file."""
        return self._container.size

    @property
    def last_sequence(self) -> int | None:
        """``sequence`` of the newest sample written."""
        newest = self._count.newest
        return None if newest is None else int(newest["sequence"][0])

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
        _require_increasing(sequence, self.last_sequence, self.path)
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
        self._count = self._count.plus(block)

    def note_lapped(self, count: int) -> None:
        """Put down that ``count`` samples were overwritten before they could be read, right here."""
        after = "" if self.last_sequence is None else str(self.last_sequence)
        self._container.add_metadata(LAPPED, {"samples": str(count), "after_sequence": after})
        inside = count if self.samples else 0
        self._count = replace(self._count, lapped=self.lapped + count, lapped_inside=self._count.lapped_inside + inside)

    def mark(self) -> WriterMark:
        """Remember this place in the file."""
        return WriterMark(self._container.mark(), self._count)

    def cut_back(self, mark: WriterMark) -> None:
        """Drop everything written since ``mark``."""
        self._container.cut_back(mark.container)
        self._count = mark.counted

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
        self._container.add_metadata(SUMMARY, {**(summary or {}), **facts, **self._clocks()})
        self._container.finish()
        publish(self.path, self._descriptor)
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

    def _clocks(self) -> dict[str, str]:
        """Both ends on both clocks: how the controller's time maps to the host's, and how they drift."""
        ends = {"first": self._count.first, "last": self._count.newest}
        return {
            f"{clock}_{end}": str(sample[clock][0])
            for end, sample in ends.items()
            if sample is not None
            for clock in ("controller_time", "receive_time")
        }


def _stored_clock_offset(stored: StoredSamples, partial: Path) -> int:
    try:
        return int(stored.facts[RECORDING]["realtime_minus_monotonic_ns"])
    except (KeyError, ValueError):
        raise RecordingError(
            f"{partial}: what it says of itself is missing or damaged, so it cannot be gone on with",
            code="recording-foreign",
            path=str(partial),
        ) from None


def _joint_names(facts: Mapping[str, Any]) -> tuple[str, ...] | None:
    names = facts.get(CONTEXT, {}).get(JOINT_NAMES)
    return None if names is None else tuple(json.loads(names))


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
