"""The 6-UPRU parallel robot: a platform on six legs, each with a universal joint at both ends, a sliding and a
revolute joint between, and a force sensor; its kinematics and dynamics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.dynamics import upru_adjoint, upru_dynamics, upru_kinematics, upru_posture
from core.dynamics.upru_kinematics import ParallelArrays, make_workspace
from core.errors import InputError, KinematicsError, ModelError
from core.models import upru_geometry as geometry
from core.models.arguments import shaped, state_arrays
from core.models.chain import STANDARD_GRAVITY
from core.models.frames import com_from_inertial
from core.models.frozen_arrays import freeze
from core.models.limits import JointLimits
from core.models.mechanism import MovedBody, Posture
from core.models.robot_value import RobotValue
from core.models.upru_parameters import BASE_COLUMNS, BODY_COLUMNS, PARAMETER_NAMES, base_projection, loaded_parameters

Array = NDArray[np.float64]

COORDINATE_NAMES = ("x", "y", "z", "alpha", "beta", "gamma")
COORDINATE_UNITS = ("m", "m", "m", "rad", "rad", "rad")
_UNIT = 1e-6  # deviation of an axis from length 1 that is rounding
_DEGENERATE = 1e6  # condition number of the home pose's Jacobian


@dataclass(frozen=True, eq=False)
class SixUPRU(RobotValue):
    """A 6-UPRU parallel robot.

    {B} is the base frame, {p} the platform's. The generalised coordinates q = x y z alpha beta gamma are the
    platform's pose: its origin in {B} (m) and Euler angles (rad), R = Rz(alpha) Ry(beta) Rx(gamma) from {p} to
    {B}; qd and qdd are their time derivatives. The actuated joints are the legs. Forces are the axial forces
    that the sensors carry, N, compression positive: a leg that carries the platform shows a positive one.

    Attributes
    ----------
    name, joint_names : for people and messages; one name per leg.
    base_joints, platform_joints : (6, 3) m, centres of the universal joints, in {B} and in {p}.
    base_axes, platform_axes : (6, 3) unit vectors: the axis of the lower universal joint that is fixed to the
        base, in {B}, and of the upper one that is fixed to the platform, in {p}; signs are of no account.
    parameters : (29,) standard parameters, see ``core.models.upru_parameters``.
    home : (6,) the pose from which others are searched and joint angles are counted.
    limits : JointLimits of the legs: length m, speed m/s, acceleration, jerk, and force N as ``torque``.
    joint_angle_limit : rad, largest angle of a universal joint to either side of its home position.
    condition_limit : largest condition number of the scaled Jacobian.
    gravity : (3,) m/s² in {B}.
    drive_gains : (6,) N/A, or None where unknown.

    Raises
    ------
    ModelError
        A shape is wrong, a value not finite, an axis not of length 1, or the home pose singular.
    """

    KIND: ClassVar[str] = "six-upru"

    name: str
    joint_names: tuple[str, ...]
    base_joints: Array
    platform_joints: Array
    base_axes: Array
    platform_axes: Array
    parameters: Array
    home: Array
    limits: JointLimits
    joint_angle_limit: float = float("inf")
    condition_limit: float = float("inf")
    gravity: Array = field(default_factory=lambda: np.array(STANDARD_GRAVITY))
    drive_gains: Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "joint_names", tuple(self.joint_names))
        if len(self.joint_names) != 6:
            raise ModelError(f"{self.name}: a 6-UPRU robot has 6 legs, not {len(self.joint_names)}")
        self._check_joint_names()
        for name in ("base_joints", "platform_joints", "base_axes", "platform_axes"):
            freeze(self, name, (6, 3))
        for name, size in (("parameters", 29), ("home", 6), ("gravity", 3)):
            freeze(self, name, (size,))
        if self.drive_gains is not None:
            freeze(self, "drive_gains", (6,))
        if self.limits.velocity.shape != (6,):
            raise ModelError(f"{self.name}: limits are for {self.limits.velocity.size} legs, not 6")
        for name, least in (("joint_angle_limit", 0.0), ("condition_limit", 1.0)):
            if not getattr(self, name) > least:
                raise ModelError(f"{self.name}: {name} is {getattr(self, name):g}, it must be above {least:g}")
        self._check_drive_gains()
        self._check_axes()
        self._check_home()

    def _check_axes(self) -> None:
        for name in ("base_axes", "platform_axes"):
            axes = getattr(self, name)
            length = np.linalg.norm(axes, axis=1)
            off = np.abs(length - 1.0)
            if off.max() > _UNIT:
                leg = int(np.argmax(off))
                raise ModelError(
                    f"{self.name}: the axis of leg {self.joint_names[leg]!r} in {name} has length {length[leg]:.9g}, "
                    "not 1; give unit vectors",
                    joint=self.joint_names[leg],
                )
            if off.max() > 1e-12:  # dividing a unit vector again would change its last digits
                object.__setattr__(self, name, axes / length[:, None])
                freeze(self, name, (6, 3))

    def _check_home(self) -> None:
        if self.size == 0.0:
            detail = f"{self.name}: all platform_joints lie in the platform's origin: the geometry is wrong"
            raise ModelError(detail, code="geometry-singular")
        try:
            condition = float(self.jacobian_condition(self.home)[0])
        except KinematicsError as error:
            detail = f"{error.detail}: the geometry or the home pose is wrong"
            raise ModelError(detail, code="geometry-singular") from error
        if not condition < _DEGENERATE:
            raise ModelError(
                f"{self.name}: legs cannot hold the platform in its home pose, the Jacobian's condition number is "
                f"{condition:.3g}; the joint centres or the home pose are wrong",
                code="geometry-singular",
            )

    # --- parameters -----------------------------------------------------------------------------------

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return COORDINATE_NAMES

    @property
    def joint_types(self) -> tuple[str, ...]:
        return ("prismatic",) * 6

    @property
    def n_parameters(self) -> int:
        return 29

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return PARAMETER_NAMES

    @property
    def parameter_sizes(self) -> Array:
        """Sizes (29,) of the standard parameters."""
        return np.abs(self.parameters)

    @property
    def base_parameter_names(self) -> tuple[str, ...]:
        """Names (17,) of the parameters that base parameters are built around."""
        return tuple(PARAMETER_NAMES[column] for column in BASE_COLUMNS)

    @cached_property
    def base_projection(self) -> Array:
        """K (17, 29): base parameters are ``K @ parameters``."""
        return base_projection(self.platform_joints)

    @property
    def base_parameters(self) -> Array:
        """Base parameters (17,): what forces can tell of ``parameters``."""
        return np.asarray(self.base_projection @ self.parameters)

    def with_parameters(self, parameters: ArrayLike) -> Self:
        """Return the same robot with other standard parameters (29,)."""
        return replace(self, parameters=shaped(parameters, "parameters", (29,)))

    def _with_body(self, mass: float, com: Array, inertia: Array) -> Self:
        return replace(self, parameters=loaded_parameters(self.parameters, mass, com, inertia))

    @property
    def moved_body(self) -> MovedBody:
        """The mass, first moments and inertia of the platform, in {p}."""
        return MovedBody(BODY_COLUMNS, "platform frame")

    def carrying(self, body: ArrayLike) -> Self:
        """Return the same robot with a body (10,), see ``moved_body``, as part of its platform."""
        mass, com, inertia = com_from_inertial(shaped(body, "body", (10,)))
        return self._with_body(mass, com, inertia)

    # --- kinematics -----------------------------------------------------------------------------------

    @cached_property
    def size(self) -> float:
        """Root mean square distance (m) of the platform's joint centres from its origin."""
        return float(np.sqrt(np.mean(np.sum(self.platform_joints**2, axis=1))))

    @cached_property
    def arrays(self) -> ParallelArrays:
        """The robot as kernels take it; treat as read-only."""
        return ParallelArrays(
            base_joints=self.base_joints.copy(),
            platform_joints=self.platform_joints.copy(),
            base_axes=self.base_axes.copy(),
            platform_axes=self.platform_axes.copy(),
            parameters=self.parameters.copy(),
            gravity=self.gravity.copy(),
            size=self.size,
        )

    def leg_lengths(self, q: ArrayLike) -> Array:
        """Return the lengths (N, 6) in m of the legs, joint centre to joint centre, for poses q (N, 6)."""
        return self._legs(q)[..., 15].copy()

    def leg_rates(self, q: ArrayLike, qd: ArrayLike) -> Array:
        """Return the speeds (N, 6) in m/s of the legs for q, qd (N, 6)."""
        return self._legs(q, qd)[..., 16].copy()

    def leg_accelerations(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """Return the accelerations (N, 6) in m/s² of the legs for q, qd, qdd (N, 6)."""
        return self._legs(q, qd, qdd)[..., 17].copy()

    def joint_motion(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> tuple[Array, Array, Array]:
        """Return the motion of the actuated joints: lengths, speeds, accelerations, each (N, 6), of the legs."""
        legs = self._legs(q, qd, qdd)
        return legs[..., 15].copy(), legs[..., 16].copy(), legs[..., 17].copy()

    def from_joints(
        self, positions: ArrayLike, rates: ArrayLike, accelerations: ArrayLike, start: ArrayLike | None = None
    ) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd (N, 6) of the platform from lengths, rates, accelerations (N, 6) of its legs.

        Exact: with J the Jacobian and V the platform's twist, J V = l' and J V' = l'' - J' V. Poses are searched
        from ``start`` (6,), by default ``home``, then each from the one before: samples follow each other in time.

        Raises
        ------
        KinematicsError
            As ``forward_kinematics`` does.
        """
        legs, ld, ldd = state_arrays(self.name, 6, lengths=positions, rates=rates, accelerations=accelerations)
        q = self.forward_kinematics(legs, start, successive=True)
        qd, qdd = np.empty_like(q), np.empty_like(q)
        self._check(upru_kinematics.platform_rates(self.arrays, q, ld, ldd, make_workspace(), qd, qdd), q)
        return q, qd, qdd

    def forward_kinematics(
        self, lengths: ArrayLike, start: ArrayLike | None = None, *, successive: bool = False
    ) -> Array:
        """Return the poses (N, 6) at which the legs have the given lengths (N, 6), m.

        Newton's method, to rounding. Six lengths allow up to forty poses; the one near ``start`` is found.

        Parameters
        ----------
        start : (6,) or (N, 6) first guesses; ``home`` by default.
        successive : the samples follow each other in time: each but the first starts from the one before.

        Raises
        ------
        KinematicsError
            No pose was found, or the search met a singular one; the context names the sample, from 1.
        """
        (legs,) = state_arrays(self.name, 6, lengths=lengths)
        starts = self._per_sample("start", self.home if start is None else start, legs)
        self._check(geometry.not_finite(legs), legs)  # Newton's method would call its first step the last one
        q = np.empty_like(legs)
        self._check(upru_kinematics.poses(self.arrays, legs, starts, successive, make_workspace(), q), legs)
        return q

    def jacobian(self, q: ArrayLike) -> Array:
        """Return J (N, 6, 6) for poses q (N, 6): leg rates = J [v, omega], the platform's twist in {B}."""
        return geometry.jacobian(self._legs(q))

    def jacobian_condition(self, q: ArrayLike) -> Array:
        """Return the condition number (N,) of the Jacobian with its angular columns divided by ``size``.

        The division makes all entries pure numbers, so that the result does not depend on the unit of length.
        """
        return self.conditioning(q).number

    def conditioning(self, q: ArrayLike) -> geometry.Conditioning:
        """Return the singular values of the Jacobian with its angular columns divided by ``size``, for poses (N, 6)."""
        scaled = self.jacobian(q)
        scaled[..., 3:] /= self.size
        return geometry.Conditioning.of(scaled)

    def leg_slopes(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """Return the derivatives (N, 18, 6) in q of what ``joint_motion`` returns, lengths first."""
        position, rate, acceleration = state_arrays(self.name, 6, q=q, qd=qd, qdd=qdd)
        out = np.empty((len(position), 18, 6))
        fault = upru_adjoint.leg_slopes(self.arrays, position, rate, acceleration, make_workspace(), out)
        self._check(fault, position)
        return out

    def joint_angles(self, q: ArrayLike) -> Array:
        """Return the angles (N, 6, 2, 2) in rad of the universal joints, zero at ``home``, for poses q (N, 6).

        Second index: leg. Third: lower, upper joint. Last: about the axis fixed to base or platform, and about
        the one fixed to the leg. Lower joints turn the leg against the base, upper joints the platform against
        the leg: the angles of which equations (12) and (17) of the source contain the rates.
        """
        (poses,) = state_arrays(self.name, 6, q=q)
        out = np.empty((len(poses), 6, 2, 2))
        self._check(upru_posture.joint_angles(self.arrays, poses, self.home, make_workspace(), out), poses)
        return out

    def posture_slopes(self, q: ArrayLike) -> tuple[Array, Array]:
        """Return the derivatives in q of ``joint_angles`` (N, 6, 2, 2, 6), and of the scaled Jacobian (N, 6, 6, 6).

        The second index of the latter is the coordinate; ``conditioning(q).slopes`` makes derivatives of the condition
        number of it.
        """
        (poses,) = state_arrays(self.name, 6, q=q)
        angles, changes = np.empty((len(poses), 6, 2, 2, 6)), np.empty((len(poses), 6, 6, 6))
        self._check(upru_posture.posture_slopes(self.arrays, poses, make_workspace(), angles, changes), poses)
        return angles, changes

    def posture(self, q: ArrayLike) -> tuple[Posture, ...]:
        """Return what else a pose is limited by: the largest angle at each leg's joints, and the conditioning."""
        angles = np.abs(self.joint_angles(q)).max(axis=(2, 3))
        condition = np.repeat(self.jacobian_condition(q)[:, None], 6, axis=1)
        return (
            Posture("joint angle", angles, np.full(6, self.joint_angle_limit), "rad"),
            Posture("conditioning", condition, np.full(6, self.condition_limit), ""),
        )

    def leg_angular_velocity(self, q: ArrayLike, qd: ArrayLike) -> tuple[Array, Array]:
        """Return the angular velocities (N, 6, 3) in {B}, rad/s, of L2 to L4, and of L1, for q, qd (N, 6)."""
        legs = self._legs(q, qd)
        n = legs[..., 3:6]
        across = geometry.cross(n, legs[..., 6:9])
        return across + legs[..., 18:19] * n, across + legs[..., 20:21] * n

    def _legs(self, q: ArrayLike, qd: ArrayLike | None = None, qdd: ArrayLike | None = None) -> Array:
        """Return the numbers (N, 6, LEG) that kernels keep per leg; rates and accelerations zero by default."""
        given = {"q": q, "qd": qd, "qdd": qdd}
        signals = state_arrays(self.name, 6, **{name: value for name, value in given.items() if value is not None})
        position, rate, acceleration = signals + [np.zeros_like(signals[0])] * (3 - len(signals))
        out = np.empty((len(position), 6, upru_kinematics.LEG))
        fault = upru_kinematics.leg_states(self.arrays, position, rate, acceleration, make_workspace(), out)
        self._check(fault, position)
        return out

    # --- dynamics -------------------------------------------------------------------------------------

    def inverse_dynamics(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        wrench: ArrayLike | None = None,
        *,
        parameters: ArrayLike | None = None,
    ) -> Array:
        """Return the sensor forces (N, 6) in N, without friction.

        Parameters
        ----------
        q, qd, qdd : (N, 6); (6,) counts as N = 1.
        wrench : (N, 6) or (6,) on the platform from outside: force N, and moment N·m about its origin, in {B}.
        parameters : (29,) standard parameters other than the robot's own; no body need have them.

        Raises
        ------
        InputError
            A shape is wrong.
        KinematicsError
            A pose is singular; the context names the sample, from 1.
        """
        arrays = self.arrays
        if parameters is not None:
            arrays = arrays._replace(parameters=shaped(parameters, "parameters", (29,)).copy())
        return self._forces(arrays, q, qd, qdd, wrench)[0]

    def motor_force(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, wrench: ArrayLike | None = None) -> Array:
        """Return the forces (N, 6) that the drives exert on the push rods: those at the sensors and the rods' own.

        Arguments as in ``inverse_dynamics``.
        """
        return self._forces(self.arrays, q, qd, qdd, wrench)[1]

    def regressor(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """Return K (N, 6, 29) with ``K @ parameters == inverse_dynamics`` without an external wrench."""
        return self._columns(upru_dynamics.SOURCE, q, qd, qdd)

    def base_regressor(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """Return K_b (N, 6, 17) with ``K_b @ base_parameters == inverse_dynamics``."""
        return self._columns(upru_dynamics.SOURCE[np.array(BASE_COLUMNS)], q, qd, qdd)

    def regressor_adjoint(
        self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, weights: ArrayLike
    ) -> tuple[Array, Array, Array]:
        """Return dJ/dq, dJ/dqd, dJ/dqdd, each (N, 6), for ``weights = dJ/dK_b`` (N, 6, 17) on the base regressor."""
        position, rate, acceleration = state_arrays(self.name, 6, q=q, qd=qd, qdd=qdd)
        source = upru_dynamics.SOURCE[np.array(BASE_COLUMNS)]
        given = shaped(weights, "weights", (len(position), 6, source.size))
        out = np.empty_like(position), np.empty_like(position), np.empty_like(position)
        motion = position, rate, acceleration
        fault = upru_adjoint.regressor_adjoint(self.arrays, motion, source, given, make_workspace(), out)
        self._check(fault, position)
        return out

    def external_wrench(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, force: ArrayLike) -> Array:
        """Return the wrench (N, 6) on the platform, as in ``inverse_dynamics``, that explains sensor forces (N, 6)."""
        model = self.inverse_dynamics(q, qd, qdd)
        _, measured = state_arrays(self.name, 6, q=q, force=force)
        return np.asarray(np.einsum("kij,ki->kj", self.jacobian(q), model - measured))

    def forward_dynamics(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        force: ArrayLike,
        wrench: ArrayLike | None = None,
        *,
        at: Literal["sensor", "motor"] = "sensor",
    ) -> Array:
        """Return accelerations qdd (N, 6) for forces (N, 6) at the sensors, or that the drives exert on the rods.

        Forces are affine in qdd, so seven evaluations tell the mass matrix and the rest.
        """
        position, rate, given = state_arrays(self.name, 6, q=q, qd=qd, force=force)
        trials = np.repeat(np.vstack([np.zeros(6), np.eye(6)]), len(position), axis=0)
        outside = wrench if wrench is None or np.ndim(wrench) == 1 else np.tile(wrench, (7, 1))
        sensor, motor = self._forces(self.arrays, np.tile(position, (7, 1)), np.tile(rate, (7, 1)), trials, outside)
        forces = (sensor if at == "sensor" else motor).reshape(7, *position.shape)
        mass = np.moveaxis(forces[1:] - forces[0], 0, 2)
        return np.asarray(np.linalg.solve(mass, (given - forces[0])[..., None])[..., 0])

    def _forces(
        self, arrays: ParallelArrays, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, wrench: ArrayLike | None
    ) -> tuple[Array, Array]:
        position, rate, acceleration = state_arrays(self.name, 6, q=q, qd=qd, qdd=qdd)
        outside = self._per_sample("wrench", np.zeros(6) if wrench is None else wrench, position)
        sensor, motor = np.empty_like(position), np.empty_like(position)
        fault = upru_dynamics.inverse_dynamics(
            arrays, position, rate, acceleration, outside, make_workspace(), sensor, motor
        )
        self._check(fault, position)
        return sensor, motor

    def _per_sample(self, name: str, value: ArrayLike, samples: Array) -> Array:
        """Return finite numbers that are given for each of samples (N, 6), or (6,) for all, as (N, 6)."""
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.name}: {name} is no array of numbers: {error}") from error
        if array.shape not in ((6,), samples.shape):
            raise InputError(f"{self.name}: {name} has shape {array.shape}, expected (6,) or {samples.shape}")
        if not np.all(np.isfinite(array)):
            raise InputError(f"{self.name}: {name} has entries that are not finite")
        return np.array(np.broadcast_to(array, samples.shape), order="C")

    def _columns(self, source: NDArray[np.int64], q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        position, rate, acceleration = state_arrays(self.name, 6, q=q, qd=qd, qdd=qdd)
        out = np.empty((len(position), 6, source.size))
        fault = upru_dynamics.regressor(self.arrays, position, rate, acceleration, source, make_workspace(), out)
        self._check(fault, position)
        return out

    def _check(self, fault: tuple[int, int], states: Array) -> None:
        geometry.check_fault(self.name, self.joint_names, fault, states)

    # --- storage --------------------------------------------------------------------------------------

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        without_limit = [n for n in ("joint_angle_limit", "condition_limit") if document.get(n, 0.0) is None]
        return super().from_document({**document, **dict.fromkeys(without_limit, np.inf)})
