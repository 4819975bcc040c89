"""What the parts of a joint's friction have in common: linear parameters, and shapes that are fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.signals.motion import JointMotion

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """A quantity that friction is not linear in, such as the speed at which a law bends.

    Attributes
    ----------
    name : of the term's attribute.
    nominal : its value where data do not tell.
    lower, upper : where to look for it, in ``unit``.
    unit : ``speed`` for shares of the joint's highest speed, ``per speed`` for its inverse, ``own`` for the
        quantity's own unit. What lies outside of the motion's speeds cannot be seen in it.
    """

    name: str
    nominal: float
    lower: float
    upper: float
    unit: Literal["speed", "per speed", "own"] = "own"

    def bounds(self, top_speed: float) -> tuple[float, float]:
        """Return where to look in the data of a joint that moves at up to ``top_speed``."""
        scale = {"speed": top_speed, "per speed": 1.0 / top_speed, "own": 1.0}[self.unit]
        return self.lower * scale, self.upper * scale


@dataclass(frozen=True)
class Shaped:
    """Base of laws and terms: frozen dataclasses whose ``SHAPES`` are attributes, None while to be fitted."""

    name: ClassVar[str]
    SHAPES: ClassVar[tuple[Shape, ...]] = ()

    @property
    def needs_load(self) -> bool:
        """Whether the columns depend on the link torque."""
        return False

    @property
    def free(self) -> tuple[Shape, ...]:
        """The shapes that are still to be fitted."""
        return tuple(shape for shape in self.SHAPES if getattr(self, shape.name) is None)

    @property
    def shapes(self) -> dict[str, float]:
        """The shapes that are given or fitted."""
        known = {shape.name: getattr(self, shape.name) for shape in self.SHAPES}
        return {name: value for name, value in known.items() if value is not None}

    def with_shapes(self, values: dict[str, float]) -> Self:
        return replace(self, **values) if values else self

    def shape(self, name: str) -> float:
        """Return a shape's value, its nominal one before it is fitted."""
        value = getattr(self, name)
        return float(next(s.nominal for s in self.SHAPES if s.name == name) if value is None else value)

    @property
    def options(self) -> tuple[str, ...]:
        """What else a specification says in brackets."""
        return ()

    @classmethod
    def from_options(cls, words: tuple[str, ...], shapes: dict[str, float]) -> Self:
        """Return the term of a specification ``name(word, ..., shape=value, ...)``.

        Raises
        ------
        InputError
            It has no such option.
        """
        if words:
            raise InputError(f"{cls.name} has no option {words[0]!r}", code="friction-invalid")
        return cls(**cls.checked(shapes))

    @classmethod
    def checked(cls, shapes: dict[str, float]) -> dict[str, Any]:
        known = [shape.name for shape in cls.SHAPES]
        for name, value in shapes.items():
            if name not in known:
                raise InputError(
                    f"{cls.name} has no shape {name!r}; it has {', '.join(known) or 'none'}", code="friction-invalid"
                )
            if not (np.isfinite(value) and value > 0.0):
                raise InputError(f"{cls.name}: {name} must be positive, got {value}", code="friction-invalid")
        return dict(shapes)


class VelocityLaw(Protocol):
    """The part of friction that depends on velocity alone; its last column is an offset where it has one."""

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

    @property
    def needs_load(self) -> bool:
        """Whether it depends on the link torque: no law does."""
        ...

    @property
    def free(self) -> tuple[Shape, ...]: ...

    @property
    def shapes(self) -> dict[str, float]: ...

    @property
    def options(self) -> tuple[str, ...]: ...

    def with_shapes(self, values: dict[str, float]) -> Self: ...

    def columns(self, qd: Array, *, sign_width: float) -> Array:
        """Return (N, k) for velocities (N,): the torque per unit of each parameter.

        ``sign_width`` (rad/s, m/s) asks for a torque without jumps, as a controller needs it: the sign changes over
        that speed. With 0 it is the exact sign.
        """
        ...

    def slopes(self, qd: Array, *, sign_width: float) -> Array:
        """Return the derivatives (N, k) of ``columns`` in the velocity, for a ``sign_width`` above 0."""
        ...


class FrictionTerm(Protocol):
    """What is added to a law. It sees the whole motion: some terms remember where the joint came from."""

    @property
    def name(self) -> str: ...

    @property
    def needs_load(self) -> bool:
        """Whether it depends on ``motion.link_torque``."""
        ...

    @property
    def free(self) -> tuple[Shape, ...]: ...

    @property
    def shapes(self) -> dict[str, float]: ...

    @property
    def options(self) -> tuple[str, ...]: ...

    def with_shapes(self, values: dict[str, float]) -> Self: ...

    def parameter_names(self, law: VelocityLaw) -> tuple[str, ...]:
        """Return the names (k,) of the linear parameters, without the joint's number."""
        ...

    def nonnegative(self, law: VelocityLaw) -> tuple[str, ...]:
        """Return those of them that cannot be negative."""
        ...

    def columns(self, motion: JointMotion, joint: int, law: VelocityLaw, *, sign_width: float) -> Array:
        """Return (N, k): the torque of ``joint`` (from 0) per unit of each parameter."""
        ...

    def unloaded(self) -> Self | None:
        """Return what is left of the term where the load is not known; None if nothing."""
        ...

    def sliding(self, motion: JointMotion, joint: int, law: VelocityLaw, qd: Array) -> Array:
        """Return ``columns`` as if the joint, where it is, had slid on at the low velocities qd (N,)."""
        ...


def link_torque(motion: JointMotion, joint: int) -> Array:
    """Return the link torque (N,) of a joint that its friction grows with.

    Raises
    ------
    InputError
        Nobody has said how large it is.
    """
    if motion.link_torque is None:
        raise InputError("friction grows with the load, but the motion comes without its link torque")
    return np.asarray(motion.link_torque[:, joint])
