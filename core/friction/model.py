"""The one interface of all friction, linear in its parameters once the shapes of its terms are fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError
from core.friction.laws import SIGN_WIDTH
from core.friction.term import FrictionTerm, Shape, VelocityLaw
from core.signals.motion import JointMotion

Array = NDArray[np.float64]

_SLIDING = 0.02
"""rad/s (m/s); a joint that breaks loose slides this slowly at first."""


@dataclass(frozen=True)
class JointFriction:
    """Friction of one joint: a velocity law, and terms that compose with it.

    ``sign_width``, rad/s (m/s), is what the smooth sign changes over where a torque without jumps is asked for.
    """

    law: VelocityLaw
    terms: tuple[FrictionTerm, ...] = ()
    sign_width: float = SIGN_WIDTH

    @property
    def parts(self) -> tuple[VelocityLaw | FrictionTerm, ...]:
        return (self.law, *self.terms)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names (k,) without the joint's number, the law's first."""
        return (*self.law.parameter_names, *(name for term in self.terms for name in term.parameter_names(self.law)))

    @property
    def nonnegative(self) -> tuple[str, ...]:
        return (*self.law.nonnegative, *(name for term in self.terms for name in term.nonnegative(self.law)))

    @property
    def needs_load(self) -> bool:
        return any(term.needs_load for term in self.terms)

    @property
    def composition(self) -> str:
        """Names and options, without the values of shapes."""
        return "+".join(_text(part, with_shapes=False) for part in self.parts)

    @property
    def specification(self) -> str:
        """What ``friction_model`` rebuilds this from, shapes included."""
        return "+".join(_text(part, with_shapes=True) for part in self.parts)

    @property
    def free(self) -> dict[str, Shape]:
        """The shapes that are still to be fitted, by names such as ``arctan.f4``."""
        return {f"{part.name}.{shape.name}": shape for part in self.parts for shape in part.free}

    @property
    def shapes(self) -> dict[str, float]:
        """The shapes that are given or fitted, by names such as ``arctan.f4``."""
        return {f"{part.name}.{name}": value for part in self.parts for name, value in part.shapes.items()}

    def with_shapes(self, values: Mapping[str, float]) -> Self:
        """Return this friction with some shapes fixed."""

        def own(name: str) -> dict[str, float]:
            return {key.removeprefix(f"{name}."): v for key, v in values.items() if key.startswith(f"{name}.")}

        terms = tuple(term.with_shapes(own(term.name)) for term in self.terms)
        return replace(self, law=self.law.with_shapes(own(self.law.name)), terms=terms)

    def unloaded(self) -> Self:
        """Return what can be evaluated before the load is known."""
        terms = (term.unloaded() for term in self.terms)
        return replace(self, terms=tuple(term for term in terms if term is not None))

    def part_columns(self, part: VelocityLaw | FrictionTerm, motion: JointMotion, joint: int) -> Array:
        """Return the columns (N, k) of one of ``parts``."""
        if part is self.law:
            return self.law.columns(motion.qd[:, joint], sign_width=0.0)
        return next(t for t in self.terms if t is part).columns(motion, joint, self.law, sign_width=0.0)

    def columns(self, motion: JointMotion, joint: int, *, smooth: bool = False) -> Array:
        width = self.sign_width if smooth else 0.0
        law = self.law.columns(motion.qd[:, joint], sign_width=width)
        return np.hstack([law, *(term.columns(motion, joint, self.law, sign_width=width) for term in self.terms)])

    def sliding(self, motion: JointMotion, joint: int, direction: float) -> Array:
        """Return ``columns`` as if the joint slid slowly in ``direction`` wherever it is."""
        qd = np.full(motion.n_samples, direction * _SLIDING)
        law = self.law.columns(qd, sign_width=0.0)
        return np.hstack([law, *(term.sliding(motion, joint, self.law, qd) for term in self.terms)])


@dataclass(frozen=True)
class FrictionModel:
    """Friction of all joints of a robot.

    Attributes
    ----------
    joints : (n).
    """

    joints: tuple[JointFriction, ...]

    @property
    def n_joints(self) -> int:
        return len(self.joints)

    @property
    def names(self) -> tuple[str, ...]:
        """Names (k,) of all parameters, joint by joint: ``fc1``, ``fv1``, ``b1``, ``fc2``, ..."""
        return tuple(f"{name}{j}" for j, joint in enumerate(self.joints, 1) for name in joint.parameter_names)

    @property
    def nonnegative(self) -> tuple[str, ...]:
        """Those of ``names`` that cannot be negative."""
        return tuple(f"{name}{j}" for j, joint in enumerate(self.joints, 1) for name in joint.nonnegative)

    @property
    def needs_load(self) -> bool:
        """Whether ``columns`` depends on ``motion.link_torque``."""
        return any(joint.needs_load for joint in self.joints)

    @property
    def is_fitted(self) -> bool:
        """Whether no shape is left to be fitted."""
        return not any(joint.free for joint in self.joints)

    @property
    def composition(self) -> list[str]:
        """One ``law+term`` per joint, without the values of shapes."""
        return [joint.composition for joint in self.joints]

    @property
    def specification(self) -> list[str]:
        """What ``friction_model`` rebuilds this from: one ``law(shape=value)+term`` per joint."""
        return [joint.specification for joint in self.joints]

    def with_sign_widths(self, widths: ArrayLike) -> Self:
        """Return the same friction with other widths (n,) of its joints' smooth signs, rad/s (m/s)."""
        pairs = zip(self.joints, np.asarray(widths, dtype=np.float64).tolist(), strict=True)
        return replace(self, joints=tuple(replace(joint, sign_width=width) for joint, width in pairs))

    def columns(self, motion: JointMotion, *, smooth: bool = False) -> tuple[Array, ...]:
        """Return one (N, k_j) array per joint, in the order of ``names``."""
        self._check(motion)
        return tuple(joint.columns(motion, j, smooth=smooth) for j, joint in enumerate(self.joints))

    def torque(self, motion: JointMotion, parameters: Array, *, smooth: bool = False) -> Array:
        """Return the friction torque (N, n) for parameters (k,) in the order of ``names``."""
        return _combined(self.columns(motion, smooth=smooth), parameters)

    def bracket(self, motion: JointMotion, parameters: Array) -> tuple[Array, Array]:
        """Return the least and the largest friction torque (N, n), between which a standing joint may hold any.

        They are what it would take to break loose in either direction.
        """
        self._check(motion)
        ends = [
            _combined([f.sliding(motion, j, direction) for j, f in enumerate(self.joints)], parameters)
            for direction in (-1.0, 1.0)
        ]
        return np.minimum(*ends), np.maximum(*ends)

    def _check(self, motion: JointMotion) -> None:
        if motion.n_joints != self.n_joints:
            raise InputError(f"friction of {self.n_joints} joints meets a motion of {motion.n_joints}")


def _combined(columns: Sequence[Array], parameters: Array) -> Array:
    ends = np.cumsum([block.shape[1] for block in columns])
    if np.shape(parameters) != (ends[-1],):
        raise InputError(f"friction parameters have shape {np.shape(parameters)}, expected ({ends[-1]},)")
    parts: Sequence[Array] = np.split(parameters, ends[:-1])
    return np.column_stack([block @ part for block, part in zip(columns, parts, strict=True)])


def _text(part: VelocityLaw | FrictionTerm, *, with_shapes: bool) -> str:
    shapes = [f"{name}={value!r}" for name, value in part.shapes.items()] if with_shapes else []
    inside = ", ".join([*part.options, *shapes])
    return f"{part.name}({inside})" if inside else part.name
