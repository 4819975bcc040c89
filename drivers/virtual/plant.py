"""The simulated robot and its drives: forward dynamics at 2 kHz or so under the controller's targets.

Each control cycle the controller hands over a target; the drives track it with feedforward, position,
speed and integral action on the motor current, from encoder readings. Torque is what the true drive gains
make of that current. The speed is integrated semi-implicitly, with the bristles' stiffness implicit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.dynamics.chain_arrays import ChainArrays, Workspace, make_workspace
from core.dynamics.kernels import forward_dynamics_one, rnea_one
from core.models.chain import SerialChain
from drivers.virtual.lugre import bend
from drivers.virtual.plant_parameters import PlantParameters
from drivers.virtual.tool_motion import tool_motion

Array = NDArray[np.float64]

CONTROL_PERIOD = 0.002  # s
JOINT_ENCODER = 2.0 * math.pi / 2**19  # rad, what the controller reports
MOTOR_ENCODER = 2.0 * math.pi / (101 * 2**16)  # rad at the joint, what the drive works with
DEVIATION_LIMIT = np.array([0.1, 0.1, 0.1, 0.15, 0.15, 0.15])  # rad of tracking error that stop the robot
_BANDWIDTH = 60.0  # rad/s of the position loop
_DAMPING_RATIO = 0.9
_INTEGRAL_RATE = 10.0  # 1/s, integral action over proportional
_SPEED_FILTER = 2.0 * math.pi * 150.0  # rad/s, of the drive's speed signal
_SMOOTH_SIGN = 0.02  # rad/s over which the controller's friction compensation changes sign
_DEADBAND_STEPS = 2.0  # of the joint encoder, without integral action: no hunting around a standstill
_OWN: Array = np.empty(0)
"""In the place of a feedforward: the controller's own."""
_TYPICAL_POSES = np.array(
    [
        [0.0, -1.57, 1.57, -1.57, -1.57, 0.0],
        [0.0, -1.0, 0.6, -1.2, -1.57, 0.0],
        [0.0, -0.4, 0.2, 0.0, 1.0, 0.0],
    ]
)


@dataclass(frozen=True)
class DriveDesign:
    """How a maker's drives work: a UR10e's by default.

    ``period`` s of control, ``substeps`` of the drives in it, steps of both encoders in rad, ``deviation_limit``
    (n,) rad from the target, ``tuning_poses`` (m, n) rad at which the loops were tuned.
    """

    period: float = CONTROL_PERIOD
    substeps: int = 4
    joint_encoder: float = JOINT_ENCODER
    motor_encoder: float = MOTOR_ENCODER
    deviation_limit: Array = field(default_factory=DEVIATION_LIMIT.copy)
    tuning_poses: Array = field(default_factory=_TYPICAL_POSES.copy)


class Drives(NamedTuple):
    """The controller's side of the joints; each (n,) unless said otherwise."""

    proportional: Array  # N·m/rad
    derivative: Array  # N·m·s/rad
    integral: Array  # N·m/(rad·s)
    gains: Array  # N·m/A as the controller believes them
    current_limit: Array  # A
    coulomb: Array  # N·m, friction that the controller compensates
    viscous: Array  # N·m·s/rad
    deviation_limit: Array  # rad
    period: float  # s
    substeps: int
    joint_encoder: float  # rad
    motor_encoder: float  # rad


class Joints(NamedTuple):
    """The true joints."""

    friction: Array  # (n, 7)
    gains: Array  # (n,) N·m/A
    rotor_inertia: Array  # (n,) kg·m²
    periodic: Array  # (n, k, 3): cycles per turn, N·m, rad


class State(NamedTuple):
    """What changes; each (n,) unless said otherwise."""

    q: Array
    qd: Array
    bristle: Array
    integral: Array  # N·m
    motor_angle: Array  # rad, last reading of the motor encoder
    motor_speed: Array  # rad/s, filtered
    cycle_angle: Array  # rad, motor encoder at the last control cycle
    target: Array  # (3, n): q, qd, qdd of the last control cycle
    current_target: Array  # A, with friction compensation, of the last control cycle


_TOOL_ROW = 6  # numbers of a tool's pose, and of its speed


class Scratch(NamedTuple):
    """Memory of the kernel."""

    workspace: Workspace
    torque: Array
    qdd: Array
    moment: Array
    current_target: Array
    current_sum: Array
    frames: Array  # (1, n + 1, 4, 4)


@njit(cache=True, error_model="numpy")
def _drive_current(
    drives: Drives, state: State, j: int, target_q: float, target_qd: float, feed: float, dt: float
) -> float:
    """Return the current (A) that the drive of joint j sets, from encoder readings only."""
    angle = round(state.q[j] / drives.motor_encoder) * drives.motor_encoder
    raw_speed = (angle - state.motor_angle[j]) / dt
    state.motor_angle[j] = angle
    state.motor_speed[j] += (raw_speed - state.motor_speed[j]) * (1.0 - math.exp(-_SPEED_FILTER * dt))
    error = target_q - angle
    torque = (
        drives.proportional[j] * error + drives.derivative[j] * (target_qd - state.motor_speed[j]) + state.integral[j]
    )
    current: float = feed + torque / drives.gains[j]
    limit = drives.current_limit[j]
    if abs(current) > limit:
        return math.copysign(limit, current)  # no integral action while saturated
    if abs(error) > _DEADBAND_STEPS * drives.joint_encoder:
        state.integral[j] += drives.integral[j] * error * dt
    return current


@njit(cache=True, error_model="numpy")
def _periodic_torque(rows: Array, q: float) -> float:
    """Return the torque in N·m that depends on one joint's position only."""
    torque = 0.0
    for k in range(rows.shape[0]):
        torque += rows[k, 1] * math.sin(rows[k, 0] * q + rows[k, 2])
    return torque


@njit(cache=True, error_model="numpy")
def run_cycle(
    nominal: ChainArrays,
    true: ChainArrays,
    drives: Drives,
    joints: Joints,
    state: State,
    scratch: Scratch,
    target: Array,
    feedforward: Array,
    noise: Array,
    out: Array,
) -> bool:
    """Advance one control cycle towards ``target`` (3, n) and write the rows ``CYCLE_ROWS`` to ``out``.

    The tool's rows are those of arms with six joints; they stay zero for others.
    ``feedforward`` (n,) N·m takes the place of the controller's own, or is empty.
    ``noise`` (n,) is added to the measured current. ``true.rotor_inertia`` is scratch here. Returns False
    where the dynamics broke down (mass matrix not positive definite, or not finite).
    """
    n = state.q.shape[0]
    dt = drives.period / drives.substeps
    healthy = True
    rnea_one(nominal, target[0], target[1], target[2], scratch.workspace, scratch.moment)
    for j in range(n):
        friction = drives.coulomb[j] * math.tanh(target[1, j] / _SMOOTH_SIGN) + drives.viscous[j] * target[1, j]
        expected = feedforward[j] if feedforward.size else scratch.moment[j] + friction
        scratch.current_target[j] = expected / drives.gains[j]
        scratch.current_sum[j] = 0.0
    for step in range(drives.substeps):
        share = step / drives.substeps  # of the way to the new target, at the time of the reading
        for j in range(n):
            target_q = state.target[0, j] + share * (target[0, j] - state.target[0, j])
            target_qd = state.target[1, j] + share * (target[1, j] - state.target[1, j])
            feed = state.current_target[j] + share * (scratch.current_target[j] - state.current_target[j])
            current = _drive_current(drives, state, j, target_q, target_qd, feed, dt)
            scratch.current_sum[j] += current
            state.bristle[j], friction, slope = bend(joints.friction[j], state.bristle[j], state.qd[j], dt)
            resistance = friction + _periodic_torque(joints.periodic[j], state.q[j])
            scratch.torque[j] = joints.gains[j] * current - resistance
            true.rotor_inertia[j] = joints.rotor_inertia[j] + dt * slope
        healthy &= forward_dynamics_one(true, state.q, state.qd, scratch.torque, scratch.workspace, scratch.qdd)
        for j in range(n):
            state.qd[j] += dt * scratch.qdd[j]
            state.q[j] += dt * state.qd[j]
            healthy &= math.isfinite(state.q[j])
    for j in range(n):
        current = scratch.current_sum[j] / drives.substeps
        measured = current + noise[j]
        for k in range(3):
            out[k, j] = target[k, j]
            state.target[k, j] = target[k, j]
        out[3, j] = scratch.current_target[j]
        out[4, j] = scratch.moment[j]
        out[5, j] = round(state.q[j] / drives.joint_encoder) * drives.joint_encoder
        out[6, j] = (state.motor_angle[j] - state.cycle_angle[j]) / drives.period
        out[7, j] = measured
        out[8, j] = current
        out[9, j] = measured * drives.gains[j]
        out[10, j] = abs(target[0, j] - out[5, j]) / drives.deviation_limit[j]
        state.cycle_angle[j] = state.motor_angle[j]
        state.current_target[j] = scratch.current_target[j]
    if n == _TOOL_ROW:  # a row holds no pose and no speed of a tool otherwise, and writing them would leave it
        tool_motion(nominal, scratch.frames, out[5], out[6], out[11], out[12])
        tool_motion(nominal, scratch.frames, target[0], target[1], out[13], out[14])
    return healthy


class Plant:
    """One robot with its drives, advanced by control cycles.

    Parameters
    ----------
    model
        What the controller believes: the catalogue's model.
    parameters
        What is true: see ``perturbed_plant``.
    q
        Pose (n,) rad to start at rest in.
    design
        How its drives work.
    """

    def __init__(
        self, model: SerialChain, parameters: PlantParameters, q: Array, design: DriveDesign | None = None
    ) -> None:
        n = model.n_joints
        design = design or DriveDesign()
        drives = parameters.nominal
        controller_model = model.with_rotor_inertia(drives.rotor_inertia)
        self.parameters = parameters
        self._nominal = controller_model.arrays
        true = parameters.chain.arrays
        self._true = true._replace(rotor_inertia=true.rotor_inertia.copy())
        inertia = controller_model.mass_matrix(design.tuning_poses).diagonal(axis1=1, axis2=2).mean(axis=0)
        proportional = inertia * _BANDWIDTH**2
        torque_limit = np.where(np.isfinite(model.limits.torque), model.limits.torque, 1e3)
        self.drives = Drives(
            proportional=proportional,
            derivative=2.0 * _DAMPING_RATIO * _BANDWIDTH * inertia,
            integral=_INTEGRAL_RATE * proportional,
            gains=parameters.calibrated_gains.copy(),
            current_limit=torque_limit / parameters.calibrated_gains,
            coulomb=drives.coulomb.copy(),
            viscous=drives.viscous.copy(),
            deviation_limit=design.deviation_limit.copy(),
            period=design.period,
            substeps=design.substeps,
            joint_encoder=design.joint_encoder,
            motor_encoder=design.motor_encoder,
        )
        self._joints = Joints(
            parameters.friction.table(),
            parameters.drive_gains.copy(),
            true.rotor_inertia.copy(),
            np.ascontiguousarray(parameters.periodic),
        )
        self._noise = np.random.default_rng([parameters.seed, 0xA])
        zeros = np.zeros(n)
        angle = np.round(q / design.motor_encoder) * design.motor_encoder
        self.state = State(
            q=np.array(q, dtype=np.float64),
            qd=zeros.copy(),
            bristle=zeros.copy(),
            integral=zeros.copy(),
            motor_angle=angle.copy(),
            motor_speed=zeros.copy(),
            cycle_angle=angle.copy(),
            target=np.vstack([q, zeros, zeros]),
            current_target=zeros.copy(),
        )
        self._scratch = Scratch(
            make_workspace(n),
            torque=np.zeros(n),
            qdd=np.zeros(n),
            moment=np.zeros(n),
            current_target=np.zeros(n),
            current_sum=np.zeros(n),
            frames=np.zeros((1, n + 1, 4, 4)),
        )
        self.out: Array = np.zeros((15, n))
        """The rows ``CYCLE_ROWS`` of the last cycle."""

    def run_cycle(self, target: Array, feedforward: Array = _OWN) -> bool:
        """Advance one control period towards ``target`` (3, n): q rad, qd rad/s, qdd rad/s². The result: ``out``.

        feedforward : (n,) N·m added to what the loops ask for; by default what the controller's own model predicts.
        """
        noise = self._noise.standard_normal(self.out.shape[1]) * self.parameters.nominal.current_noise
        return run_cycle(
            self._nominal,
            self._true,
            self.drives,
            self._joints,
            self.state,
            self._scratch,
            target,
            feedforward,
            noise,
            self.out,
        )
