"""Velocity laws of friction (methods, section 1).

``sgn(0) = 0``; where a torque without jumps is asked for, the sign is ``tanh(qd / width)``, of ``SIGN_WIDTH`` unless
something else is said.
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

_REST = 1e-12
"""rad/s (m/s); slower than that is not moving, where powers of the speed may have no derivative."""


def _sign(qd: Array, width: float) -> Array:
    return np.tanh(qd / width) if width > 0.0 else np.sign(qd)


def _sign_slope(qd: Array, width: float) -> Array:
    return (1.0 - np.tanh(qd / width) ** 2) / width


@dataclass(frozen=True)
class Frictionless(Shaped):
    """No friction, as between a force sensor and what it carries."""

    name: ClassVar[str] = "none"
    parameter_names: ClassVar[tuple[str, ...]] = ()
    nonnegative: ClassVar[tuple[str, ...]] = ()

    def columns(self, qd: Array, *, sign_width: float) -> Array:
        return np.empty((len(qd), 0))

    def slopes(self, qd: Array, *, sign_width: float) -> Array:
        return np.empty((len(qd), 0))


@dataclass(frozen=True)
class Offset(Shaped):
    """``b`` alone, such as the tare of a force sensor."""

    name: ClassVar[str] = "offset"
    parameter_names: ClassVar[tuple[str, ...]] = ("b",)
    nonnegative: ClassVar[tuple[str, ...]] = ()

    def columns(self, qd: Array, *, sign_width: float) -> Array:
        return np.ones((len(qd), 1))

    def slopes(self, qd: Array, *, sign_width: float) -> Array:
        return np.zeros((len(qd), 1))


@dataclass(frozen=True)
class CoulombViscous(Shaped):
    """``fc sgn(qd) + fv qd + b``, which most of the literature starts from."""

    name: ClassVar[str] = "coulomb_viscous"
    parameter_names: ClassVar[tuple[str, ...]] = ("fc", "fv", "b")
    nonnegative: ClassVar[tuple[str, ...]] = ("fc", "fv")

    def columns(self, qd: Array, *, sign_width: float) -> Array:
        return np.column_stack([_sign(qd, sign_width), qd, np.ones_like(qd)])

    def slopes(self, qd: Array, *, sign_width: float) -> Array:
        return np.column_stack([_sign_slope(qd, sign_width), np.ones_like(qd), np.zeros_like(qd)])


@dataclass(frozen=True)
class PowerViscous(Shaped):
    """``fc sgn(qd) + fv sgn(qd) |qd|^alpha + b``: drag that grows less (or more) than in proportion."""

    alpha: float | None = None

    name: ClassVar[str] = "power_viscous"
    parameter_names: ClassVar[tuple[str, ...]] = ("fc", "fv", "b")
    nonnegative: ClassVar[tuple[str, ...]] = ("fc", "fv")
    SHAPES: ClassVar[tuple[Shape, ...]] = (Shape("alpha", 0.7, 0.1, 3.0),)

    def columns(self, qd: Array, *, sign_width: float) -> Array:
        direction = _sign(qd, sign_width)
        return np.column_stack([direction, direction * np.abs(qd) ** self.shape("alpha"), np.ones_like(qd)])

    def slopes(self, qd: Array, *, sign_width: float) -> Array:
        alpha, speed = self.shape("alpha"), np.abs(qd)
        turning = _sign_slope(qd, sign_width)
        # d |qd|^alpha / d qd times the sign, which vanishes at rest as the sign does, more quickly than this grows
        growing = alpha * np.abs(np.tanh(qd / sign_width)) * np.maximum(speed, _REST) ** (alpha - 1.0)
        return np.column_stack([turning, turning * speed**alpha + growing, np.zeros_like(qd)])


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

    def columns(self, qd: Array, *, sign_width: float) -> Array:
        limit = self.shape("threshold")
        low = np.clip(qd, -limit, limit)
        direction = _sign(qd, sign_width)
        powers = [low, low * np.abs(low), low * low * low]
        beyond = [qd - low, qd * np.abs(qd) - powers[1], qd * qd * qd - powers[2]]
        return np.column_stack([np.maximum(direction, 0.0), np.minimum(direction, 0.0), *powers, *beyond])

    def slopes(self, qd: Array, *, sign_width: float) -> Array:
        limit = self.shape("threshold")
        speed, below = np.abs(qd), np.abs(qd) < limit
        turning = _sign_slope(qd, sign_width)
        powers = [np.ones_like(qd), 2.0 * speed, 3.0 * qd**2]
        low, high = [p * below for p in powers], [p * ~below for p in powers]
        return np.column_stack([turning * (qd > 0.0), turning * (qd <= 0.0), *low, *high])


@dataclass(frozen=True)
class Arctan(Shaped):
    """``f1 sgn(qd) + f2 qd + f3 atan(f4 qd) + f0``: viscous drag that levels off (Daemi and Heimann)."""

    f4: float | None = None

    name: ClassVar[str] = "arctan"
    parameter_names: ClassVar[tuple[str, ...]] = ("f1_", "f2_", "f3_", "f0_")
    nonnegative: ClassVar[tuple[str, ...]] = ()
    SHAPES: ClassVar[tuple[Shape, ...]] = (Shape("f4", 5.0, 0.5, 300.0, "per speed"),)

    def columns(self, qd: Array, *, sign_width: float) -> Array:
        return np.column_stack([_sign(qd, sign_width), qd, np.arctan(self.shape("f4") * qd), np.ones_like(qd)])

    def slopes(self, qd: Array, *, sign_width: float) -> Array:
        f4 = self.shape("f4")
        bending = f4 / (1.0 + (f4 * qd) ** 2)
        return np.column_stack([_sign_slope(qd, sign_width), np.ones_like(qd), bending, np.zeros_like(qd)])


@dataclass(frozen=True)
class Stribeck(Shaped):
    """``(fc + (fs - fc) exp(-|qd/vs|^d)) sgn(qd) + fv qd + b``: more friction before sliding than after."""

    vs: float | None = None
    d: float | None = None

    name: ClassVar[str] = "stribeck"
    parameter_names: ClassVar[tuple[str, ...]] = ("fc", "fs", "fv", "b")
    nonnegative: ClassVar[tuple[str, ...]] = ("fc", "fs", "fv")
    SHAPES: ClassVar[tuple[Shape, ...]] = (Shape("vs", 0.1, 0.01, 0.5, "speed"), Shape("d", 1.0, 0.5, 3.0))

    def columns(self, qd: Array, *, sign_width: float) -> Array:
        direction = _sign(qd, sign_width)
        sticking = np.exp(-(np.abs(qd / self.shape("vs")) ** self.shape("d")))
        return np.column_stack([(1.0 - sticking) * direction, sticking * direction, qd, np.ones_like(qd)])

    def slopes(self, qd: Array, *, sign_width: float) -> Array:
        vs, d = self.shape("vs"), self.shape("d")
        speed = np.maximum(np.abs(qd), _REST) / vs
        sticking, turning = np.exp(-(speed**d)), _sign_slope(qd, sign_width)
        # d sticking / d qd times the sign: both change their signs with qd
        fading = -sticking * d * speed ** (d - 1.0) / vs * np.abs(np.tanh(qd / sign_width))
        held = sticking * turning + fading
        return np.column_stack([turning - held, held, np.ones_like(qd), np.zeros_like(qd)])
