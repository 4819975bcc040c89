"""How the PLC's samples and states become this project's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.streaming.samples import (
    STATUS_EMERGENCY_STOP,
    STATUS_FAULT,
    STATUS_MOVING,
    STATUS_PROGRAM_RUNNING,
    STATUS_PROTECTIVE_STOP,
    STATUS_SENSOR_SATURATED,
    SampleBlock,
    sample_dtype,
)
from drivers.contract import ControllerState
from drivers.twincat_layout import LEGS, Error, Mode, Status

_LEG_ARRAYS = {
    "q": "aLength",
    "qd": "aSpeed",
    "current": "aCurrent",
    "torque": "aForce",
    "target_q": "aTargetLength",
    "target_qd": "aTargetSpeed",
    "target_current": "aTargetCurrent",
}
"""Sample field <- member of ST_DynidSample. The controller has no model of its own, so no target torque."""
_STATUS = (
    (Status.MOVING, STATUS_MOVING),
    (Status.PLAYING, STATUS_PROGRAM_RUNNING),
    (Status.STOPPED_BY_PLC, STATUS_PROTECTIVE_STOP),
    (Status.EMERGENCY_STOP, STATUS_EMERGENCY_STOP),
    (Status.DRIVE_FAULT, STATUS_FAULT),
    (Status.SENSOR_SATURATED, STATUS_SENSOR_SATURATED),
)
_MOVING_MODES = (Mode.APPROACHING, Mode.PLAYING, Mode.STOPPING)
_SAMPLE = sample_dtype(LEGS)


def samples(
    records: NDArray[Any], sequence: NDArray[np.int64], lost: NDArray[np.int64], receive_time: int
) -> SampleBlock:
    """Return PLC samples (m,) as samples (m,), numbered ``sequence``, received at ``receive_time`` ns."""
    block = np.empty(records.size, _SAMPLE)
    block["sequence"] = sequence
    block["controller_time"] = records["tDC"] * 1e-9
    block["receive_time"] = receive_time
    block["lost"] = lost
    for field, member in _LEG_ARRAYS.items():
        block[field] = records[member]
    block["target_torque"] = np.nan
    status = np.zeros(records.size, np.uint32)
    for bit, flag in _STATUS:
        status[(records["nStatus"] & bit) != 0] |= flag
    block["status"] = status
    return block


def controller_state(state: np.void) -> ControllerState:
    """Return what ST_DynidState says about the controller."""
    error = int(state["eError"])
    return ControllerState(
        robot_mode=_name(Mode, state["eMode"]),
        safety_mode="NORMAL" if error == Error.NONE else _name(Error, error),
        program_running=int(state["eMode"]) in _MOVING_MODES,
    )


def news(state: np.void, before: np.void | None) -> list[str]:
    """Return what an operator should know of a new ST_DynidState."""
    told = []
    if state["eError"] != Error.NONE and (before is None or state["eError"] != before["eError"]):
        told.append(f"the PLC has stopped the robot: {_name(Error, state['eError'])}")
    for leg in range(LEGS):
        fault = int(state["aDriveError"][leg])
        if fault and (before is None or fault != before["aDriveError"][leg]):
            told.append(f"the drive of leg {leg + 1} reports error {fault:#06x}")
        saturated = int(state["nSaturated"]) >> leg & 1
        if saturated and (before is None or not int(before["nSaturated"]) >> leg & 1):
            told.append(f"the force sensor of leg {leg + 1} is at its limit; its samples are no measurements")
    return told


def _name(kind: type[Mode | Error], value: int) -> str:
    try:
        return kind(int(value)).name
    except ValueError:
        return str(int(value))
