"""Which RTDE outputs are asked for, and how they become samples and controller states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.streaming.samples import (
    STATUS_EMERGENCY_STOP,
    STATUS_FAULT,
    STATUS_MOVING,
    STATUS_PROGRAM_RUNNING,
    STATUS_PROTECTIVE_STOP,
    SampleBlock,
    sample_dtype,
)
from drivers.contract import ControllerState

N_JOINTS = 6
MOVING_SPEED = 1e-3  # rad/s of a target; a robot that holds its pose has targets of exactly 0

# Sample field <- RTDE output.
_JOINT_OUTPUTS = {
    "q": "actual_q",
    "qd": "actual_qd",
    "current": "actual_current",
    "target_q": "target_q",
    "target_qd": "target_qd",
    "target_current": "target_current",
    "target_torque": "target_moment",
}
_STATE_OUTPUTS = ("robot_status_bits", "safety_status_bits", "robot_mode", "safety_mode", "joint_temperatures")
_TORQUE_OUTPUT = "actual_current_as_torque"
"""The motor current times the controller's own drive gains; without it ``torque`` stays NaN."""
_TORQUE_SINCE = (5, 23)

_PROGRAM_RUNNING = 1 << 1  # of robot_status_bits
_FIRST_SAFETY_STOP = 1 << 2  # of safety_status_bits: smaller are normal and reduced mode
_SAFETY_BITS = (  # of safety_status_bits
    (1 << 2 | 1 << 4, STATUS_PROTECTIVE_STOP),  # protective stop, safeguard stop
    (1 << 5 | 1 << 6 | 1 << 7, STATUS_EMERGENCY_STOP),  # system, robot, any
    (1 << 8 | 1 << 9, STATUS_FAULT),  # violation, fault
)
_ROBOT_MODES = {
    -1: "NO_CONTROLLER",
    0: "DISCONNECTED",
    1: "CONFIRM_SAFETY",
    2: "BOOTING",
    3: "POWER_OFF",
    4: "POWER_ON",
    5: "IDLE",
    6: "BACKDRIVE",
    7: "RUNNING",
    8: "UPDATING_FIRMWARE",
}
_SAFETY_MODES = {
    1: "NORMAL",
    2: "REDUCED",
    3: "PROTECTIVE_STOP",
    4: "RECOVERY",
    5: "SAFEGUARD_STOP",
    6: "SYSTEM_EMERGENCY_STOP",
    7: "ROBOT_EMERGENCY_STOP",
    8: "VIOLATION",
    9: "FAULT",
    10: "VALIDATE_JOINT_ID",
    11: "UNDEFINED",
    12: "AUTOMATIC_MODE_SAFEGUARD_STOP",
    13: "THREE_POSITION_ENABLING_STOP",
}
_SAMPLE = sample_dtype(N_JOINTS)


def outputs(version: Sequence[int]) -> tuple[str, ...]:
    """Return the names of all outputs to ask a controller of ``version`` (major, minor, ...) for."""
    torque = (_TORQUE_OUTPUT,) if tuple(version[:2]) >= _TORQUE_SINCE else ()
    return ("timestamp", *_JOINT_OUTPUTS.values(), *torque, *_STATE_OUTPUTS)


def samples(
    records: NDArray[np.void],
    sequence: NDArray[np.int64],
    lost: NDArray[np.int64],
    receive_time: int,
) -> SampleBlock:
    """Return data packets (m,) as samples (m,), numbered ``sequence``, received at ``receive_time`` ns."""
    block = np.empty(records.size, _SAMPLE)
    block["sequence"] = sequence
    block["controller_time"] = records["timestamp"]
    block["receive_time"] = receive_time
    block["lost"] = lost
    for field, output in _JOINT_OUTPUTS.items():
        block[field] = records[output]
    block["torque"] = records[_TORQUE_OUTPUT] if _TORQUE_OUTPUT in (records.dtype.names or ()) else np.nan
    block["status"] = _status(records, block["target_qd"])
    return block


def controller_state(record: Any) -> ControllerState:
    """Return what one data packet says about the controller."""
    robot_mode, safety_mode = int(record["robot_mode"]), int(record["safety_mode"])
    return ControllerState(
        robot_mode=_ROBOT_MODES.get(robot_mode, str(robot_mode)),
        safety_mode=_SAFETY_MODES.get(safety_mode, str(safety_mode)),
        program_running=bool(int(record["robot_status_bits"]) & _PROGRAM_RUNNING),
        temperatures=tuple(record["joint_temperatures"].tolist()),
    )


def _status(records: NDArray[np.void], target_qd: NDArray[np.float64]) -> NDArray[np.uint32]:
    moving = np.abs(target_qd).max(axis=1) > MOVING_SPEED
    status = moving * np.uint32(STATUS_MOVING)
    running = records["robot_status_bits"] & _PROGRAM_RUNNING
    status[running != 0] |= STATUS_PROGRAM_RUNNING
    safety = records["safety_status_bits"]
    if safety.max() >= _FIRST_SAFETY_STOP:  # rare
        for bits, flag in _SAFETY_BITS:
            status[(safety & bits) != 0] |= flag
    result: NDArray[np.uint32] = status
    return result
