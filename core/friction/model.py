"""The one interface of all friction, linear in its parameters once the shapes of its terms are fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.signals.motion import JointMotion

Array = NDArray[np.float64]


class FrictionTerm(Protocol):
    """One summand of a joint's friction torque: a velocity law, or a term added to one.

    A term sees the whole motion, not single samples, since some remember where the joint came from.
    """

    @property
    def name(self) -> str:
        """As in ``law+term``."""
        ...

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names (k,) of the linear parameters, without the joint's number."""
        ...

    @property
    def nonnegative(self) -> tuple[str, ...]:
        """Those of ``parameter_names`` that cannot be negative, since friction takes energy away."""
        ...

    def columns(self, motion: JointMotion, joint: int, *, smooth: bool) -> Array:
        """Return (N, k): the torque of ``joint`` (from 0) per unit of each parameter.

        ``smooth`` asks for a torque without jumps, as a controller needs it.
        """
        ...


@dataclass(frozen=True)
class FrictionModel:
    """Friction of all joints of a robot.

    Attributes
    ----------
    joints : (n) terms of each joint, its velocity law first.
    """

    joints: tuple[tuple[FrictionTerm, ...], ...]

    @property
    def n_joints(self) -> int:
        return len(self.joints)

    @property
    def names(self) -> tuple[str, ...]:
        """Names (k,) of all parameters, joint by joint: ``fc1``, ``fv1``, ``b1``, ``fc2``, ..."""
        return tuple(
            f"{name}{j}" for j, terms in enumerate(self.joints, 1) for term in terms for name in term.parameter_names
        )

    @property
    def nonnegative(self) -> tuple[str, ...]:
        """Those of ``names`` that cannot be negative."""
        return tuple(
            f"{name}{j}" for j, terms in enumerate(self.joints, 1) for term in terms for name in term.nonnegative
        )

    @property
    def specification(self) -> list[str]:
        """What ``friction_model`` rebuilds this from: one ``law+term`` per joint."""
        return ["+".join(term.name for term in terms) for terms in self.joints]

    def columns(self, motion: JointMotion, *, smooth: bool = False) -> tuple[Array, ...]:
        """Return one (N, k_j) array per joint, in the order of ``names``."""
        if motion.n_joints != self.n_joints:
            raise InputError(f"friction of {self.n_joints} joints meets a motion of {motion.n_joints}")
        return tuple(
            np.hstack([term.columns(motion, j, smooth=smooth) for term in terms]) for j, terms in enumerate(self.joints)
        )

    def torque(self, motion: JointMotion, parameters: Array, *, smooth: bool = False) -> Array:
        """Return the friction torque (N, n) for parameters (k,) in the order of ``names``."""
        columns = self.columns(motion, smooth=smooth)
        ends = np.cumsum([block.shape[1] for block in columns])
        if np.shape(parameters) != (ends[-1],):
            raise InputError(f"friction parameters have shape {np.shape(parameters)}, expected ({ends[-1]},)")
        parts: Sequence[Array] = np.split(parameters, ends[:-1])
        return np.column_stack([block @ part for block, part in zip(columns, parts, strict=True)])
