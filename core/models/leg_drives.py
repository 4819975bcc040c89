"""The drives of a 6-UPRU robot: motor current from what the legs have to do, which is linear in gains and screws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError, ModelError
from core.models.arguments import shaped
from core.models.frozen_arrays import freeze
from core.models.limits import JointLimits
from core.models.mechanism import MovedBody, Posture
from core.models.robot_value import RobotValue
from core.models.six_upru import SixUPRU

Array = NDArray[np.float64]

_DOCUMENT_VERSION = 1


@dataclass(frozen=True, eq=False)
class LegDrives(RobotValue):
    """The six drives of a parallel robot whose forces are known, as a robot of its own.

    A drive's effort is ``c f + s l''``: f the force on its push rod (``SixUPRU.motor_force``: that at the sensor and
    the rod's own), l'' the leg's acceleration. With currents as efforts, ``1 / c`` is the drive gain in N/A, and
    ``s / c`` the inertia of screw and motor along the leg, kg. Friction comes on top, as of any robot.

    Attributes
    ----------
    robot : geometry, gravity, and identified parameters that its forces follow from.
    parameters : (12,) c, then s, of each leg; by default c = 1 and s = 0: ideal drives, efforts in N.
    drive_gains : (6,) N/A, or None where unknown.
    """

    KIND: ClassVar[str] = "leg-drives"

    robot: SixUPRU
    parameters: Array = field(default_factory=lambda: np.repeat([1.0, 0.0], 6))
    drive_gains: Array | None = None

    def __post_init__(self) -> None:
        freeze(self, "parameters", (12,))
        if self.drive_gains is not None:
            freeze(self, "drive_gains", (6,))
        self._check_drive_gains()

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"drives of {self.robot.name}"

    @property
    def joint_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.robot.joint_names

    @property
    def joint_types(self) -> tuple[str, ...]:
        return self.robot.joint_types

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return self.robot.coordinate_names

    @property
    def limits(self) -> JointLimits:  # type: ignore[override]
        return self.robot.limits

    @property
    def gravity(self) -> Array:  # type: ignore[override]
        return self.robot.gravity

    @property
    def n_parameters(self) -> int:
        return 12

    @property
    def parameter_names(self) -> tuple[str, ...]:
        legs = range(1, 7)
        return (*(f"force{leg}" for leg in legs), *(f"screw{leg}" for leg in legs))

    @property
    def parameter_sizes(self) -> Array:
        """Sizes (12,) of the parameters."""
        return np.abs(self.parameters)

    def inverse_dynamics(
        self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, *, parameters: ArrayLike | None = None
    ) -> Array:
        """Return the efforts (N, 6) without friction, for q, qd, qdd (N, 6) of the platform."""
        used = self.parameters if parameters is None else shaped(parameters, "parameters", (12,))
        return np.asarray(self.regressor(q, qd, qdd) @ used)

    def regressor(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """Return W (N, 6, 12) with ``W @ parameters == inverse_dynamics``."""
        force, acceleration = self.robot.motor_force(q, qd, qdd), self.robot.leg_accelerations(q, qd, qdd)
        columns = np.zeros((len(force), 6, 12))
        legs = np.arange(6)
        columns[:, legs, legs] = force
        columns[:, legs, 6 + legs] = acceleration
        return columns

    def from_joints(
        self, positions: ArrayLike, rates: ArrayLike, accelerations: ArrayLike
    ) -> tuple[Array, Array, Array]:
        return self.robot.from_joints(positions, rates, accelerations)

    def joint_motion(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> tuple[Array, Array, Array]:
        return self.robot.joint_motion(q, qd, qdd)

    def posture(self, q: ArrayLike) -> tuple[Posture, ...]:
        return self.robot.posture(q)

    def with_parameters(self, parameters: ArrayLike) -> Self:
        """Return the same drives with other parameters (12,)."""
        return replace(self, parameters=shaped(parameters, "parameters", (12,)))

    def with_gravity(self, gravity: ArrayLike) -> Self:
        return replace(self, robot=self.robot.with_gravity(gravity))

    def with_limits(self, **limits: ArrayLike) -> Self:
        return replace(self, robot=self.robot.with_limits(**limits))

    @property
    def moved_body(self) -> MovedBody:
        raise InputError(
            f"{self.name}: what a platform carries is told by its force sensors, not by the currents of its drives; "
            "take the result of the sensors",
            code="payload-foreign",
        )

    def carrying(self, body: ArrayLike) -> Self:
        """Return the drives of the robot with a body (10,) on its platform."""
        return replace(self, robot=self.robot.carrying(body))

    def _with_body(self, mass: float, com: Array, inertia: Array) -> Self:
        return replace(self, robot=self.robot.with_payload(mass, com, inertia))

    def to_document(self) -> dict[str, Any]:
        gains = None if self.drive_gains is None else self.drive_gains.tolist()
        values = {"robot": self.robot.to_document(), "parameters": self.parameters.tolist(), "drive_gains": gains}
        return {"kind": self.KIND, "version": _DOCUMENT_VERSION, **values}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        if document.get("kind") != cls.KIND or document.get("version") != _DOCUMENT_VERSION:
            raise ModelError(
                f"not a {cls.KIND} document of version {_DOCUMENT_VERSION}: kind {document.get('kind')!r}, version "
                f"{document.get('version')!r}"
            )
        try:
            robot = SixUPRU.from_document(document["robot"])
            return cls(robot, document["parameters"], document["drive_gains"])
        except (KeyError, TypeError) as error:
            raise ModelError(f"incomplete or foreign {cls.KIND} document: {error}") from error
