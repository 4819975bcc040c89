"""Fourier series, and Fourier series with a quintic so that speed and acceleration vanish at both ends.

    q_i(t) = sum_{m=0..5} c_im t^m + sum_{k=1..K} [ a_ik/(w k) sin(w k t) - b_ik/(w k) cos(w k t) ],  w = 2 pi / T

The six quintic coefficients per joint follow from ``a``, ``b`` and the two end poses: q(0) = start,
q(T) = end, qd = qdd = 0 at both ends. (UR10e source, step s2.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.excitation import fields
from core.excitation.trajectory import TrajectorySamples, uniform_grid

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FourierQuintic:
    """Fourier + quintic excitation of ``n`` joints with ``K`` harmonics over one period ``T``.

    Parameters
    ----------
    period : T in s; also the duration.
    a, b : (n, K) speed amplitudes in rad/s of the cosine and sine of each harmonic.
    start, end : (n,) poses at t = 0 and t = T, rad.
    """

    period: float
    a: Array
    b: Array
    start: Array
    end: Array

    family: ClassVar[str] = "fourier_quintic"

    def __post_init__(self) -> None:
        for name in ("a", "b", "start", "end"):
            object.__setattr__(self, name, fields.array(self.family, name, getattr(self, name)))
        if not (np.isfinite(self.period) and self.period > 0.0):
            raise InputError(f"{self.family}: the period must be positive, got {self.period} s")
        n = self.start.size
        if self.start.shape != (n,) or self.end.shape != (n,):
            raise InputError(f"{self.family}: start and end must both have shape (n,)")
        if self.a.ndim != 2 or self.a.shape[0] != n or self.a.shape[1] < 1 or self.b.shape != self.a.shape:
            raise InputError(
                f"{self.family}: a and b must both have shape (n, K) with n = {n} joints and K >= 1 harmonics, "
                f"got {self.a.shape} and {self.b.shape}"
            )

    @property
    def n_joints(self) -> int:
        return int(self.start.size)

    @property
    def duration(self) -> float:
        return float(self.period)

    def derivatives(self, t: Array) -> Array:
        """Return position and its first three derivatives, (4, N, n), at the times ``t`` (N,) in s."""
        t = np.asarray(t, dtype=np.float64)
        wk = 2.0 * np.pi / self.period * np.arange(1, self.a.shape[1] + 1)
        s = t / self.period
        powers = np.stack([s**m for m in range(6)], axis=1)
        c = self._quintic(wk)
        out = _series(t, wk, self.a, self.b)
        for order in range(4):
            out[order] += powers[:, : 6 - order] @ c.T / self.period**order
            c = c[:, 1:] * np.arange(1, 6 - order)
        return out

    def evaluate(self, t: Array) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd, each (N, n) in rad, rad/s, rad/s², at the times ``t`` (N,) in s."""
        q, qd, qdd, _ = self.derivatives(t)
        return q, qd, qdd

    def _quintic(self, wk: Array) -> Array:
        """Quintic coefficients (n, 6) in s = t / T that cancel the series' motion at both ends."""
        T = self.period
        series_q = -(self.b / wk).sum(axis=1)  # the series is periodic: the same values at 0 and T
        series_qd = self.a.sum(axis=1)
        series_qdd = (self.b * wk).sum(axis=1)
        p0 = self.start - series_q
        v, acc = -series_qd * T, -series_qdd * T**2
        d = self.end - self.start
        return np.stack([p0, v, 0.5 * acc, 10.0 * (d - v) - acc, -15.0 * (d - v) + 0.5 * acc, 6.0 * (d - v)], axis=1)

    def sample(self, period: float) -> TrajectorySamples:
        """Return the trajectory on a uniform grid of ``period`` s that ends exactly at T."""
        t = uniform_grid(self.period, period)
        return TrajectorySamples(period, t, *self.evaluate(t))

    def definition(self) -> dict[str, Any]:
        """Return the JSON-serialisable definition that :meth:`from_definition` rebuilds exactly."""
        return {
            "family": self.family,
            "period": float(self.period),
            "a": self.a.tolist(),
            "b": self.b.tolist(),
            "start": self.start.tolist(),
            "end": self.end.tolist(),
        }

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> FourierQuintic:
        names = ("a", "b", "start", "end")
        fields.check_keys(cls.family, definition, ("period", *names))
        return cls(fields.seconds(cls.family, definition, "period"), *(definition[name] for name in names))


@dataclass(frozen=True)
class Fourier:
    """Fourier series alone: ``q_i(t) = offset_i + sum_k [ a_ik/(w k) sin(w k t) - b_ik/(w k) cos(w k t) ]``.

    Over one period T it ends as it begins; it begins at rest where ``sum_k a_ik = 0`` and
    ``sum_k k b_ik = 0``. (COMAN source, step 1.)

    Parameters
    ----------
    period : T in s; also the duration.
    offset : (n,) rad.
    a, b : (n, K) speed amplitudes in rad/s of the cosine and sine of each harmonic.
    """

    period: float
    offset: Array
    a: Array
    b: Array

    family: ClassVar[str] = "fourier"

    def __post_init__(self) -> None:
        for name in ("offset", "a", "b"):
            object.__setattr__(self, name, fields.array(self.family, name, getattr(self, name)))
        if not (np.isfinite(self.period) and self.period > 0.0):
            raise InputError(f"{self.family}: the period must be positive, got {self.period} s")
        n = self.offset.size
        shape = self.a.shape
        if self.offset.shape != (n,) or len(shape) != 2 or shape[0] != n or shape[1] < 1 or self.b.shape != shape:
            raise InputError(
                f"{self.family}: offset must have shape (n,), a and b both (n, K) with K >= 1 harmonics, "
                f"got {self.offset.shape}, {shape} and {self.b.shape}"
            )

    @property
    def n_joints(self) -> int:
        return int(self.offset.size)

    @property
    def duration(self) -> float:
        return float(self.period)

    def derivatives(self, t: Array) -> Array:
        """Return position and its first three derivatives, (4, N, n), at the times ``t`` (N,) in s."""
        wk = 2.0 * np.pi / self.period * np.arange(1, self.a.shape[1] + 1)
        out = _series(np.asarray(t, dtype=np.float64), wk, self.a, self.b)
        out[0] += self.offset
        return out

    def evaluate(self, t: Array) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd, each (N, n) in rad, rad/s, rad/s², at the times ``t`` (N,) in s."""
        q, qd, qdd, _ = self.derivatives(t)
        return q, qd, qdd

    def sample(self, period: float) -> TrajectorySamples:
        """Return the trajectory on a uniform grid of ``period`` s that ends exactly at T."""
        t = uniform_grid(self.period, period)
        return TrajectorySamples(period, t, *self.evaluate(t))

    def definition(self) -> dict[str, Any]:
        """Return the JSON-serialisable definition that :meth:`from_definition` rebuilds exactly."""
        arrays = {name: getattr(self, name).tolist() for name in ("offset", "a", "b")}
        return {"family": self.family, "period": float(self.period), **arrays}

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> Fourier:
        names = ("offset", "a", "b")
        fields.check_keys(cls.family, definition, ("period", *names))
        return cls(fields.seconds(cls.family, definition, "period"), *(definition[name] for name in names))


def _series(t: Array, wk: Array, a: Array, b: Array) -> Array:
    """Return the series without its offset and its first three derivatives, (4, N, n)."""
    sin, cos = np.sin(np.outer(t, wk)), np.cos(np.outer(t, wk))
    return np.stack(
        [
            sin @ (a / wk).T - cos @ (b / wk).T,
            cos @ a.T + sin @ b.T,
            cos @ (b * wk).T - sin @ (a * wk).T,
            -sin @ (b * wk**2).T - cos @ (a * wk**2).T,
        ]
    )
