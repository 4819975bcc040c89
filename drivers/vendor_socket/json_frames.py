"""Frames that are JSON objects, one after the other in a stream; no sockets here.

Each begins with the same text, by which the next one is found when one is damaged.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from drivers.vendor_socket.feedback_layout import JsonFeedback, JsonPlace
from drivers.vendor_socket.frames import FrameCounts, Frames


class JsonFrameParser:
    """Takes received bytes, returns the frames they complete, with the fields of ``frames.FrameParser``."""

    def __init__(self, layout: JsonFeedback, n_joints: int, counts: FrameCounts | None = None) -> None:
        self.counts = counts or FrameCounts()
        self._begin = layout.begin.encode()
        self._most = layout.most_bytes
        self._rest = b""
        self._fields: list[tuple[str, JsonPlace, int | None]] = []
        self._optional = {name for name, signal in layout.signals.items() if signal.optional}
        for key, place in (("stamp", layout.stamp), ("sequence", layout.sequence)):
            if place is not None:
                self._fields.append((key, place, None))
        for name, signal in layout.signals.items():
            self._fields.append((name, signal, signal.count or n_joints))
        self._fields += [(f"status.{name}", condition, None) for name, condition in layout.status.items()]
        for key, word in (("robot_mode", layout.robot_mode), ("safety_mode", layout.safety_mode)):
            if word is not None:
                self._fields.append((key, word, None))
        self._record = np.dtype(
            [(key, "f8") if count is None else (key, "f8", (count,)) for key, _, count in self._fields]
        )

    @property
    def incomplete(self) -> bytes:
        """What has come and is not (yet) a frame."""
        return self._rest

    def feed(self, data: bytes) -> list[Frames]:
        """Return the frames that are complete, in order; never raises."""
        pieces = (self._rest + data).split(self._begin)
        self.counts.skipped += len(pieces[0]) if len(pieces) > 1 else 0
        texts = [self._begin + piece for piece in pieces[1:]]
        found = [self._decoded(text) for text in texts[:-1]]
        self.counts.damaged += sum(frame is None for frame in found)
        self.counts.skipped += sum(len(text) for text, frame in zip(texts, found, strict=False) if frame is None)
        self._rest = texts[-1] if texts else pieces[0]
        if texts and texts[-1].rstrip().endswith(b"}"):
            last = self._decoded(texts[-1])
            if last is not None:
                found.append(last)
                self._rest = b""
        self._bound_rest(bool(texts))
        rows = [frame for frame in found if frame is not None]
        self.counts.frames += len(rows)
        return [np.array(rows, self._record)] if rows else []

    def _bound_rest(self, begun: bool) -> None:
        """Keep the beginning of a frame, up to what a frame may be long, and else what may begin one."""
        keep = len(self._rest)
        if keep > self._most or not (begun or self._rest.startswith(self._begin)):
            keep = min(keep, len(self._begin) - 1)
        self.counts.skipped += len(self._rest) - keep
        self._rest = self._rest[len(self._rest) - keep :]

    def _decoded(self, text: bytes) -> tuple[Any, ...] | None:
        """Return a row of the record; None when this is not a whole frame."""
        try:
            document = json.loads(text)
            return tuple(self._value(document, *field) for field in self._fields)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
            return None

    def _value(self, document: Any, key: str, place: JsonPlace, count: int | None) -> Any:
        try:
            value = _at(document, place.steps)
            if count is None:
                return float(value)
            return [float(one) for one in _exactly(value, count)]
        except (KeyError, IndexError, TypeError):
            if count is None or key not in self._optional:
                raise
            return [np.nan] * count


def _at(document: Any, steps: tuple[str | int, ...]) -> Any:
    """Go through objects by key, arrays by index, and with ``*`` through all of an array."""
    for depth, step in enumerate(steps):
        if step == "*":
            return [_at(item, steps[depth + 1 :]) for item in document]
        document = document[step]
    return document


def _exactly(values: Any, count: int) -> Any:
    if len(values) != count:
        raise ValueError(f"{len(values)} values, expected {count}")
    return values
