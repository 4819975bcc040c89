"""The controller's RTDE variables: their types, the image they are published from, the inputs they fill.

Source of names and types: Universal Robots, RTDE guide. Variables whose physics the virtual robot does not
model (forces, voltages, temperatures, IO) exist and hold constants, so that clients that ask for everything
are served; of the inputs, the registers and the speed slider have an effect.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

REGISTERS = 48
NOT_FOUND = "NOT_FOUND"
IN_USE = "IN_USE"

_NUMPY_FORMAT: dict[str, tuple[str, tuple[int, ...]]] = {
    "BOOL": ("?", ()),
    "UINT8": ("u1", ()),
    "UINT32": (">u4", ()),
    "UINT64": (">u8", ()),
    "INT32": (">i4", ()),
    "DOUBLE": (">f8", ()),
    "VECTOR3D": (">f8", (3,)),
    "VECTOR6D": (">f8", (6,)),
    "VECTOR6INT32": (">i4", (6,)),
    "VECTOR6UINT32": (">u4", (6,)),
}
_STRUCT_FORMAT = {
    "BOOL": "?",
    "UINT8": "B",
    "UINT32": "I",
    "UINT64": "Q",
    "INT32": "i",
    "DOUBLE": "d",
    "VECTOR6D": "6d",
}

# The rows that the control cycle computes, in the order of its output block.
CYCLE_ROWS: tuple[str, ...] = (
    "target_q",
    "target_qd",
    "target_qdd",
    "target_current",
    "target_moment",
    "actual_q",
    "actual_qd",
    "actual_current",
    "joint_control_output",
    "actual_current_as_torque",
    "joint_position_deviation_ratio",
    "actual_TCP_pose",
    "actual_TCP_speed",
    "target_TCP_pose",
    "target_TCP_speed",
)

_DOUBLES = [
    "timestamp",
    "actual_execution_time",
    "speed_scaling",
    "target_speed_fraction",
    "actual_momentum",
    "actual_main_voltage",
    "actual_robot_voltage",
    "actual_robot_current",
    "io_current",
    "payload",
    "tcp_force_scalar",
    "standard_analog_input0",
    "standard_analog_input1",
    "standard_analog_output0",
    "standard_analog_output1",
    "tool_output_current",
    "tool_temperature",
    "tool_analog_input0",
    "tool_analog_input1",
]
_VECTORS6 = [
    "actual_TCP_force",
    "joint_temperatures",
    "actual_joint_voltage",
    "ft_raw_wrench",
    "payload_inertia",
    "actual_current_window",
]
_VECTORS3 = ["actual_tool_accelerometer", "payload_cog", "elbow_position", "elbow_velocity"]
_INTEGERS = {
    "joint_mode": "VECTOR6INT32",
    "robot_mode": "INT32",
    "safety_mode": "INT32",
    "safety_status": "INT32",
    "tool_output_voltage": "INT32",
    "runtime_state": "UINT32",
    "robot_status_bits": "UINT32",
    "safety_status_bits": "UINT32",
    "analog_io_types": "UINT32",
    "script_control_line": "UINT32",
    "tool_mode": "UINT32",
    "output_bit_registers0_to_31": "UINT32",
    "output_bit_registers32_to_63": "UINT32",
    "actual_digital_input_bits": "UINT64",
    "actual_digital_output_bits": "UINT64",
}

OUTPUT_TYPES: dict[str, str] = {
    **dict.fromkeys(CYCLE_ROWS, "VECTOR6D"),
    **dict.fromkeys(_VECTORS6, "VECTOR6D"),
    **dict.fromkeys(_VECTORS3, "VECTOR3D"),
    **dict.fromkeys(_DOUBLES, "DOUBLE"),
    **_INTEGERS,
    **{f"output_int_register_{i}": "INT32" for i in range(REGISTERS)},
    **{f"output_double_register_{i}": "DOUBLE" for i in range(REGISTERS)},
    **{f"output_bit_register_{i}": "BOOL" for i in range(64, 128)},
}
"""Type of every output variable."""

INPUT_TYPES: dict[str, str] = {
    "speed_slider_mask": "UINT32",
    "speed_slider_fraction": "DOUBLE",
    "external_force_torque": "VECTOR6D",
    "standard_analog_output_mask": "UINT8",
    "standard_analog_output_type": "UINT8",
    "standard_analog_output_0": "DOUBLE",
    "standard_analog_output_1": "DOUBLE",
    "input_bit_registers0_to_31": "UINT32",
    "input_bit_registers32_to_63": "UINT32",
    **{
        f"{bank}_digital_output{suffix}": "UINT8"
        for bank in ("standard", "configurable", "tool")
        for suffix in ("", "_mask")
    },
    **{f"input_int_register_{i}": "INT32" for i in range(REGISTERS)},
    **{f"input_double_register_{i}": "DOUBLE" for i in range(REGISTERS)},
    **{f"input_bit_register_{i}": "BOOL" for i in range(64, 128)},
}
"""Type of every input variable."""

_SINCE: dict[str, tuple[int, int]] = {
    "ft_raw_wrench": (5, 9),
    "payload_inertia": (5, 11),
    "actual_current_as_torque": (5, 23),
    "joint_position_deviation_ratio": (5, 23),
}


def output_type(name: str, version: Sequence[int]) -> str:
    """Return the variable's type, or ``NOT_FOUND`` where this controller version lacks it."""
    since = _SINCE.get(name)
    if since is not None and tuple(version[:2]) < since:
        return NOT_FOUND
    return OUTPUT_TYPES.get(name, NOT_FOUND)


class OutputImage:
    """All output variables in wire format (big-endian), so that a package is one gather of bytes."""

    def __init__(self) -> None:
        fields = [(name, *_NUMPY_FORMAT[kind]) for name, kind in OUTPUT_TYPES.items()]
        self._record: NDArray[Any] = np.zeros(1, np.dtype(fields))
        self._bytes = self._record.view(np.uint8)
        self._views = {name: self._record[name] for name in OUTPUT_TYPES}
        rows = self._bytes[: len(CYCLE_ROWS) * 6 * 8]
        self.cycle: NDArray[Any] = rows.view(">f8").reshape(len(CYCLE_ROWS), 6)
        """The rows ``CYCLE_ROWS``, shape (len(CYCLE_ROWS), 6); assign to publish a control cycle."""

    def __setitem__(self, name: str, value: Any) -> None:
        self._views[name][0] = value

    def __getitem__(self, name: str) -> Any:
        return self._views[name][0]

    def gather_index(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Return the positions of the bytes of ``names``, in order."""
        record: Any = self._record.dtype.fields
        spans = [(record[name][1], record[name][0].itemsize) for name in names]
        return np.concatenate([np.arange(at, at + size, dtype=np.intp) for at, size in spans])

    def gather(self, index: NDArray[np.intp]) -> bytes:
        """Return the bytes at ``index``."""
        return self._bytes.take(index).tobytes()


@dataclass(frozen=True)
class InputRecipe:
    """How a data package from a client is laid out."""

    names: tuple[str, ...]
    layout: struct.Struct

    @classmethod
    def of(cls, names: Sequence[str]) -> InputRecipe:
        """Return the recipe for known ``names``."""
        layout = ">" + "".join(_STRUCT_FORMAT[INPUT_TYPES[name]] for name in names)
        return cls(tuple(names), struct.Struct(layout))


@dataclass
class InputVariables:
    """What clients have written, who owns which variable, and when each integer register was last written.

    ``written_at`` holds the control cycle of the last write per integer register; the script's watchdog
    (``rtde_set_watchdog``) looks at it.
    """

    integers: list[int] = field(default_factory=lambda: [0] * REGISTERS)
    doubles: list[float] = field(default_factory=lambda: [0.0] * REGISTERS)
    others: dict[str, Any] = field(default_factory=dict)
    written_at: list[int] = field(default_factory=lambda: [0] * REGISTERS)
    _owners: dict[str, object] = field(default_factory=dict)

    def claim(self, names: Sequence[str], owner: object) -> list[str]:
        """Return each variable's type, ``NOT_FOUND`` or ``IN_USE``; claim all of them or none."""
        types = [
            IN_USE if self._owners.get(name, owner) is not owner else INPUT_TYPES.get(name, NOT_FOUND) for name in names
        ]
        if NOT_FOUND not in types and IN_USE not in types:
            self._owners.update(dict.fromkeys(names, owner))
        return types

    def release(self, owner: object) -> None:
        """Give back everything ``owner`` claimed; written values stay, as on a real controller."""
        self._owners = {name: holder for name, holder in self._owners.items() if holder is not owner}

    def write(self, recipe: InputRecipe, payload: bytes, offset: int, cycle: int) -> None:
        """Store one data package that starts at ``offset`` of ``payload``."""
        values = iter(recipe.layout.unpack_from(payload, offset))
        for name in recipe.names:
            if name.startswith("input_double_register_"):
                self.doubles[int(name[22:])] = next(values)
            elif name.startswith("input_int_register_"):
                index = int(name[19:])
                self.integers[index] = next(values)
                self.written_at[index] = cycle
            elif INPUT_TYPES[name] == "VECTOR6D":
                self.others[name] = [next(values) for _ in range(6)]
            else:
                self.others[name] = next(values)
