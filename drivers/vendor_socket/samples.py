"""Frames of a layout become samples in SI units, and words about the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.streaming.samples import (
    JOINT_FIELDS,
    STATUS_EMERGENCY_STOP,
    STATUS_FAULT,
    STATUS_MOVING,
    STATUS_PROGRAM_RUNNING,
    STATUS_PROTECTIVE_STOP,
    SampleBlock,
    sample_dtype,
)
from drivers.contract import ControllerState
from drivers.vendor_socket.feedback_layout import (
    SECONDS,
    BinaryCondition,
    Condition,
    FlagName,
    JsonCondition,
    joints_of,
    scale_of,
)
from drivers.vendor_socket.frames import Frames
from drivers.vendor_socket.layout import Layout

MOVING_SPEED = 1e-3  # rad/s of a target; a robot that holds its pose has targets of exactly 0
SEEN_MOVING = 0.02  # rad/s of a joint that is measured, above its noise
MOST_KNOWN = 1024  # values of a status word
FLOAT = 8  # bytes

_FLAGS = {
    "moving": STATUS_MOVING,
    "program_running": STATUS_PROGRAM_RUNNING,
    "protective_stop": STATUS_PROTECTIVE_STOP,
    "emergency_stop": STATUS_EMERGENCY_STOP,
    "fault": STATUS_FAULT,
}


@dataclass
class _StatusWord:
    """A number in a frame and the flags that it means, worked out once for each of its values."""

    key: str
    conditions: list[tuple[int, Condition]]
    known: dict[int, int] = field(default_factory=dict)

    def flags(self, frames: Frames) -> list[int]:
        values = frames[self.key].tolist()
        return [self.known[value] if value in self.known else self._flags(value) for value in values]

    def _flags(self, value: float) -> int:
        flags = 0
        for flag, condition in self.conditions:
            held = int(value) & condition.mask if condition.mask is not None else int(value) in (condition.values or ())
            flags |= flag if held else 0
        if len(self.known) == MOST_KNOWN:
            self.known.clear()
        self.known[int(value)] = flags
        return flags


class SampleMaker:
    """Turns the frames of one layout into samples; remembers the last pose, for controllers without speeds."""

    def __init__(self, layout: Layout) -> None:
        feedback = layout.feedback
        n = layout.n_joints
        self._record = sample_dtype(n)
        self._first_joint = self._record.itemsize - len(JOINT_FIELDS) * n * FLOAT
        self._n_values = len(JOINT_FIELDS) * n
        self._stamp_unit = None if feedback.stamp is None else SECONDS[feedback.stamp.unit]
        self._signals = [
            (name, scale_of(name, signal), _selection(joints_of(signal, n)), n * JOINT_FIELDS.index(name))
            for name, signal in feedback.signals.items()
        ]
        self._n_joints = n
        self._status_words = _status_words(feedback.status)
        self._tells_motion = "moving" in feedback.status
        self._words = [
            (key, word.names)
            for key, word in (("robot_mode", feedback.robot_mode), ("safety_mode", feedback.safety_mode))
            if word is not None
        ]
        self._last: tuple[float, NDArray[np.float64]] | None = None

    def samples(self, frames: Frames, now: int) -> tuple[SampleBlock, Frames]:
        """Return samples that arrived at ``now`` ns, still without ``sequence`` and ``lost``, and their frames.

        A frame with what is no finite number is left out: it would blind whoever watches the robot.
        """
        block = np.empty(frames.size, self._record)
        joints: NDArray[np.float64] = np.ndarray(
            (frames.size, self._n_values), np.float64, block, self._first_joint, (self._record.itemsize, FLOAT)
        )
        joints[:] = np.nan
        names, readable = frames.dtype.names or (), np.True_
        for name, scale, selection, first in self._signals:
            if name in names:
                values = joints[:, first : first + self._n_joints]
                np.multiply(frames[name][:, selection], scale, out=values)
                readable = readable and np.isfinite(values.sum())
        block["controller_time"] = now * 1e-9 if self._stamp_unit is None else frames["stamp"] * self._stamp_unit
        block["receive_time"] = now
        block["status"] = self._status(frames, block)
        return (block, frames) if readable else self._readable(block, frames, joints)

    def _readable(self, block: SampleBlock, frames: Frames, joints: NDArray[np.float64]) -> tuple[SampleBlock, Frames]:
        names = frames.dtype.names or ()
        told = [first + j for name, _, _, first in self._signals if name in names for j in range(self._n_joints)]
        fine = np.isfinite(joints[:, told]).all(axis=1)
        return block[fine], frames[fine]

    def state(self, frame: Any, status: int) -> ControllerState:
        """Return what one frame says about the controller."""
        words = {key: names.get(int(frame[key]), str(int(frame[key]))) for key, names in self._words}
        return ControllerState(
            robot_mode=words.get("robot_mode", "unknown"),
            safety_mode=words.get("safety_mode", "stopped" if status & _STOPS else "unknown"),
            program_running=bool(status & STATUS_PROGRAM_RUNNING),
        )

    def _status(self, frames: Frames, block: SampleBlock) -> NDArray[np.uint32]:
        status = np.zeros(frames.size, np.uint32)
        for word in self._status_words:
            status |= np.array(word.flags(frames), np.uint32)
        if not self._tells_motion:
            status[self._moves(block)] |= np.uint32(STATUS_MOVING)
        return status

    def _moves(self, block: SampleBlock) -> NDArray[np.bool_]:
        """Tell which samples show motion: by the speed that is commanded, else measured, else seen."""
        for name, least in (("target_qd", MOVING_SPEED), ("qd", SEEN_MOVING)):
            if np.isfinite(block[name][-1]).all():  # nor does every firmware tell it
                moves: NDArray[np.bool_] = np.abs(block[name]).max(axis=1) > least
                return moves
        q, times = block["q"], block["controller_time"]
        before = self._last or (times[0], q[0])
        self._last = float(times[-1]), q[-1].copy()
        elapsed = np.diff(times, prepend=before[0])
        way = np.abs(np.diff(q, axis=0, prepend=before[1][None])).max(axis=1)
        seen: NDArray[np.bool_] = way > SEEN_MOVING * elapsed
        return seen


def _status_words(status: Mapping[FlagName, BinaryCondition] | Mapping[FlagName, JsonCondition]) -> list[_StatusWord]:
    """Return the numbers that flags are read from, each once."""
    words: dict[tuple[Any, ...], _StatusWord] = {}
    for name, condition in status.items():
        place = (condition.offset, condition.type) if isinstance(condition, BinaryCondition) else condition.steps
        word = words.setdefault(place, _StatusWord(f"status.{name}", []))
        word.conditions.append((_FLAGS[name], condition))
    return list(words.values())


def _selection(joints: list[int]) -> slice | list[int]:
    """Return how to take these of an array's columns, as a view where that can be."""
    return slice(len(joints)) if joints == list(range(len(joints))) else joints


_STOPS = STATUS_PROTECTIVE_STOP | STATUS_EMERGENCY_STOP | STATUS_FAULT
