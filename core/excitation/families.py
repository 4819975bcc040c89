"""Trajectory families as linear maps: what optimisers change, with the end conditions built in.

Every family is linear in its coefficients once the end conditions (pose given, at rest) are eliminated, and
all joints share one basis:

    d^r q / dt^r (t) = offset_r(t) + basis_r(t) x_j,   r = 0..3

so limits on position, speed, acceleration and jerk are linear in the coefficients x (n, m), and every x is a
trajectory that begins and ends as asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.excitation.bspline import DEGREE, CubicBSpline
from core.excitation.fourier import Fourier, FourierQuintic
from core.excitation.trajectory import Trajectory

Array = NDArray[np.float64]


FREE = "fourier_free"
"""A Fourier series that begins and ends in motion, wherever that is; a robot has to be brought onto it."""


class SmoothTrajectory(Trajectory, Protocol):
    """A trajectory that knows its jerk as well."""

    def derivatives(self, t: Array) -> Array:
        """Return position and its first three derivatives, (4, N, n)."""
        ...


@dataclass(frozen=True)
class LinearFamily:
    """All trajectories of one family with given duration and end poses.

    Attributes
    ----------
    name : of the family.
    duration : s.
    start, end : (n,) poses in rad.
    size : m, number of free coefficients per joint.
    build : (coefficients (n, m), start (n,), end (n,)) -> trajectory.
    """

    name: str
    duration: float
    start: Array
    end: Array
    size: int
    build: Callable[[Array, Array, Array], SmoothTrajectory]

    @property
    def n_joints(self) -> int:
        return int(self.start.size)

    def trajectory(self, x: Array) -> SmoothTrajectory:
        """Return the trajectory with coefficients x (n, m)."""
        return self.build(x, self.start, self.end)

    def basis(self, t: Array) -> Array:
        """Return (4, N, m): what one unit of each coefficient adds to position, speed, acceleration, jerk."""
        still = np.zeros(self.size)
        return np.ascontiguousarray(self.build(np.eye(self.size), still, still).derivatives(t))

    def offset(self, t: Array) -> Array:
        """Return (4, N, n): the trajectory whose coefficients are all zero."""
        return self.trajectory(np.zeros((self.n_joints, self.size))).derivatives(t)

    def fit(self, trajectory: Trajectory) -> Array:
        """Return the coefficients (n, m) whose positions come closest to those of any trajectory.

        Its duration may differ: then it is run slower or faster.
        """
        share = np.linspace(0.0, 1.0, 20 * self.size + 1)
        t = share * self.duration
        q = trajectory.evaluate(share * trajectory.duration)[0]
        if q.shape[1] != self.n_joints:
            raise InputError(f"the trajectory moves {q.shape[1]} joints, {self.n_joints} are wanted")
        return np.ascontiguousarray(np.linalg.lstsq(self.basis(t)[0], q - self.offset(t)[0], rcond=None)[0].T)


def family(name: str, *, harmonics: int, duration: float, start: Array, end: Array) -> LinearFamily:
    """Return a family by name.

    Parameters
    ----------
    name : "fourier_quintic", "fourier", "bspline" or "fourier_free".
    harmonics : K; a spline gets as many free control points as a Fourier series has coefficients, 2 K.
    duration : s; of Fourier series also the period.
    start, end : (n,) poses, rad.

    Raises
    ------
    InputError
        The name is unknown, or nothing is free: too few harmonics, or ends that the family cannot join.
    """
    if name not in FAMILIES:
        raise InputError(
            f"unknown trajectory family {name!r}; known: {', '.join(FAMILIES)}", code="trajectory-family-unknown"
        )
    if not (np.isfinite(duration) and duration > 0.0):
        raise InputError(f"the duration must be positive, got {duration} s")
    if start.ndim != 1 or start.shape != end.shape:
        raise InputError(f"start and end must both have shape (n,), got {start.shape} and {end.shape}")
    least, make = FAMILIES[name]
    if harmonics < least:
        raise InputError(f"{name}: at least {least} harmonics are needed, got {harmonics}")
    return make(harmonics, duration, start, end)


def _fourier_quintic(harmonics: int, duration: float, start: Array, end: Array) -> LinearFamily:
    def build(x: Array, first: Array, last: Array) -> FourierQuintic:
        return FourierQuintic(duration, x[:, :harmonics], x[:, harmonics:], first, last)

    return LinearFamily(FourierQuintic.family, duration, start, end, 2 * harmonics, build)


def _fourier(harmonics: int, duration: float, start: Array, end: Array) -> LinearFamily:
    if not np.array_equal(start, end):
        raise InputError("fourier: a periodic series ends where it starts; give no other end pose")
    order = np.arange(1.0, harmonics + 1.0)
    # the amplitudes that rest at the ends: sum a = 0, sum k b = 0
    free_a = _orthogonal_complement(np.ones(harmonics))
    free_b = _orthogonal_complement(order)
    wk = 2.0 * np.pi / duration * order

    def build(x: Array, first: Array, _: Array) -> Fourier:
        a = x[:, : harmonics - 1] @ free_a
        b = x[:, harmonics - 1 :] @ free_b
        return Fourier(duration, first + (b / wk).sum(axis=1), a, b)

    return LinearFamily(Fourier.family, duration, start, end, 2 * (harmonics - 1), build)


def _fourier_free(harmonics: int, duration: float, start: Array, end: Array) -> LinearFamily:
    """Return the series that nothing holds at its ends: ``start`` is what it moves about, nearly."""
    if not np.array_equal(start, end):
        raise InputError(f"{FREE}: a periodic series ends where it starts; give no other end pose")

    def build(x: Array, first: Array, _: Array) -> Fourier:
        return Fourier(duration, first + x[:, 0], x[:, 1 : harmonics + 1], x[:, harmonics + 1 :])

    return LinearFamily(FREE, duration, start, end, 2 * harmonics + 1, build)


def _bspline(harmonics: int, duration: float, start: Array, end: Array) -> LinearFamily:
    def build(x: Array, first: Array, last: Array) -> CubicBSpline:
        edges = (np.repeat(pose[:, None], DEGREE, axis=1) for pose in (first, last))
        before, after = edges
        rise = np.linspace(0.0, 1.0, x.shape[1] + 2)[1:-1]
        return CubicBSpline(duration, np.hstack([before, first[:, None] + (last - first)[:, None] * rise + x, after]))

    return LinearFamily(CubicBSpline.family, duration, start, end, 2 * harmonics, build)


def _orthogonal_complement(vector: Array) -> Array:
    """Return an orthonormal basis (k - 1, k) of everything orthogonal to a vector (k,)."""
    return np.ascontiguousarray(np.linalg.qr(vector[:, None], mode="complete")[0][:, 1:].T)


FAMILIES: Mapping[str, tuple[int, Callable[[int, float, Array, Array], LinearFamily]]] = MappingProxyType(
    {
        FourierQuintic.family: (1, _fourier_quintic),
        Fourier.family: (2, _fourier),
        CubicBSpline.family: (1, _bspline),
        FREE: (1, _fourier_free),
    }
)
"""Least number of harmonics and maker of each family that can be optimised."""
