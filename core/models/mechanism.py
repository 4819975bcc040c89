"""What identification, excitation, validation and feedforward need of a robot, serial or parallel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.models.limits import JointLimits

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Posture:
    """A figure of poses that has a limit.

    Attributes
    ----------
    kind : such as "joint angle".
    values : (N, n) per actuated joint.
    limit : (n,) the largest that is allowed; infinite where there is none.
    unit : of both, empty for pure numbers.
    """

    kind: str
    values: Array
    limit: Array
    unit: str


@dataclass(frozen=True)
class MovedBody:
    """How a body fixed to what a robot moves shows among the standard parameters.

    Attributes
    ----------
    columns : (10,) indices of the parameters that its m mx my mz Ixx Ixy Iyy Ixz Iyz Izz add to; first moments and
        inertia about the origin of ``frame``, kg, kg·m, kg·m².
    frame : what people call that frame.
    """

    columns: tuple[int, ...]
    frame: str


class Mechanism(Protocol):
    """A robot of n actuated joints, as an immutable value.

    Motion is given in n generalised coordinates q. Those of a serial chain are its joints; those of a parallel
    robot are the pose of its platform, while what is measured and driven are its actuated joints. ``from_joints``
    and ``joint_motion`` lead from one to the other, so that nobody has to ask which kind a robot is. Efforts,
    limits and drive gains are those of the actuated joints.
    """

    @property
    def name(self) -> str: ...

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names (n,) of the actuated joints."""
        ...

    @property
    def joint_types(self) -> tuple[str, ...]:
        """Type (n,) of the actuated joints: "revolute" (rad, N·m) or "prismatic" (m, N)."""
        ...

    @property
    def n_joints(self) -> int:
        """Number n of actuated joints."""
        ...

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """Names (n,) of the generalised coordinates."""
        ...

    @property
    def limits(self) -> JointLimits: ...

    @property
    def gravity(self) -> Array:
        """Gravity (3,) in the frame of the base, m/s²."""
        ...

    @property
    def drive_gains(self) -> Array | None:
        """Drive gains (n,), N·m/A (N/A), or None where unknown."""
        ...

    @property
    def n_parameters(self) -> int:
        """Number p of standard parameters."""
        ...

    @property
    def parameters(self) -> Array:
        """Standard parameters (p,)."""
        ...

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names (p,) of the standard parameters."""
        ...

    @property
    def parameter_sizes(self) -> Array:
        """What standard parameters (p,) of such bodies are the size of, though one may be zero; 0 if not known."""
        ...

    def inverse_dynamics(
        self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, *, parameters: ArrayLike | None = None
    ) -> Array:
        """Return efforts (N, n) of the actuated joints without friction, for q, qd, qdd (N, n).

        parameters (p,) may stand in for the robot's own; no body need have them.
        """
        ...

    def regressor(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """Return W (N, n, p) with ``W @ parameters == inverse_dynamics``; arguments as there."""
        ...

    def from_joints(
        self, positions: ArrayLike, rates: ArrayLike, accelerations: ArrayLike
    ) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd (N, n) from the motion of the actuated joints, each (N, n), successive in time."""
        ...

    def joint_motion(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> tuple[Array, Array, Array]:
        """Return positions, rates and accelerations (N, n) of the actuated joints for q, qd, qdd (N, n)."""
        ...

    def posture(self, q: ArrayLike) -> tuple[Posture, ...]:
        """Return what limits poses q (N, n) beyond the positions of single joints."""
        ...

    def with_parameters(self, parameters: ArrayLike) -> Self:
        """Return the same robot with other standard parameters (p,)."""
        ...

    def with_gravity(self, gravity: ArrayLike) -> Self:
        """Return the same robot under another gravity (3,): another mounting."""
        ...

    def with_payload(self, mass: float, com: ArrayLike, inertia: ArrayLike | None = None) -> Self:
        """Return the same robot with a body fixed to what it moves."""
        ...

    @property
    def moved_body(self) -> MovedBody:
        """Which standard parameters a payload adds to."""
        ...

    def carrying(self, body: ArrayLike) -> Self:
        """Return the same robot with a body (10,) as of ``moved_body``; none need have such parameters."""
        ...

    def with_drive_gains(self, drive_gains: ArrayLike | None) -> Self:
        """Return the same robot with drive gains (n,), or with none known."""
        ...

    def with_limits(self, **limits: ArrayLike) -> Self:
        """Return the same robot with the named limits replaced."""
        ...

    def digest(self) -> str:
        """Return the SHA-256 (hex) of everything that matters to dynamics, limits and names."""
        ...

    def to_document(self) -> dict[str, Any]:
        """Return the whole robot as JSON-serialisable data; ``core.models.model_from_document`` reads it."""
        ...
