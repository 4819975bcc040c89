"""The simulated parallel robot and its drives: forward dynamics under the PLC's targets, 1 ms at a time.

Each drive tracks its leg's target with position, speed and integral action on the motor current, to which the
PLC may add a feedforward. What the true drive gain makes of that current moves screw and push rod against the
cylinder's friction and the mechanism's force:

    g i = M_s l'' + F(l') + f_motor(q, q', q'')

f_motor is affine in q'', so seven evaluations of the inverse dynamics give the linear system for q''. Speeds are
integrated semi-implicitly, with the friction's stiffness implicit.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.dynamics.upru_dynamics import inverse_dynamics
from core.dynamics.upru_kinematics import NO_FAULT, ParallelArrays, Workspace, make_workspace
from drivers.virtual.lugre import bend
from drivers.virtual.upru_parameters import UpruPlantParameters

Array = NDArray[np.float64]

PERIOD = 0.001  # s
ENCODER = 0.010 / 2**17  # m, of a 17-bit encoder on a screw with a lead of 10 mm
FORCE_LIMIT = 5000.0  # N, range of the force sensors
END_STOP = 0.02  # m that the cylinders go on beyond the model's limits
_BANDWIDTH = 40.0  # rad/s of the position loop
_DAMPING_RATIO = 0.9
_INTEGRAL_RATE = 8.0  # 1/s, integral action over proportional
_SPEED_FILTER = 2.0 * math.pi * 200.0  # rad/s, of the drive's speed signal
_CARRIED = 25.0  # kg of platform and leg per leg, as the drives were tuned with
_LARGEST_CURRENT = 12.0  # A
_SETTLING_CYCLES = 200
_NOISE_ROWS = 1000  # drawn at once


class LegDrives(NamedTuple):
    """Drives and cylinders; arrays are (6,)."""

    proportional: float  # N/m
    derivative: float  # N·s/m
    integral: float  # N/(m·s)
    nominal_gain: Array  # N/A as the drives believe
    gain: Array  # N/A
    screw_inertia: Array  # kg
    friction: Array  # (6, 6), see `LuGreFriction.table`


class Instruments(NamedTuple):
    """What stands between the truth and what is read; arrays are (6,)."""

    tare: Array  # N
    gain: Array
    force_noise: float  # N
    current_noise: float  # A
    saturated: NDArray[np.bool_]  # a fault: the sensor reads its limit


class MachineState(NamedTuple):
    """What changes; each (6,) unless said otherwise."""

    q: Array  # pose of the platform
    qd: Array
    bristle: Array  # m
    integral: Array  # N
    reading: Array  # m, last one of the encoder
    speed: Array  # m/s, filtered


class Scratch(NamedTuple):
    """Memory of the kernel."""

    work: Workspace
    trials: Array  # (7, 6), accelerations: none, and one of each coordinate
    wrench: Array  # (1, 6)
    sensor: Array  # (7, 6)
    motor: Array  # (7, 6)
    leg_acceleration: Array  # (7, 6)
    length: Array  # (6,)
    leg_speed: Array  # (6,)
    system: Array  # (6, 6)
    known: Array  # (6,)


@njit(cache=True, error_model="numpy")
def _forces(robot: ParallelArrays, q: Array, qd: Array, scratch: Scratch) -> bool:
    """Write forces and leg accelerations for each of the trial accelerations; False in a singular pose."""
    work = scratch.work
    for trial in range(7):
        one = slice(trial, trial + 1)
        _, fault = inverse_dynamics(
            robot,
            q.reshape(1, 6),
            qd.reshape(1, 6),
            scratch.trials[one],
            scratch.wrench,
            work,
            scratch.sensor[one],
            scratch.motor[one],
        )
        if fault != NO_FAULT:
            return False
        for i in range(6):
            scratch.leg_acceleration[trial, i] = work.legs[i, 17]
    for i in range(6):
        scratch.length[i], scratch.leg_speed[i] = work.legs[i, 15], work.legs[i, 16]
    return True


@njit(cache=True, error_model="numpy")
def _drive_force(drives: LegDrives, state: MachineState, i: int, reading: float, target: float, speed: float) -> float:
    """Return the force (N) that the drive of leg i asks of its motor, from its encoder's reading."""
    raw = (reading - state.reading[i]) / PERIOD
    state.speed[i] += (raw - state.speed[i]) * (1.0 - math.exp(-_SPEED_FILTER * PERIOD))
    error = target - reading
    state.integral[i] += drives.integral * error * PERIOD
    force: float = drives.proportional * error + drives.derivative * (speed - state.speed[i]) + state.integral[i]
    return force


@njit(cache=True, error_model="numpy")
def run_cycle(
    robot: ParallelArrays,
    drives: LegDrives,
    instruments: Instruments,
    state: MachineState,
    scratch: Scratch,
    target: Array,
    feed: Array,
    noise: Array,
    enabled: bool,
    out: Array,
) -> bool:
    """Advance 1 ms towards ``target`` (3, 6) with the current ``feed`` (6,) A added; write to ``out`` (4, 6).

    Rows: length, speed, current and force as they are read at the beginning of the cycle, for which the target
    is. ``noise`` (2, 6) is standard normal. With the drives not ``enabled`` the brakes hold. Returns False where
    the dynamics broke down.
    """
    if not _forces(robot, state.q, state.qd, scratch):
        return False
    if not enabled:
        state.qd[:] = 0.0
    for i in range(6):
        reading = round(scratch.length[i] / ENCODER) * ENCODER
        force = _drive_force(drives, state, i, reading, target[0, i], target[1, i])
        current = feed[i] + force / drives.nominal_gain[i] if enabled else 0.0
        current = min(max(current, -_LARGEST_CURRENT), _LARGEST_CURRENT)
        state.bristle[i], friction, slope = bend(drives.friction[i], state.bristle[i], scratch.leg_speed[i], PERIOD)
        inertia = drives.screw_inertia[i] + PERIOD * slope
        offset = scratch.leg_acceleration[0, i]
        scratch.known[i] = drives.gain[i] * current - friction - scratch.motor[0, i] - inertia * offset
        for k in range(6):
            of_mechanism = scratch.motor[k + 1, i] - scratch.motor[0, i]
            scratch.system[i, k] = of_mechanism + inertia * (scratch.leg_acceleration[k + 1, i] - offset)
        out[0, i] = reading
        out[1, i] = (reading - state.reading[i]) / PERIOD
        out[2, i] = current + instruments.current_noise * noise[0, i]
        state.reading[i] = reading
    qdd = np.linalg.solve(scratch.system, scratch.known) if enabled else np.zeros(6)
    healthy = True
    for i in range(6):
        force = scratch.sensor[0, i]
        for k in range(6):
            force += (scratch.sensor[k + 1, i] - scratch.sensor[0, i]) * qdd[k]
        shown = instruments.tare[i] + instruments.gain[i] * force + instruments.force_noise * noise[1, i]
        if instruments.saturated[i]:
            shown = FORCE_LIMIT
        out[3, i] = min(max(shown, -FORCE_LIMIT), FORCE_LIMIT)
        state.qd[i] += PERIOD * qdd[i]
        state.q[i] += PERIOD * state.qd[i]
        healthy &= math.isfinite(state.q[i])
    return healthy


class UpruPlant:
    """A `drivers.virtual.twincat.program.LegDrives`: one robot, at rest in its home pose."""

    force_limit = FORCE_LIMIT

    def __init__(self, parameters: UpruPlantParameters) -> None:
        robot = parameters.robot
        lengths = robot.leg_lengths(robot.home)[0]
        self.parameters = parameters
        self.stroke: Array = np.vstack([robot.limits.position_lower - END_STOP, robot.limits.position_upper + END_STOP])
        self.saturated: NDArray[np.bool_] = np.zeros(6, dtype=np.bool_)
        self._robot = robot.arrays
        mass = float(parameters.screw_inertia.mean()) + _CARRIED
        nominal = np.full(6, float(parameters.drive_gains.mean())) if robot.drive_gains is None else robot.drive_gains
        self._drives = LegDrives(
            proportional=mass * _BANDWIDTH**2,
            derivative=2.0 * _DAMPING_RATIO * _BANDWIDTH * mass,
            integral=_INTEGRAL_RATE * mass * _BANDWIDTH**2,
            nominal_gain=np.array(nominal),
            gain=parameters.drive_gains.copy(),
            screw_inertia=parameters.screw_inertia.copy(),
            friction=parameters.friction.table(),
        )
        zeros = np.zeros(6)
        self._state = MachineState(
            q=robot.home.copy(),
            qd=zeros.copy(),
            bristle=zeros.copy(),
            integral=nominal * robot.motor_force(robot.home, zeros, zeros)[0] / parameters.drive_gains,
            reading=lengths.copy(),
            speed=zeros.copy(),
        )
        self._scratch = Scratch(
            make_workspace(),
            trials=np.vstack([zeros, np.eye(6)]),
            wrench=np.zeros((1, 6)),
            sensor=np.zeros((7, 6)),
            motor=np.zeros((7, 6)),
            leg_acceleration=np.zeros((7, 6)),
            length=zeros.copy(),
            leg_speed=zeros.copy(),
            system=np.zeros((6, 6)),
            known=zeros.copy(),
        )
        self._instruments = Instruments(
            parameters.sensor_tare.copy(),
            parameters.sensor_gain.copy(),
            parameters.force_noise,
            parameters.current_noise,
            self.saturated,
        )
        self._random = np.random.default_rng([parameters.seed, 0xB])
        self._noise: Array = np.empty((0, 2, 6))
        self._cycle = 0
        self.measured: Array = np.zeros((4, 6))
        """Length m, speed m/s, current A and force N of the last cycle, as the PLC reads them."""
        standing = np.vstack([lengths, np.zeros((2, 6))])
        for _ in range(_SETTLING_CYCLES):  # brakes off: the drives take up the weight
            self.run_cycle(standing, zeros, enabled=True)

    @property
    def pose(self) -> Array:
        """Where the platform really is, (6,)."""
        return self._state.q.copy()

    def run_cycle(self, target: Array, feed_current: Array, *, enabled: bool) -> bool:
        """Advance 1 ms; see `run_cycle` of this module. False where the dynamics broke down."""
        row = self._cycle % _NOISE_ROWS
        if row == 0:
            self._noise = self._random.standard_normal((_NOISE_ROWS, 2, 6))
        self._cycle += 1
        return bool(
            run_cycle(
                self._robot,
                self._drives,
                self._instruments,
                self._state,
                self._scratch,
                target,
                feed_current,
                self._noise[row],
                enabled,
                self.measured,
            )
        )
