"""The simulated parallel robot and its drives: forward dynamics under the PLC's targets, 1 ms at a time.

Each drive tracks its leg's target with position, speed and integral action on the motor current, to which the
PLC may add a feedforward. What the true drive gain makes of that current moves screw and push rod against the
cylinder's friction and the mechanism's force:

    g i = M_s l'' + F(l') + f_motor(q, q', q'')

f_motor is affine in q'', so seven evaluations of the inverse dynamics give the linear system for q''. Speeds are
integrated semi-implicitly, with the friction's stiffness implicit. The inverse dynamics are called by themselves:
compiled into the rest, they would be compiled again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.dynamics.upru_dynamics import inverse_dynamics
from core.dynamics.upru_kinematics import NO_FAULT, make_workspace
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

    bristle: Array  # m
    integral: Array  # N
    reading: Array  # m, last one of the encoder
    speed: Array  # m/s, filtered


class Trials(NamedTuple):
    """What the inverse dynamics are asked, and answer, each cycle: seven accelerations in the same state."""

    q: Array  # (7, 6)
    qd: Array  # (7, 6)
    qdd: Array  # (7, 6), none, and one of each coordinate
    wrench: Array  # (7, 6)
    sensor: Array  # (7, 6) N
    motor: Array  # (7, 6) N


class Scratch(NamedTuple):
    """Memory of the kernel."""

    rates: Array  # (6, 6), l' = rates q'
    system: Array  # (6, 6)
    known: Array  # (6,)


@njit(cache=True, error_model="numpy")
def _leg_rates(q: Array, legs: Array, rates: Array) -> None:
    """Write the derivatives of leg lengths by the coordinates, from e, n of the legs (see `upru_kinematics.LEG`)."""
    sa, ca = math.sin(q[3]), math.cos(q[3])
    sb, cb = math.sin(q[4]), math.cos(q[4])
    for i in range(6):
        ex, ey, ez = legs[i, 0], legs[i, 1], legs[i, 2]
        nx, ny, nz = legs[i, 3], legs[i, 4], legs[i, 5]
        tx, ty, tz = ey * nz - ez * ny, ez * nx - ex * nz, ex * ny - ey * nx
        rates[i, 0], rates[i, 1], rates[i, 2] = nx, ny, nz
        rates[i, 3] = tz  # axes of Rz, Ry, Rx one after the other
        rates[i, 4] = ca * ty - sa * tx
        rates[i, 5] = cb * (ca * tx + sa * ty) - sb * tz


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
def _solve(system: Array, known: Array) -> bool:
    """Solve system x = known by elimination with pivoting, in place; False where it is singular."""
    n = known.shape[0]
    for j in range(n):
        best = j
        for i in range(j + 1, n):
            if abs(system[i, j]) > abs(system[best, j]):
                best = i
        if system[best, j] == 0.0:
            return False
        for k in range(j, n):
            system[j, k], system[best, k] = system[best, k], system[j, k]
        known[j], known[best] = known[best], known[j]
        for i in range(j + 1, n):
            factor = system[i, j] / system[j, j]
            for k in range(j, n):
                system[i, k] -= factor * system[j, k]
            known[i] -= factor * known[j]
    for j in range(n - 1, -1, -1):
        for k in range(j + 1, n):
            known[j] -= system[j, k] * known[k]
        known[j] /= system[j, j]
    return True


@njit(cache=True, error_model="numpy")
def advance(
    drives: LegDrives,
    instruments: Instruments,
    state: MachineState,
    trials: Trials,
    legs: Array,
    scratch: Scratch,
    target: Array,
    feed: Array,
    noise: Array,
    enabled: bool,
    out: Array,
) -> bool:
    """Advance 1 ms towards ``target`` (3, 6) with the current ``feed`` (6,) A added; write to ``out`` (4, 6).

    ``trials`` are answered, ``legs`` (6, LEG) are those of the last of them. Rows of ``out``: length, speed, current
    and force as they are read at the beginning of the cycle, for which the target is. ``noise`` (2, 6) is standard
    normal. With the drives not ``enabled`` the brakes hold. Returns False where the dynamics broke down.
    """
    q, qd = trials.q[0], trials.qd[0]
    rates, sensor, motor = scratch.rates, trials.sensor, trials.motor
    _leg_rates(q, legs, rates)
    for i in range(6):
        reading = round(legs[i, 15] / ENCODER) * ENCODER
        force = _drive_force(drives, state, i, reading, target[0, i], target[1, i])
        current = feed[i] + force / drives.nominal_gain[i] if enabled else 0.0
        current = min(max(current, -_LARGEST_CURRENT), _LARGEST_CURRENT)
        state.bristle[i], friction, slope = bend(drives.friction[i], state.bristle[i], legs[i, 16], PERIOD)
        inertia = drives.screw_inertia[i] + PERIOD * slope
        unforced = legs[i, 17] - rates[i, 5]  # l'' without any q''
        scratch.known[i] = drives.gain[i] * current - friction - motor[0, i] - inertia * unforced
        for k in range(6):
            scratch.system[i, k] = motor[k + 1, i] - motor[0, i] + inertia * rates[i, k]
        out[0, i] = reading
        out[1, i] = (reading - state.reading[i]) / PERIOD
        out[2, i] = current + instruments.current_noise * noise[0, i]
        state.reading[i] = reading
    qdd = scratch.known
    healthy = _solve(scratch.system, qdd) if enabled else True
    if not enabled:
        qdd[:] = 0.0
    for i in range(6):
        force = sensor[0, i]
        for k in range(6):
            force += (sensor[k + 1, i] - sensor[0, i]) * qdd[k]
        shown = instruments.tare[i] + instruments.gain[i] * force + instruments.force_noise * noise[1, i]
        if instruments.saturated[i]:
            shown = FORCE_LIMIT
        out[3, i] = min(max(shown, -FORCE_LIMIT), FORCE_LIMIT)
    for i in range(6):
        rate = qd[i] + PERIOD * qdd[i] if enabled else 0.0
        position = q[i] + PERIOD * rate
        healthy &= math.isfinite(position)
        trials.q[:, i] = position
        trials.qd[:, i] = rate
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
            bristle=zeros.copy(),
            integral=nominal * robot.motor_force(robot.home, zeros, zeros)[0] / parameters.drive_gains,
            reading=lengths.copy(),
            speed=zeros.copy(),
        )
        self._work = make_workspace()
        self._trials = Trials(
            q=np.tile(robot.home, (7, 1)),
            qd=np.zeros((7, 6)),
            qdd=np.vstack([zeros, np.eye(6)]),
            wrench=np.zeros((7, 6)),
            sensor=np.zeros((7, 6)),
            motor=np.zeros((7, 6)),
        )
        self._scratch = Scratch(np.zeros((6, 6)), np.zeros((6, 6)), zeros.copy())
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
        return np.array(self._trials.q[0])

    def run_cycle(self, target: Array, feed_current: Array, *, enabled: bool) -> bool:
        """Advance 1 ms; see `advance`. False where the dynamics broke down."""
        row = self._cycle % _NOISE_ROWS
        if row == 0:
            self._noise = self._random.standard_normal((_NOISE_ROWS, 2, 6))
        self._cycle += 1
        trials = self._trials
        _, fault = inverse_dynamics(
            self._robot, trials.q, trials.qd, trials.qdd, trials.wrench, self._work, trials.sensor, trials.motor
        )
        healthy = fault == NO_FAULT and advance(
            self._drives,
            self._instruments,
            self._state,
            trials,
            self._work.legs,
            self._scratch,
            target,
            feed_current,
            self._noise[row],
            enabled,
            self.measured,
        )
        return bool(healthy)
