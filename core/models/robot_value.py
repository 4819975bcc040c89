"""Robots as values: changed copies, documents, digest, equality."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError, ModelError
from core.models.arguments import shaped
from core.models.frames import is_possible_body, rotation_from_rpy
from core.models.limits import JointLimits

Array = NDArray[np.float64]

_DOCUMENT_VERSION = 1


class RobotValue(ABC):
    """What every ``Mechanism`` does alike, for frozen dataclasses that have the attributes below.

    Two robots are equal when everything that matters, that is ``digest()``, is.
    """

    KIND: ClassVar[str]
    """What documents and model files call this kind of robot."""

    name: str
    joint_names: tuple[str, ...]
    limits: JointLimits
    gravity: Array
    drive_gains: Array | None

    @property
    def n_joints(self) -> int:
        """Number of actuated joints."""
        return len(self.joint_names)

    def with_gravity(self, gravity: ArrayLike) -> Self:
        """Return the same robot under another gravity (3,) m/s² in the frame of its base: another mounting."""
        return self._with(gravity=shaped(gravity, "gravity", (3,)))

    def with_mounting(self, rpy: ArrayLike) -> Self:
        """Return the same robot standing otherwise: ``rpy`` (3,) rad turn its base in an upright world."""
        down = np.array([0.0, 0.0, -float(np.linalg.norm(self.gravity))])
        return self.with_gravity(rotation_from_rpy(shaped(rpy, "rpy", (3,))).T @ down)

    def with_drive_gains(self, drive_gains: ArrayLike | None) -> Self:
        """Return the same robot with drive gains (n,) N·m/A (N/A), or with none known."""
        if drive_gains is None:
            return self._with(drive_gains=None)
        return self._with(drive_gains=shaped(drive_gains, "drive_gains", (self.n_joints,)))

    def with_payload(self, mass: float, com: ArrayLike, inertia: ArrayLike | None = None) -> Self:
        """Return the same robot with a body fixed to what it moves.

        Parameters
        ----------
        mass : kg.
        com : (3,) m, centre of mass in the tool frame of a serial chain, in the platform frame {p} of a
            parallel robot.
        inertia : (3, 3) kg·m² about that centre, axes of the same frame; a point mass by default.

        Raises
        ------
        InputError
            No body has such a mass and inertia.
        """
        tensor = np.zeros((3, 3)) if inertia is None else shaped(inertia, "inertia", (3, 3))
        if not is_possible_body(mass, tensor):
            raise InputError(
                f"payload of {mass:g} kg: no body has this mass and inertia; the mass must be positive, the inertia "
                "symmetric, and none of its principal values above the sum of the others",
                code="payload-impossible",
            )
        return self._with_body(mass, shaped(com, "com", (3,)), tensor)

    @abstractmethod
    def _with_body(self, mass: float, com: Array, inertia: Array) -> Self:
        """Return the same robot with a possible body fixed to what it moves."""

    def with_limits(self, **limits: ArrayLike) -> Self:
        """Return the same robot with the named limits (of ``JointLimits``) replaced; scalars apply to all."""
        unknown = set(limits) - set(JointLimits.names())
        if unknown:
            raise InputError(f"unknown limits {sorted(unknown)}; there are {', '.join(JointLimits.names())}")
        new = {
            name: np.broadcast_to(np.asarray(value, dtype=np.float64), (self.n_joints,))
            for name, value in limits.items()
        }
        return self._with(limits=replace(self.limits, **new))

    def to_document(self) -> dict[str, Any]:
        """Return the whole robot as JSON-serialisable data; ``from_document`` gives the same robot back."""
        values = {item.name: _plain(getattr(self, item.name)) for item in fields(cast(Any, self))}
        return {"kind": self.KIND, "version": _DOCUMENT_VERSION, **values}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the robot that ``to_document`` described.

        Raises
        ------
        ModelError
            The document is of another kind or version, or incomplete.
        """
        if document.get("kind") != cls.KIND or document.get("version") != _DOCUMENT_VERSION:
            raise ModelError(
                f"not a {cls.KIND} document of version {_DOCUMENT_VERSION}: "
                f"kind {document.get('kind')!r}, version {document.get('version')!r}"
            )
        values = {key: value for key, value in document.items() if key not in ("kind", "version")}
        try:
            values["limits"] = JointLimits.from_document(values["limits"])
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise ModelError(f"incomplete or foreign {cls.KIND} document: {error}") from error

    def digest(self) -> str:
        """Return the SHA-256 (hex) of everything that matters to dynamics, limits and names."""
        text = json.dumps(self.to_document(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def _check_joint_names(self) -> None:
        if len(set(self.joint_names)) != len(self.joint_names):
            raise ModelError(f"{self.name}: joint names repeat: {', '.join(self.joint_names)}")

    def _check_drive_gains(self) -> None:
        if self.drive_gains is not None and np.any(self.drive_gains == 0):
            joint = self.joint_names[int(np.argmax(self.drive_gains == 0))]
            raise ModelError(f"{self.name}: the drive gain of joint {joint!r} is zero", joint=joint)

    def _with(self, **changes: object) -> Self:
        return cast(Self, replace(cast(Any, self), **changes))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def __reduce__(
        self,
    ) -> tuple[Any, ...]:  # NumPy forgets read-only flags in a pickle; the constructor sets them
        return (type(self), tuple(getattr(self, f.name) for f in fields(cast(Any, self))))


def _plain(value: Any) -> Any:
    """Return the value of a field as JSON knows it; None stands for no limit, too."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, JointLimits):
        return value.to_document()
    if isinstance(value, tuple):
        return list(value)
    return None if isinstance(value, float) and np.isinf(value) else value
