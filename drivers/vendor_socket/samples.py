"""Frames of a layout become samples in SI units, and words about the controller."""

from __future__ import annotations

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
from drivers.vendor_socket.feedback_layout import SECONDS, Condition, joints_of, scale_of
from drivers.vendor_socket.frames import Frames
from drivers.vendor_socket.layout import Layout

MOVING_SPEED = 1e-3  # rad/s of a target; a robot that holds its pose has targets of exactly 0
SEEN_MOVING = 0.02  # rad/s of a joint that is measured, above its noise

_FLAGS = {
    "moving": STATUS_MOVING,
    "program_running": STATUS_PROGRAM_RUNNING,
    "protective_stop": STATUS_PROTECTIVE_STOP,
    "emergency_stop": STATUS_EMERGENCY_STOP,
    "fault": STATUS_FAULT,
}


class SampleMaker:
    """Turns the frames of one layout into samples; remembers the last pose, for controllers without speeds."""

    def __init__(self, layout: Layout) -> None:
        feedback = layout.feedback
        n = layout.n_joints
        self._record = sample_dtype(n)
        self.nothing: SampleBlock = np.empty(0, self._record)
        self._stamp_unit = None if feedback.stamp is None else SECONDS[feedback.stamp.unit]
        self._scales = {name: scale_of(name, signal) for name, signal in feedback.signals.items()}
        self._joints = {name: _selection(joints_of(signal, n)) for name, signal in feedback.signals.items()}
        self._unknown = [field for field in JOINT_FIELDS if field not in feedback.signals]
        self._flags: list[tuple[str, int, Condition]] = [
            (f"status.{name}", _FLAGS[name], condition) for name, condition in feedback.status.items()
        ]
        self._tells_motion = "moving" in feedback.status
        self._words = [
            (key, word.names)
            for key, word in (("robot_mode", feedback.robot_mode), ("safety_mode", feedback.safety_mode))
            if word is not None
        ]
        self._last: tuple[float, NDArray[np.float64]] | None = None

    def times(self, frames: Frames, now: int) -> NDArray[np.float64]:
        """Return the controller's time (m,) in s; this host's, ``now`` in ns, where the controller tells none."""
        if self._stamp_unit is None:
            return np.full(frames.size, now * 1e-9)
        times: NDArray[np.float64] = frames["stamp"] * self._stamp_unit
        return times

    def readable(self, frames: Frames) -> NDArray[np.bool_]:
        """Tell which frames (m,) hold only finite numbers; others would blind whoever watches the robot."""
        fine = np.ones(frames.size, np.bool_)
        for name in self._scales:
            if frames.dtype.names is not None and name in frames.dtype.names and frames.dtype[name].base.kind == "f":
                fine &= np.isfinite(frames[name]).all(axis=1)
        return fine

    def samples(
        self, frames: Frames, times: NDArray[np.float64], sequence: NDArray[np.int64], lost: NDArray[np.int64], now: int
    ) -> SampleBlock:
        """Return frames (m,) as samples (m,), numbered ``sequence``, received at ``now`` ns."""
        block = np.empty(frames.size, self._record)
        block["sequence"] = sequence
        block["controller_time"] = times
        block["receive_time"] = now
        block["lost"] = lost
        names = frames.dtype.names or ()
        for name, scale in self._scales.items():
            if name in names:
                np.multiply(frames[name][:, self._joints[name]], scale, out=block[name])
            else:
                block[name] = np.nan
        for field in self._unknown:
            block[field] = np.nan
        block["status"] = self._status(frames, block)
        return block

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
        for key, flag, condition in self._flags:
            value = frames[key].astype(np.int64)
            held = value & condition.mask != 0 if condition.mask is not None else np.isin(value, condition.values or ())
            status[held] |= np.uint32(flag)
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


def _selection(joints: list[int]) -> slice | list[int]:
    """Return how to take these of an array's columns, as a view where that can be."""
    return slice(len(joints)) if joints == list(range(len(joints))) else joints


_STOPS = STATUS_PROTECTIVE_STOP | STATUS_EMERGENCY_STOP | STATUS_FAULT
