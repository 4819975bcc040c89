"""The serial chain: geometry, inertial parameters, limits and drives of one robot, and its dynamics."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.dynamics import kernels
from core.dynamics.chain_arrays import ChainArrays, make_workspace
from core.errors import ModelError
from core.models.arguments import shaped, state_arrays
from core.models.frames import inertial_from_com, moved_inertial
from core.models.frozen_arrays import freeze
from core.models.limits import JointLimits
from core.models.mechanism import MovedBody, Posture
from core.models.robot_value import RobotValue
from core.models.units import length_problem

Array = NDArray[np.float64]

STANDARD_GRAVITY = (0.0, 0.0, -9.81)
INERTIAL_NAMES = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
JOINT_TYPES = ("revolute", "prismatic")
_PER_JOINT = {
    "placement_rotation": (3, 3),
    "placement_translation": (3,),
    "axis": (3,),
    "inertial_parameters": (10,),
    "rotor_inertia": (),
    "drive_gains": (),
}


@dataclass(frozen=True, eq=False)
class SerialChain(RobotValue):
    """A serial chain of n revolute and prismatic joints on a fixed base.

    The root frame is the base's. Joint frame j moves with link j; at q = 0 it stands at
    ``placement_rotation[j]``, ``placement_translation[j]`` in joint frame j-1 (the root frame for the first),
    and it turns about, or slides along, ``axis[j]``, given in itself. Two chains are equal when everything
    that matters, that is ``digest()``, is.

    Attributes
    ----------
    name, joint_names : for people and messages.
    joint_types : "revolute" or "prismatic".
    placement_rotation (n, 3, 3), placement_translation (n, 3) in m.
    axis : (n, 3), normalised on construction.
    inertial_parameters : (n, 10) m mx my mz Ixx Ixy Iyy Ixz Iyz Izz of link j in joint frame j, inertia about
        its origin; kg, kg·m, kg·m².
    limits : JointLimits.
    rotor_inertia : (n,) kg·m² seen at the joint, or None where the model has no rotor columns.
    gravity : (3,) m/s² in the root frame.
    drive_gains : (n,) N·m/A (N/A), or None where unknown.
    tool : (4, 4) pose of the end of the last link in the last joint frame.

    Raises
    ------
    ModelError
        A shape is wrong, a value is not finite, a rotation is none, an axis is zero, a length is that of no robot.
    """

    KIND: ClassVar[str] = "serial-chain"

    name: str
    joint_names: tuple[str, ...]
    joint_types: tuple[str, ...]
    placement_rotation: Array
    placement_translation: Array
    axis: Array
    inertial_parameters: Array
    limits: JointLimits
    rotor_inertia: Array | None = None
    gravity: Array = field(default_factory=lambda: np.array(STANDARD_GRAVITY))
    drive_gains: Array | None = None
    tool: Array = field(default_factory=lambda: np.eye(4))

    def __post_init__(self) -> None:
        object.__setattr__(self, "joint_names", tuple(self.joint_names))
        object.__setattr__(self, "joint_types", tuple(self.joint_types))
        n = len(self.joint_names)
        if n == 0:
            raise ModelError(f"{self.name}: a serial chain needs at least one moving joint")
        self._check_joint_names()
        if len(self.joint_types) != n or any(kind not in JOINT_TYPES for kind in self.joint_types):
            raise ModelError(f"{self.name}: joint_types must be {n} of {JOINT_TYPES}, got {self.joint_types}")
        for name, shape in _PER_JOINT.items():
            if getattr(self, name) is not None:
                freeze(self, name, (n, *shape))
        freeze(self, "gravity", (3,))
        freeze(self, "tool", (4, 4))
        if self.limits.velocity.shape != (n,):
            raise ModelError(f"{self.name}: limits are for {self.limits.velocity.size} joints, not {n}")
        self._check_geometry()
        self._check_physics()

    def _check_geometry(self) -> None:
        length = np.linalg.norm(self.axis, axis=1)
        if np.any(length < 1e-9):
            joint = self.joint_names[int(np.argmin(length))]
            raise ModelError(f"{self.name}: the axis of joint {joint!r} has no length", joint=joint)
        if np.any(np.abs(length - 1.0) > 1e-12):  # dividing a unit vector again would change its last digits
            object.__setattr__(self, "axis", self.axis / length[:, None])
            freeze(self, "axis", (self.n_joints, 3))
        rotations = np.concatenate([self.placement_rotation, self.tool[None, :3, :3]])
        error = np.abs(rotations @ rotations.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
        error = np.maximum(error, np.abs(np.linalg.det(rotations) - 1.0))
        if error.max() > 1e-6:
            where = (*self.joint_names, "tool")[int(np.argmax(error))]
            raise ModelError(f"{self.name}: the placement of {where!r} is not a rotation", joint=where)
        for joint, offset in zip((*self.joint_names, "tool"), self._offsets(), strict=True):
            problem = length_problem(offset)
            if problem:
                raise ModelError(f"{self.name}: the placement of {joint!r}: {problem}", joint=joint)

    def _offsets(self) -> Array:
        return np.vstack([self.placement_translation, self.tool[None, :3, 3]])

    def _check_physics(self) -> None:
        for name, value in (("mass", self.inertial_parameters[:, 0]), ("rotor inertia", self.rotor_inertia)):
            if value is not None and np.any(value < 0):
                joint = self.joint_names[int(np.argmax(value < 0))]
                raise ModelError(f"{self.name}: the {name} at joint {joint!r} is negative", joint=joint)
        self._check_drive_gains()

    # --- parameters -----------------------------------------------------------------------------------

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return self.joint_names

    @property
    def n_parameters(self) -> int:
        """Number of standard parameters p: 10 n, or 11 n with rotor inertias."""
        return self.n_joints * (10 if self.rotor_inertia is None else 11)

    @property
    def parameters(self) -> Array:
        """Standard parameters (p,): ten per link, link by link, then the rotor inertias if there are any."""
        rotors = () if self.rotor_inertia is None else (self.rotor_inertia,)
        return np.concatenate([self.inertial_parameters.ravel(), *rotors])

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names (p,) such as ``m1``, ``mx1``, ``Izz6``, ``Ia1``; the number is the joint's, from 1."""
        joints = range(1, self.n_joints + 1)
        rotors = () if self.rotor_inertia is None else tuple(f"Ia{j}" for j in joints)
        return tuple(f"{name}{j}" for j in joints for name in INERTIAL_NAMES) + rotors

    @property
    def parameter_sizes(self) -> Array:
        """Sizes (p,) that the standard parameters of bodies of these masses and inertias can have.

        A product of inertia is at most half the trace of the inertia, a first moment the root of mass times that; a
        rotor counts as much as its link. All are zero where the model has no masses.
        """
        mass, moments = self.inertial_parameters[:, 0], self.inertial_parameters[:, [4, 6, 9]]
        spread = 0.5 * moments.sum(axis=1)
        first = np.sqrt(mass * spread)
        links = np.column_stack([mass, *[first] * 3, *[spread] * 6]).ravel()
        rotors = () if self.rotor_inertia is None else (np.maximum(self.rotor_inertia, spread),)
        return np.concatenate([links, *rotors])

    def with_parameters(self, parameters: ArrayLike) -> Self:
        """Return the same chain with other standard parameters (p,)."""
        values = shaped(parameters, "parameters", (self.n_parameters,))
        ten = 10 * self.n_joints
        rotors = None if self.rotor_inertia is None else values[ten:]
        return replace(self, inertial_parameters=values[:ten].reshape(-1, 10), rotor_inertia=rotors)

    def _with_body(self, mass: float, com: Array, inertia: Array) -> Self:
        inertial = self.inertial_parameters.copy()
        inertial[-1] += moved_inertial(self.tool, inertial_from_com(mass, com, inertia))
        return replace(self, inertial_parameters=inertial)

    @property
    def moved_body(self) -> MovedBody:
        """The parameters of the last link, in the last joint frame."""
        last = 10 * (self.n_joints - 1)
        return MovedBody(tuple(range(last, last + 10)), "last joint frame")

    def carrying(self, body: ArrayLike) -> Self:
        """Return the same chain with a body (10,), see ``moved_body``, as part of its last link."""
        inertial = self.inertial_parameters.copy()
        inertial[-1] += shaped(body, "body", (10,))
        return replace(self, inertial_parameters=inertial)

    def with_rotor_inertia(self, rotor_inertia: ArrayLike | None) -> Self:
        """Return the same chain with rotor inertias (n,), or without rotor columns for ``None``."""
        if rotor_inertia is None:
            return replace(self, rotor_inertia=None)
        return replace(self, rotor_inertia=shaped(rotor_inertia, "rotor_inertia", (self.n_joints,)))

    # --- dynamics -------------------------------------------------------------------------------------

    @cached_property
    def arrays(self) -> ChainArrays:
        """The chain as kernels take it; treat as read-only."""
        revolute = np.array([kind == "revolute" for kind in self.joint_types])
        x, y, z = self.axis.T
        zero = np.zeros_like(x)
        cross = np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]).transpose(2, 0, 1)
        along = self.axis[:, :, None] * self.axis[:, None, :]
        turning = revolute[:, None, None]
        placement = self.placement_rotation
        angular = np.where(revolute[:, None], self.axis, 0.0)
        linear = np.where(revolute[:, None], 0.0, self.axis)
        rotors = np.zeros(self.n_joints) if self.rotor_inertia is None else self.rotor_inertia
        return ChainArrays(
            rotation_constant=np.ascontiguousarray(placement @ np.where(turning, along, np.eye(3))),
            rotation_sin=np.ascontiguousarray(placement @ np.where(turning, cross, 0.0)),
            rotation_cos=np.ascontiguousarray(placement @ np.where(turning, np.eye(3) - along, 0.0)),
            offset=self.placement_translation.copy(),
            slide=np.ascontiguousarray(np.einsum("jab,jb->ja", placement, linear)),
            axis_angular=angular,
            axis_linear=linear,
            inertial_parameters=self.inertial_parameters.copy(),
            rotor_inertia=rotors.copy(),
            gravity=self.gravity.copy(),
            tool=self.tool.copy(),
        )

    def inverse_dynamics(
        self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, *, parameters: ArrayLike | None = None
    ) -> Array:
        """Return joint torques (N, n) in N·m (N) of the rigid body and rotors, without friction.

        Parameters
        ----------
        q, qd, qdd : (N, n) in rad, rad/s, rad/s² (m, ...); (n,) counts as N = 1.
        parameters : (p,) standard parameters other than the chain's own; no body need have them.

        Raises
        ------
        InputError
            A shape is wrong.
        """
        positions, rates, accelerations = self._states(q=q, qd=qd, qdd=qdd)
        out = np.empty_like(positions)
        workspace = make_workspace(self.n_joints)
        arrays = self.arrays
        if parameters is not None:
            values = shaped(parameters, "parameters", (self.n_parameters,))
            ten = 10 * self.n_joints
            rotors = arrays.rotor_inertia if self.rotor_inertia is None else values[ten:].copy()
            arrays = arrays._replace(inertial_parameters=values[:ten].reshape(-1, 10).copy(), rotor_inertia=rotors)
        kernels.rnea(arrays, positions, rates, accelerations, workspace, out)
        return out

    def regressor(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """Return W (N, n, p) with ``W @ parameters == inverse_dynamics``; arguments as there.

        The first 10 n columns belong to the links; rotor inertias add n more, with ``qdd`` on their diagonal.
        """
        positions, rates, accelerations = self._states(q=q, qd=qd, qdd=qdd)
        out = np.empty((len(positions), self.n_joints, self.n_parameters))
        rotors = self.rotor_inertia is not None
        kernels.regressor_blocks(self.arrays, positions, rates, accelerations, rotors, out)
        return out

    def from_joints(
        self, positions: ArrayLike, rates: ArrayLike, accelerations: ArrayLike
    ) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd (N, n) from the motion of the actuated joints: the same, as these are all joints."""
        q, qd, qdd = self._states(positions=positions, rates=rates, accelerations=accelerations)
        return q, qd, qdd

    def joint_motion(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> tuple[Array, Array, Array]:
        """Return the motion of the actuated joints for q, qd, qdd (N, n): the same."""
        positions, rates, accelerations = self._states(q=q, qd=qd, qdd=qdd)
        return positions, rates, accelerations

    def posture(self, q: ArrayLike) -> tuple[Posture, ...]:
        """Return what limits poses beyond the positions of single joints: nothing."""
        return ()

    def mass_matrix(self, q: ArrayLike) -> Array:
        """Return the joint-space inertia (N, n, n) in kg·m² for q (N, n), rotor inertias included."""
        (positions,) = self._states(q=q)
        out = np.empty((len(positions), self.n_joints, self.n_joints))
        kernels.mass_matrix(self.arrays, positions, make_workspace(self.n_joints), out)
        return out

    def forward_dynamics(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike) -> Array:
        """Return accelerations (N, n) in rad/s² for joint torques tau (N, n) in N·m, without friction.

        Raises
        ------
        InputError
            A shape is wrong.
        ModelError
            The mass matrix is not positive definite, as when links have no inertia.
        """
        positions, rates, torques = self._states(q=q, qd=qd, tau=tau)
        out = np.empty_like(positions)
        workspace = make_workspace(self.n_joints)
        singular = kernels.forward_dynamics(self.arrays, positions, rates, torques, workspace, out)
        if singular >= 0:
            raise ModelError(
                f"{self.name}: the mass matrix of sample {singular + 1} is not positive definite; "
                "the inertial parameters or rotor inertias are incomplete",
                code="mass-matrix-singular",
                sample=singular + 1,
            )
        return out

    def joint_frames(self, q: ArrayLike) -> Array:
        """Return poses (N, n + 1, 4, 4) in the root frame: joint frames 1..n, then the tool's."""
        (positions,) = self._states(q=q)
        out = np.empty((len(positions), self.n_joints + 1, 4, 4))
        kernels.joint_frames(self.arrays, positions, out)
        return out

    def _states(self, **signals: ArrayLike) -> list[Array]:
        return state_arrays(self.name, self.n_joints, **signals)
