"""The one sample layout that drivers write, the ring carries and recorders store.

A sample is a fixed-size record, so a block of samples is a contiguous NumPy structured array that can be
copied into shared memory, written to disk and viewed back without touching single fields.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SampleBlock = NDArray[np.void]
"""A structured array of ``sample_dtype(n)``, shape (m,), m >= 1, oldest first."""

JOINT_FIELDS: tuple[str, ...] = (
    "q",  # rad (m for prismatic joints)
    "qd",  # rad/s
    "current",  # motor current, A
    "torque",  # joint torque or sensor force where the controller measures one, N·m (N); NaN where not
    "target_q",
    "target_qd",
    "target_current",  # A
    "target_torque",  # the controller's own model torque, N·m
)
"""Per-joint fields, SI units, float64, in the order they are stored."""

STATUS_MOVING = 1 << 0
STATUS_PROGRAM_RUNNING = 1 << 1
STATUS_PROTECTIVE_STOP = 1 << 2
STATUS_EMERGENCY_STOP = 1 << 3
STATUS_FAULT = 1 << 4
STATUS_SENSOR_SATURATED = 1 << 5  # a torque or force is its sensor's limit, and no measurement


def sample_dtype(n_joints: int) -> np.dtype[Any]:
    """Return the record layout for a robot with ``n_joints`` joints.

    ``sequence`` counts controller cycles: consecutive samples differ by one, a larger step means that
    ``step - 1`` samples were lost before this one (``lost`` repeats that number, so that a reader of a
    single block need not know the previous one). ``controller_time`` is the controller's clock in s,
    ``receive_time`` the host's CLOCK_MONOTONIC in ns, ``status`` the ``STATUS_*`` bits.
    """
    return np.dtype(
        [
            ("sequence", "<u8"),
            ("controller_time", "<f8"),
            ("receive_time", "<i8"),
            ("status", "<u4"),
            ("lost", "<u4"),
            *((name, "<f8", (n_joints,)) for name in JOINT_FIELDS),
        ]
    )
