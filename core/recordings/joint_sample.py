"""How a sample looks as a ROS 2 message: the schema's text, and its CDR bytes as a NumPy record.

The fields of `core.streaming.samples.sample_dtype` in their order need no padding under the CDR alignment
rules (each value aligned to its size, counted from behind the four-byte encapsulation header): 8 + 8 + 8 +
4 + 4 bytes, then only 8-byte values. So a message is the header followed by the sample as it lies in memory.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from mcap.records import Channel, Schema

from core.recordings.mcap_container import CHANNEL_ID, SCHEMA_ID
from core.streaming.samples import sample_dtype

SCHEMA_NAME = "dynid_msgs/msg/JointSample"
SCHEMA_ENCODING = "ros2msg"
MESSAGE_ENCODING = "cdr"
CDR_LITTLE_ENDIAN = b"\x00\x01\x00\x00"

_SCHEMA = """\
# One sample of a robot's joints at one controller cycle. SI units throughout.
# Revolute joints: rad, rad/s, N*m. Prismatic joints: m, m/s, N.
uint64 sequence                # controller cycles; a step of k > 1 means k - 1 samples were lost
float64 controller_time        # the controller's clock, s
int64 receive_time             # CLOCK_MONOTONIC of the host, ns; the message's log time is wall time
uint32 status                  # bits: moving, program running, protective stop, emergency stop, fault
uint32 lost                    # samples the controller did not deliver right before this one
float64[{n}] q                   # position
float64[{n}] qd                  # speed
float64[{n}] current             # motor current, A
float64[{n}] torque              # measured joint torque or sensor force; NaN where there is no sensor
float64[{n}] target_q
float64[{n}] target_qd
float64[{n}] target_current
float64[{n}] target_torque       # the controller's own model torque
"""


def schema_text(n_joints: int) -> str:
    """The ``ros2msg`` definition for robots with ``n_joints`` joints."""
    return _SCHEMA.format(n=n_joints)


def joints_of_schema(text: str) -> int | None:
    """Number of joints of a schema of ours, whatever its comments say; None for any other layout."""
    fields = _fields(text)
    sizes = {int(size) for size in re.findall(r"float64\[(\d+)\] q\b", "\n".join(fields))}
    n_joints = sizes.pop() if len(sizes) == 1 else None
    return n_joints if n_joints and fields == _fields(schema_text(n_joints)) else None


def message_dtype(n_joints: int) -> np.dtype[Any]:
    """A whole MCAP message record: opcode, length, head, encapsulation header, sample. Packed."""
    return np.dtype(
        [
            ("opcode", "u1"),
            ("length", "<u8"),
            ("channel", "<u2"),
            ("sequence", "<u4"),
            ("log_time", "<u8"),
            ("publish_time", "<u8"),
            ("encapsulation", "u1", (4,)),
            ("sample", sample_dtype(n_joints)),
        ]
    )


def declarations(n_joints: int, topic_name: str) -> tuple[Schema, Channel]:
    """The MCAP records that say what the messages of a file are."""
    text = schema_text(n_joints).encode()
    schema = Schema(id=SCHEMA_ID, data=text, encoding=SCHEMA_ENCODING, name=SCHEMA_NAME)
    channel = Channel(
        id=CHANNEL_ID,
        topic=topic_name,
        message_encoding=MESSAGE_ENCODING,
        metadata={"offered_qos_profiles": ""},  # rosbag2 looks for it
        schema_id=SCHEMA_ID,
    )
    return schema, channel


def topic(robot: str) -> str:
    """``/<robot>/samples``, in the characters that ROS allows in names."""
    return f"/{re.sub('[^A-Za-z0-9_]', '_', robot)}/samples"


def _fields(text: str) -> list[str]:
    lines = (" ".join(line.split("#")[0].split()) for line in text.splitlines())
    return [line for line in lines if line]
