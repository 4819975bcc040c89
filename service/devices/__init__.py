"""Robots as the service sees them: one supervised host process each, status, motion, stop."""

from service.devices.messages import (
    Approach,
    ControllerStatus,
    DeviceStatus,
    MotionEvent,
    MotionFinished,
    MotionProgress,
    MotionRequest,
    MotionStarted,
)
from service.devices.supervisor import DeviceSupervisor

__all__ = [
    "Approach",
    "ControllerStatus",
    "DeviceStatus",
    "DeviceSupervisor",
    "MotionEvent",
    "MotionFinished",
    "MotionProgress",
    "MotionRequest",
    "MotionStarted",
]
