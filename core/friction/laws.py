"""Velocity laws of friction (methods, section 1).

``sgn(0) = 0``; where a torque without jumps is asked for, the sign is ``tanh(qd / SIGN_WIDTH)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from core.friction.term import Shape, Shaped

Array = NDArray[np.float64]

SIGN_WIDTH = 0.02
"""rad/s (m/s) over which the smooth sign changes."""


def sign(qd: Array, smooth: bool) -> Array:
    return np.tanh(qd / SIGN_WIDTH) if smooth else np.sign(qd)


@dataclass(frozen=True)
class CoulombViscous(Shaped):
    """``fc sgn(qd) + fv qd + b``, which most of the literature starts from."""

    name: ClassVar[str] = "coulomb_viscous"
    parameter_names: ClassVar[tuple[str, ...]] = ("fc", "fv", "b")
    nonnegative: ClassVar[tuple[str, ...]] = ("fc", "fv")

    def columns(self, qd: Array, *, smooth: bool) -> Array:
        return np.column_stack([sign(qd, smooth), qd, np.ones_like(qd)])


@dataclass(frozen=True)
class PowerViscous(Shaped):
    """``fc sgn(qd) + fv sgn(qd) |qd|^alpha + b``: drag that grows less (or more) than in proportion."""

    alpha: float | None = None

    name: ClassVar[str] = "power_viscous"
    parameter_names: ClassVar[tuple[str, ...]] = ("fc", "fv", "b")
    nonnegative: ClassVar[tuple[str, ...]] = ("fc", "fv")
    SHAPES: ClassVar[tuple[Shape, ...]] = (Shape("alpha", 0.7, 0.1, 3.0),)

    def columns(self, qd: Array, *, smooth: bool) -> Array:
        direction = sign(qd, smooth)
        return np.column_stack([direction, direction * np.abs(qd) ** self.shape("alpha"), np.ones_like(qd)])


@dataclass(frozen=True)
class TwoRegimeCubic(Shaped):
    """A cubic law below and another above the speed ``threshold`` (lambda), continuous there.

    With u the velocity clipped to +-threshold: ``kc+`` (qd > 0) or ``-kc-`` (qd < 0), plus
    ``kv1 u + kv2 u|u| + kv3 u^3``, plus ``kv4 (qd - u) + kv5 (qd|qd| - u|u|) + kv6 (qd^3 - u^3)``. So kv1..3
    belong to the low regime and kv4..6 to the high one, whose Coulomb torques follow from continuity:
    ``kc + (kv1 - kv4) threshold + (kv2 - kv5) threshold^2 + (kv3 - kv6) threshold^3``. The low regime may
    slope downward (Stribeck).
    """

    threshold: float | None = None

    name: ClassVar[str] = "two_regime_cubic"
    parameter_names: ClassVar[tuple[str, ...]] = ("kc+", "kc-", "kv1_", "kv2_", "kv3_", "kv4_", "kv5_", "kv6_")
    nonnegative: ClassVar[tuple[str, ...]] = ("kc+", "kc-")
    SHAPES: ClassVar[tuple[Shape, ...]] = (Shape("threshold", 0.2, 0.05, 0.6, "speed"),)

    def columns(self, qd: Array, *, smooth: bool) -> Array:
        limit = self.shape("threshold")
        low = np.clip(qd, -limit, limit)
        direction = sign(qd, smooth)
        powers = [low, low * np.abs(low), low**3]
        beyond = [qd - low, qd * np.abs(qd) - powers[1], qd**3 - powers[2]]
        return np.column_stack([np.maximum(direction, 0.0), np.minimum(direction, 0.0), *powers, *beyond])


@dataclass(frozen=True)
class Arctan(Shaped):
    """``f1 sgn(qd) + f2 qd + f3 atan(f4 qd) + f0``: viscous drag that levels off (Daemi and Heimann)."""

    f4: float | None = None

    name: ClassVar[str] = "arctan"
    parameter_names: ClassVar[tuple[str, ...]] = ("f1_", "f2_", "f3_", "f0_")
    nonnegative: ClassVar[tuple[str, ...]] = ()
    SHAPES: ClassVar[tuple[Shape, ...]] = (Shape("f4", 5.0, 0.5, 300.0, "per speed"),)

    def columns(self, qd: Array, *, smooth: bool) -> Array:
        return np.column_stack([sign(qd, smooth), qd, np.arctan(self.shape("f4") * qd), np.ones_like(qd)])


@dataclass(frozen=True)
class Stribeck(Shaped):
    """``(fc + (fs - fc) exp(-|qd/vs|^d)) sgn(qd) + fv qd + b``: more friction before sliding than after."""

    vs: float | None = None
    d: float | None = None

    name: ClassVar[str] = "stribeck"
    parameter_names: ClassVar[tuple[str, ...]] = ("fc", "fs", "fv", "b")
    nonnegative: ClassVar[tuple[str, ...]] = ("fc", "fs", "fv")
    SHAPES: ClassVar[tuple[Shape, ...]] = (Shape("vs", 0.1, 0.01, 0.5, "speed"), Shape("d", 1.0, 0.5, 3.0))

    def columns(self, qd: Array, *, smooth: bool) -> Array:
        direction = sign(qd, smooth)
        sticking = np.exp(-(np.abs(qd / self.shape("vs")) ** self.shape("d")))
        return np.column_stack([(1.0 - sticking) * direction, sticking * direction, qd, np.ones_like(qd)])
