"""The controller: its states, its safety checks and its 2 ms cycle. No sockets here."""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from core.models.chain import SerialChain
from drivers.virtual.plant import CONTROL_PERIOD, DEVIATION_LIMIT, Plant
from drivers.virtual.plant_parameters import PlantParameters
from drivers.virtual.target_motions import Motion, SpeedRamp
from drivers.virtual.ur_controller.control_script import PROGRAM_NAME, ControlScript, ScriptError
from drivers.virtual.ur_controller.session import RtdeState
from drivers.virtual.ur_controller.variables import CYCLE_ROWS, InputVariables, OutputImage

Array = NDArray[np.float64]

HOME = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
MODEL = "UR10e VIRTUAL"

_log = logging.getLogger(__name__)

_STOP_DECELERATION = 20.0  # rad/s² of protective stops and of a program's end
_ACCELERATION_LIMIT = 120.0  # rad/s² of the target; beyond what the drives can give, so the command has jumped
_OVERCURRENT_CYCLES = 25  # at the current limit for 50 ms
_SETTLING_CYCLES = 1000
_STEADY_SPEED = 1e-3  # rad/s
_HISTORY = 500  # cycles of joint positions that are remembered
_NAME = re.compile(r"\s*def\s+(\w+)\s*\(")


class RuntimeState(IntEnum):
    """RTDE ``runtime_state``."""

    STOPPING = 0
    STOPPED = 1
    PLAYING = 2
    PAUSED = 4


class RobotMode(IntEnum):
    """RTDE ``robot_mode``."""

    POWER_OFF = 3
    IDLE = 5
    RUNNING = 7


class SafetyMode(IntEnum):
    """RTDE ``safety_mode``."""

    NORMAL = 1
    PROTECTIVE_STOP = 3
    ROBOT_EMERGENCY_STOP = 7


_SAFETY_BITS = {  # normal, protective, robot emergency, emergency, stopped due to safety
    SafetyMode.NORMAL: 1 << 0,
    SafetyMode.PROTECTIVE_STOP: 1 << 2 | 1 << 10,
    SafetyMode.ROBOT_EMERGENCY_STOP: 1 << 6 | 1 << 7 | 1 << 10,
}


@dataclass
class Identity:
    """What the controller says about itself. The client insists on a serial number of digits only."""

    version: tuple[int, int, int, int] = (5, 25, 1, 0)
    serial: str = "0000000000"


class Controller:
    """One virtual robot: give it inputs, call ``run_cycle`` every 2 ms, publish ``state.outputs``.

    Parameters
    ----------
    model
        The catalogue's model, which the controller believes in.
    parameters
        The individual robot that it moves.
    identity
        Version and serial number.
    unlock_delay
        s that a protective stop must have lasted before it can be unlocked; 5 on a real robot.
    """

    def __init__(
        self,
        model: SerialChain,
        parameters: PlantParameters,
        identity: Identity,
        *,
        unlock_delay: float = 5.0,
    ) -> None:
        self.identity = identity
        self.state = RtdeState(identity.version)
        self.target: Array = np.vstack([HOME, np.zeros_like(HOME), np.zeros_like(HOME)])
        self.motion: Motion | None = None
        self.remote_control = True
        self.mode = RobotMode.RUNNING
        self.safety = SafetyMode.NORMAL
        self.runtime = RuntimeState.STOPPED
        self.stop_reason = ""
        self.scripts_started = 0
        self.servo_cycles = 0
        """Control cycles in which the program found a servoj command."""
        self._limits = model.limits
        self.speed_limits: Array = np.where(np.isfinite(model.limits.velocity), model.limits.velocity, np.pi)
        self._unlock_delay = unlock_delay
        self._stopped_at = 0.0
        self._program: ControlScript | None = None
        self._scaling = 1.0
        self._saturated = 0
        self._plant = Plant(model, parameters, HOME)
        self._history: deque[Array] = deque([HOME.copy()], maxlen=_HISTORY)
        self._publish_constants()
        for _ in range(_SETTLING_CYCLES):  # brakes off: the drives take up the weight
            self._plant.run_cycle(self.target)
        self._publish(0.0)

    # --- what the program sees ------------------------------------------------------------------------

    @property
    def inputs(self) -> InputVariables:
        return self.state.inputs

    @property
    def outputs(self) -> OutputImage:
        return self.state.outputs

    @property
    def cycle(self) -> int:
        return self.state.cycle

    @property
    def period(self) -> float:
        return CONTROL_PERIOD

    @property
    def steady(self) -> bool:
        """Whether the robot is at rest and stays so."""
        return self.motion is None and bool(np.abs(self._plant.state.qd).max() < _STEADY_SPEED)

    def within_limits(self, q: Array) -> bool:
        """Whether every joint of ``q`` (n,) rad is inside its range."""
        return bool(np.all((q >= self._limits.position_lower) & (q <= self._limits.position_upper)))

    def positions_ago(self, steps: int) -> Array:
        """Return the joint positions (n,) of ``steps`` cycles ago, or the oldest remembered."""
        return self._history[-1 - min(max(steps, 0), len(self._history) - 1)]

    def protective_stop(self, reason: str) -> None:
        """Bring the robot to rest and hold the program until it is unlocked."""
        if self.safety is not SafetyMode.NORMAL:
            return
        _log.warning("protective stop: %s", reason)
        self.stop_reason = reason
        self.safety = SafetyMode.PROTECTIVE_STOP
        self._stopped_at = time.monotonic()
        if self._program is not None:
            self.runtime = RuntimeState.PAUSED
        self._ramp_down()

    # --- what people and other programs do ------------------------------------------------------------

    def start_program(self, text: str) -> None:
        """Run an uploaded program, instead of the one that runs; refusals are logged, as on a real robot."""
        found = _NAME.match(text)
        name = found.group(1) if found else "?"
        if not self.remote_control or self.mode is not RobotMode.RUNNING or self.safety is not SafetyMode.NORMAL:
            _log.warning(
                "program %r refused: remote control %s, robot mode %s, safety mode %s",
                name,
                self.remote_control,
                self.mode.name,
                self.safety.name,
            )
            return
        self.stop_program("another program was uploaded")
        if name != PROGRAM_NAME:
            _log.error("program %r refused: only %s is emulated", name, PROGRAM_NAME)
            return
        try:
            self._program = ControlScript(text, self)
        except (ScriptError, ValueError) as error:
            _log.error("program %r does not start: %s", name, error)
            return
        self.scripts_started += 1
        self.runtime = RuntimeState.PLAYING

    def stop_program(self, reason: str) -> None:
        """End the program and bring the robot to rest."""
        if self._program is None:
            return
        _log.info("program ends: %s", reason)
        self.stop_reason = reason
        self._program = None
        self._ramp_down()
        self.runtime = RuntimeState.STOPPED if self.motion is None else RuntimeState.STOPPING

    def unlock_protective_stop(self) -> str | None:
        """Leave a protective stop; the program is gone then. Returns what speaks against it."""
        if self.safety is not SafetyMode.PROTECTIVE_STOP:
            return "no protective stop"
        if time.monotonic() - self._stopped_at < self._unlock_delay:
            return "too early"
        self.safety = SafetyMode.NORMAL
        self.stop_program("protective stop unlocked")
        return None

    def emergency_stop(self) -> None:
        """Press the emergency stop: power off. Only a restart of the virtual robot releases it."""
        self.stop_program("emergency stop")
        self.safety = SafetyMode.ROBOT_EMERGENCY_STOP
        self.mode = RobotMode.POWER_OFF

    def set_power(self, mode: RobotMode) -> None:
        """Power off, on, or release the brakes; not while a protective or emergency stop lasts."""
        if self.safety is SafetyMode.NORMAL:
            if mode is not RobotMode.RUNNING:
                self.stop_program("power")
            self.mode = mode

    # --- the cycle ------------------------------------------------------------------------------------

    def run_cycle(self) -> None:
        """Advance the controller and the robot by 2 ms and publish the outcome."""
        started = time.perf_counter()
        self.state.cycle += 1
        self._run_program()
        self._follow_slider()
        self._move_target()
        if self.motion is None and self.runtime is RuntimeState.STOPPING:
            self.runtime = RuntimeState.STOPPED
        if not self._plant.run_cycle(self.target):
            raise ArithmeticError("the simulated dynamics broke down")
        self._history.append(self._plant.out[_ACTUAL_Q].copy())
        self._check_drives()
        self._publish(time.perf_counter() - started)

    def _run_program(self) -> None:
        if self._program is None or self.runtime is not RuntimeState.PLAYING:
            return
        try:
            goes_on = self._program.step()
        except ScriptError as error:
            self.stop_program(str(error))
            return
        if not goes_on:
            self.stop_program("the program came to its end")

    def _ramp_down(self) -> None:
        moving = bool(self.target[1].any())
        self.motion = SpeedRamp(np.zeros_like(HOME), _STOP_DECELERATION) if moving else None
        if not moving:
            self.target[2] = 0.0

    def _follow_slider(self) -> None:
        others = self.inputs.others
        if others.get("speed_slider_mask"):
            fraction = float(others.get("speed_slider_fraction", 1.0))
            goal = min(max(fraction, 0.0), 1.0) if np.isfinite(fraction) else self._scaling
            self._scaling += min(max(goal - self._scaling, -0.004), 0.004)

    def _move_target(self) -> None:
        """Let the motion move the target; what leaves the limits is not passed on to the drives."""
        if self.motion is None:
            return
        before = self.target.copy()
        if self.motion.advance(self.target, CONTROL_PERIOD, self._scaling):
            self.motion = None
        violation = self._violation() if self.safety is SafetyMode.NORMAL else None
        if violation is not None:
            self.target[:] = before
            self.protective_stop(violation)

    def _violation(self) -> str | None:
        q, qd, qdd = self.target
        stopping = q + qd * np.abs(qd) / (2.0 * _STOP_DECELERATION)
        within = {
            "position": (stopping >= self._limits.position_lower) & (stopping <= self._limits.position_upper),
            "speed": np.abs(qd) <= 1.001 * self.speed_limits,
            "acceleration": np.abs(qdd) <= _ACCELERATION_LIMIT,
        }
        for what, fine in within.items():
            if not fine.all():  # a comparison with NaN is not fine either
                return f"joint {int(np.argmin(fine)) + 1}: {what} limit"
        return None

    def _check_drives(self) -> None:
        out = self._plant.out
        saturated = np.abs(out[_CURRENT]) >= 0.999 * self._plant.drives.current_limit
        self._saturated = self._saturated + 1 if saturated.any() else 0
        reason = None
        if (out[_DEVIATION] > 1.0).any():
            joint = int(np.argmax(out[_DEVIATION]))
            reason = f"joint {joint + 1}: over {DEVIATION_LIMIT[joint]} rad from its target"
        elif self._saturated >= _OVERCURRENT_CYCLES:
            reason = f"joint {int(np.argmax(saturated)) + 1}: current limit"
        if reason is not None and self.safety is SafetyMode.NORMAL:
            self.target[0] = out[_ACTUAL_Q]  # give way instead of pushing on
            self.target[1] = np.clip(out[_ACTUAL_QD], -self.speed_limits, self.speed_limits)
            self.protective_stop(reason)

    # --- outputs --------------------------------------------------------------------------------------

    def _publish(self, seconds: float) -> None:
        outputs = self.outputs
        outputs.cycle[:] = self._plant.out
        outputs["timestamp"] = self.state.cycle * CONTROL_PERIOD
        outputs["actual_execution_time"] = seconds * 1e3
        outputs["runtime_state"] = self.runtime
        outputs["robot_mode"] = self.mode
        outputs["safety_mode"] = self.safety
        outputs["safety_status"] = self.safety
        outputs["safety_status_bits"] = _SAFETY_BITS[self.safety]
        playing = self.runtime is RuntimeState.PLAYING
        outputs["robot_status_bits"] = int(self.mode is not RobotMode.POWER_OFF) | (playing << 1)
        outputs["speed_scaling"] = self._scaling
        outputs["target_speed_fraction"] = self._scaling

    def _publish_constants(self) -> None:
        outputs = self.outputs
        outputs["joint_mode"] = 253  # running
        outputs["joint_temperatures"] = 30.0
        outputs["actual_joint_voltage"] = 48.0
        outputs["actual_main_voltage"] = 48.0
        outputs["actual_robot_voltage"] = 48.0


_ACTUAL_Q = CYCLE_ROWS.index("actual_q")
_ACTUAL_QD = CYCLE_ROWS.index("actual_qd")
_CURRENT = CYCLE_ROWS.index("joint_control_output")
_DEVIATION = CYCLE_ROWS.index("joint_position_deviation_ratio")
