"""One robot as a Modbus unit: its registers, rendered from immutable snapshots when they are asked for.

Everything here runs on the event loop and never waits, so no request sees half of a change.
"""

from __future__ import annotations

import math
import struct
import time
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime

from pymodbus.constants import ExcCodes
from pymodbus.simulator import DataType, SimData, SimDevice

from service.devices import DeviceStatus
from service.modbus.in_force import InForce, ServedTable
from service.modbus.mailbox import Mailbox
from service.modbus.register_map import (
    BLOCKS,
    MAILBOX,
    MAP_VERSION,
    MOST_JOINTS,
    RESULTS,
    UNKNOWN,
    WINDOW_BLOCKS,
    WINDOW_FLOATS,
    Block,
    Connection,
    Flags,
    Motion,
    Permit,
    Quantity,
    Space,
    WindowState,
)
from service.motion import PermitState
from service.settings import RobotSettings

_NOT_AVAILABLE = (math.nan,) * MOST_JOINTS
_SELECTORS = 3  # registers of a window that are written by the client

Registers = list[int]


class Window:
    """What one window shows; rendered again when the selection or the table has changed."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._shown: tuple[object, ...] | None = None
        self._sequence = 0

    def render(self, registers: Registers, start: int, table: ServedTable | None) -> None:
        """Bring the window's part of the holding ``registers``, which begin at address ``start``, up to date."""
        begin = self.block.start - start
        high, low, quantity = registers[begin : begin + _SELECTORS]
        row = high << 16 | low
        shown = (table, row, quantity)
        if shown == self._shown:
            return
        self._shown = shown
        self._sequence = (self._sequence + 1) & UNKNOWN
        registers[begin + _SELECTORS : begin + self.block.registers] = self._content(table, row, quantity)

    def _content(self, table: ServedTable | None, row: int, quantity: int) -> Registers:
        rows, words = 0, []
        if table is None:
            state = WindowState.NO_TABLE
        elif quantity not in table.words:
            state = WindowState.NO_SUCH_QUANTITY
        elif row >= table.samples:
            state = WindowState.BEYOND_END
        else:
            state = WindowState.SHOWN
            rows = min(WINDOW_FLOATS // table.joints, table.samples - row)
            width = 2 * table.joints
            words = table.words[Quantity(quantity)][row * width : (row + rows) * width].tolist()
        values = struct.unpack(f">{len(words) // 2}f", struct.pack(f">{len(words)}H", *words))
        return self.block.encode(
            {
                "state": state,
                "seq_begin": self._sequence,
                "version": 0 if table is None else table.version,
                "crc": 0 if table is None or quantity not in table.crc else table.crc[Quantity(quantity)],
                "row": row,
                "quantity": quantity,
                "rows": rows,
                "joints": 0 if table is None else table.joints,
                "values": (*values, *(math.nan,) * (WINDOW_FLOATS - len(values))),
                "seq_end": self._sequence,
            }
        )


class Unit:
    """The registers of one robot.

    Parameters
    ----------
    number : of the unit.
    robot : its settings.
    joints : of its model.
    mailbox : takes its commands.
    """

    def __init__(self, number: int, robot: RobotSettings, joints: int, mailbox: Mailbox) -> None:
        self.number = number
        self.robot = robot
        self.in_force = InForce()
        self._joints = joints
        self._mailbox = mailbox
        self._windows = tuple(Window(block) for block in WINDOW_BLOCKS)
        self._heartbeat = 0
        self._sequence = 0
        self._results: Registers = [0] * RESULTS.registers

    @property
    def device(self) -> SimDevice:
        """The unit as the server takes it."""
        holding = [item for block in BLOCKS if block.space is Space.HOLDING for item in self._layout(block)]
        # The server wants all four tables; requests for coils and discrete inputs never come so far.
        unused = [SimData(0, values=[False] * 16, datatype=DataType.BITS, readonly=True)]
        return SimDevice(self.number, (unused, unused, holding, self._layout(RESULTS)), action=self._access)

    def refresh(self, status: DeviceStatus, permit: PermitState, drift: Sequence[float] = ()) -> None:
        """Show this state of the robot, what is in force, and the drift monitor's level of each joint."""
        self._heartbeat = (self._heartbeat + 1) & 0xFFFF
        self._sequence = (self._sequence + 1) & UNKNOWN
        result, table = self.in_force.result, self.in_force.table
        age = math.nan if result is None or result.activated_at is None else _seconds_since(result.activated_at)
        self._results = RESULTS.encode(
            {
                "map_version": MAP_VERSION,
                "heartbeat": self._heartbeat,
                "seq_begin": self._sequence,
                "sample_age": _whole(status.sample_age_ms),
                "connection": Connection[status.connection.upper()],
                "permit": Permit[permit.name],
                "motion": Motion[status.motion.upper()],
                "flags": self._flags(status),
                "joints": self._joints,
                "stored_age": _whole(1e3 * (time.monotonic() - self.in_force.looked_up)),
                "result_mark": 0 if result is None else zlib.crc32(result.id.encode()),
                "result_age": _whole(age),
                "table_version": 0 if table is None else table.version,
                "table_crc": 0 if table is None else table.crc[Quantity.TORQUE],
                "table_rows": 0 if table is None else table.samples,
                "table_joints": 0 if table is None else table.joints,
                "table_cycle": math.nan if table is None else table.cycle_time,
                "residual_rms": _NOT_AVAILABLE if result is None else result.rms,
                "residual_relative": _NOT_AVAILABLE if result is None else result.relative,
                "friction_coulomb": _NOT_AVAILABLE,
                "friction_viscous": _NOT_AVAILABLE,
                "drift": (*drift, *_NOT_AVAILABLE[len(drift) :]),
                "seq_end": self._sequence,
            }
        )

    def _flags(self, status: DeviceStatus) -> Flags:
        result, table = self.in_force.result, self.in_force.table
        bits = {
            Flags.CONTROLLER_STOP: status.controller.stop is not None,
            Flags.MOTION_ENABLED: self.robot.motion_enabled,
            Flags.VIRTUAL: self.robot.virtual,
            Flags.RESULT_IN_FORCE: result is not None,
            Flags.RESULT_PASSED: result is not None and result.passed,
            Flags.TABLE: table is not None,
            Flags.TABLE_OF_RESULT: table is not None and result is not None and table.result_id == result.id,
        }
        return Flags(sum(flag for flag, is_set in bits.items() if is_set))

    def _layout(self, block: Block) -> list[SimData]:
        permitted = block is not MAILBOX or self._mailbox.enabled
        return [
            SimData(
                block.address(field.name),
                values=[0] * field.registers,
                datatype=DataType.REGISTERS,
                readonly=not (field.writable and permitted),
            )
            for field in block.fields
        ]

    async def _access(
        self,
        function: int,
        start: int,
        address: int,
        count: int,
        registers: Registers,
        written: list[int] | list[bool] | None,
    ) -> ExcCodes | None:
        """Called by the server for each request, before it reads or writes ``registers``, which begin at ``start``."""
        end = address + count
        if function == _READ_INPUT:
            registers[:] = self._results
        elif written is not None:
            if _overlaps(MAILBOX, address, end):
                return self._mailbox.write(address, [int(word) for word in written], registers)
        else:
            if _overlaps(MAILBOX, address, end):
                self._mailbox.render(registers)
            for window in self._windows:
                if _overlaps(window.block, address, end):
                    window.render(registers, start, self.in_force.table)
        return None


_READ_INPUT = 4


def _overlaps(block: Block, begin: int, end: int) -> bool:
    return begin < block.start + block.registers and block.start < end


def _whole(value: float | None) -> int:
    """Return a whole number of 32 bits, the largest but one for anything above, `UNKNOWN` for what is not known."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return min(max(int(value), 0), UNKNOWN - 1)


def _seconds_since(moment: datetime) -> float:
    return (datetime.now(UTC) - moment).total_seconds()
