"""What the service and its recorder say to each other: one JSON object per line. Standard library only, so
that the recorder starts quickly."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RecordingHeader:
    """What belongs into the file besides the samples. ``context`` is the caller's own, text only."""

    robot: str
    model_digest: str | None = None
    ring_epoch: int | None = None  # refuse to record from another ring than this one
    context: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RecorderOrder:
    """The first line a recorder is given. ``resume`` allows to go on with a dead predecessor's file."""

    recording_id: str
    ring_path: str
    from_position: int
    path: str
    header: RecordingHeader
    resume: bool = False


@dataclass(frozen=True)
class RecorderProgress:
    """``position`` is the next one to be read from the ring."""

    samples: int
    lost: int
    lapped: int
    bytes: int
    position: int


@dataclass(frozen=True)
class RecordingSummary:
    """A finished recording.

    Attributes
    ----------
    lost : samples that never arrived, between the first and the last.
    lapped : samples that were overwritten in the ring before they could be read.
    next_position : where the recording ends in the ring, exclusive.
    interrupted : True when nobody asked for the end, but it came.
    reason : why it is not exactly what was asked for; None when it is.
    restarts : how often the recorder had to be replaced by a new one.
    """

    recording_id: str
    path: Path
    sha256: str
    bytes: int
    samples: int
    lost: int
    lapped: int
    from_position: int
    next_position: int
    interrupted: bool = False
    reason: str | None = None
    restarts: int = 0

    def facts(self) -> dict[str, Any]:
        """The keyword arguments of `service.storage.recordings.finish`."""
        return {
            "sha256": self.sha256,
            "size": self.bytes,
            "samples": self.samples,
            "lost": self.lost,
            "lapped": self.lapped,
            "reason": self.reason,
        }


def to_line(kind: str, message: Any = None, **values: Any) -> bytes:
    """One message as a line; ``message`` is a dataclass of this module."""
    body = {} if message is None else asdict(message)
    return json.dumps({"kind": kind, **body, **values}, default=str).encode() + b"\n"


def read_order(line: bytes) -> RecorderOrder:
    """Decode the first line."""
    body = json.loads(line)
    del body["kind"]
    return RecorderOrder(**{**body, "header": RecordingHeader(**body["header"])})


def read_summary(body: dict[str, Any]) -> RecordingSummary:
    """Decode the last one."""
    return RecordingSummary(**{**body, "path": Path(body["path"])})
