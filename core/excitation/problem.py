"""One design problem on its grid: criterion, limits and their derivatives in the coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.excitation.barrier_kernels import add_curvature
from core.excitation.columns import ObservationColumns
from core.excitation.criteria import Criterion
from core.excitation.families import LinearFamily
from core.excitation.information_kernels import Blocks, add_gram, times
from core.excitation.limits import DesignLimits
from core.excitation.linear_limits import LinearLimits
from core.excitation.nonlinear_limits import Gradients
from core.excitation.trajectory import Motion

Array = NDArray[np.float64]

STEPS_PER_HARMONIC, LEAST_STEPS = 20, 120
"""Intervals of the grid: so many per period of the quickest harmonic, and not less in all."""

_SHARP = 1e3


@dataclass(frozen=True)
class Smoothing:
    """How far criterion and limits are smoothed.

    Attributes
    ----------
    sharpness : of the soft extremes of the log eigenvalues.
    sign_width : rad/s, of the sign in ``tanh(qd / sign_width)``.
    barrier : factor on ``-sum log slack``.
    """

    sharpness: float
    sign_width: float
    barrier: float


@dataclass(frozen=True)
class Point:
    """An inside point with everything a Newton-like step needs.

    Attributes
    ----------
    x : (n, m) coefficients.
    merit : smoothed criterion plus barrier; infinite outside the limits (then nothing else counts).
    criterion_gradient : (n m,) of the part that a quasi-Newton method has to learn.
    gradient : (n m,) of the merit.
    barrier_hessian : (n m, n m) exact for limits linear in x, Gauss-Newton for others whose gradients are known.
    """

    x: Array
    merit: float
    criterion_gradient: Array
    gradient: Array
    barrier_hessian: Array


class DesignProblem:
    """What an optimiser sees: coefficients x (n, m) in, figures and derivatives out.

    Parameters
    ----------
    samples : intervals of the grid on which the criterion and nonlinear limits are evaluated; limits linear in x
        are kept on one twice as fine.
    guard : share of their guards that nonlinear limits keep. What happens between points goes with the square of their
        distance, so a grid twice as fine needs a fourth.
    prior : (p, p) information of motions that are there already, added to this one's; see ``information``.
    """

    def __init__(
        self,
        columns: ObservationColumns,
        criterion: Criterion,
        family: LinearFamily,
        limits: DesignLimits,
        *,
        samples: int,
        guard: float = 1.0,
        prior: Array | None = None,
    ) -> None:
        self.columns = columns
        self.criterion = criterion
        self.family = family
        self.limits = limits
        self.prior = prior
        self.samples = samples
        self._others: dict[float, DesignProblem] = {}
        t = np.linspace(0.0, family.duration, samples + 1)
        self.period = family.duration / samples
        self.basis = family.basis(t)[:3]
        self.offset = family.offset(t)[:3]
        self.limit_times = np.linspace(0.0, family.duration, 2 * samples + 1)
        bounds = columns.robot.coordinate_limits(limits)
        self.linear = LinearLimits.of(family.basis(self.limit_times), family.offset(self.limit_times), bounds)
        self.nonlinear = columns.robot.nonlinear_limits(limits)
        self._guards = [guard * limit.guard for limit in self.nonlinear]
        seen = columns.seen
        self._blocks = Blocks(np.append(0, np.cumsum(seen.sum(axis=1))), np.nonzero(seen)[1])
        self._weights = np.zeros((samples + 1, *seen.shape))

    def with_density(self, share: float) -> DesignProblem:
        """Return the same with another number of samples, as a share of this one's; kept for the next time."""
        if share not in self._others:
            self._others[share] = self if share == 1.0 else self.on_grid(max(round(share * self.samples), 1))
        return self._others[share]

    def on_grid(self, samples: int) -> DesignProblem:
        """Return the same on another grid."""
        return DesignProblem(
            self.columns,
            self.criterion,
            self.family,
            self.limits,
            samples=samples,
            guard=min((self.samples / samples) ** 2, 1.0),
            prior=self.prior,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return self.family.n_joints, self.family.size

    def motion(self, x: Array) -> Motion:
        """Return q, qd, qdd (N, n) on the grid."""
        q, qd, qdd = (self.offset[order] + self.basis[order] @ x.T for order in range(3))
        return q, qd, qdd

    def information(self, x: Array) -> Array:
        """Return the integral of ``W^T W`` over time (p, p) on the grid, prior included."""
        return self._gram(self._observation(self.motion(x)))

    def value(self, x: Array) -> float:
        """Return the exact criterion on the grid."""
        return self.criterion.value(self.information(x))

    def figure(self, x: Array) -> float:
        """Return the criterion on the logarithmic scale on which it is minimised, hardly smoothed."""
        return self.criterion.smooth(self.information(x), _SHARP)[0]

    def objective(self, x: Array, smoothing: Smoothing) -> tuple[float, Array]:
        """Return the smoothed criterion, on its logarithmic scale, and its gradient (n, m)."""
        value, bars = self._criterion(self.motion(x), smoothing)
        return value, self.to_coefficients(bars)

    def to_coefficients(self, bars: Motion) -> Array:
        """Return dJ/dx (n, m) for dJ/dq, dJ/dqd, dJ/dqdd, each (N, n), on the grid."""
        return np.asarray(sum(bar.T @ basis for bar, basis in zip(bars, self.basis, strict=True)))

    def inside(self, x: Array) -> bool:
        """Whether x keeps all limits on the grid, strictly."""
        if not self.linear.feasible(x):
            return False
        motion = self.motion(x)
        return self._rooms(motion) is not None

    def violation(self, x: Array) -> float:
        """Return the largest excess over a limit on the grid: shares of a limit, m for the workspace; 0 inside."""
        worst = self.linear.worst_share(x)
        if self.nonlinear:
            motion = self.motion(x)
            worst = max(worst, *(-float(limit.margins(motion).min()) for limit in self.nonlinear))
        return max(worst, 0.0)

    def point(self, x: Array, smoothing: Smoothing) -> Point:
        """Return merit and derivatives at x."""
        size = x.size
        outside = Point(x, np.inf, np.empty(0), np.empty(0), np.empty((0, 0)))
        merit, gradient, blocks = self.linear.barrier(x)
        if not np.isfinite(merit):
            return outside
        motion = self.motion(x)
        rooms = self._rooms(motion)
        if rooms is None:
            return outside
        mu = smoothing.barrier
        hessian = np.zeros((*self.shape, *self.shape))
        for j, block in enumerate(blocks):
            hessian[j, :, j, :] = block
        learned: list[Motion] = []
        for limit, room in zip(self.nonlinear, rooms, strict=True):
            merit -= float(np.log(room).sum())
            known = limit.gradients(motion)
            if known is None:
                learned.append(limit.pull_back(motion, -mu / room))
            else:
                self._add_barrier(known, room, gradient, hessian)
        value, bars = self._criterion(motion, smoothing)
        slope = sum((self.to_coefficients(own) for own in learned), self.to_coefficients(bars))
        total = slope + mu * gradient
        return Point(x, value + mu * merit, slope.ravel(), total.ravel(), mu * hessian.reshape(size, size))

    def merit(self, x: Array, smoothing: Smoothing) -> float:
        """Return the merit of ``point`` alone, without the derivatives that make up most of its cost."""
        merit = self.linear.barrier_value(x)
        if not np.isfinite(merit):
            return np.inf
        motion = self.motion(x)
        rooms = self._rooms(motion)
        if rooms is None:
            return np.inf
        merit -= sum(float(np.log(room).sum()) for room in rooms)
        information = self._gram(self._observation(motion, smoothing.sign_width))
        return self.criterion.smooth(information, smoothing.sharpness)[0] + smoothing.barrier * merit

    def _rooms(self, motion: Motion) -> list[Array] | None:
        """Return what the nonlinear limits leave beyond their guards; None outside."""
        rooms = []
        for limit, guard in zip(self.nonlinear, self._guards, strict=True):
            rooms.append(limit.margins(motion) - guard)
            if np.any(rooms[-1] <= 0.0):
                return None
        return rooms

    def _add_barrier(self, slopes: Gradients, room: Array, gradient: Array, hessian: Array) -> None:
        """Add the gradient of ``-sum log room`` and its Gauss-Newton Hessian ``sum (B g)(B g)^T`` in x."""
        known = [order for order, slope in enumerate(slopes) if slope is not None]
        scaled = np.stack([slope / room[:, :, None] for slope in slopes if slope is not None])
        for order, own in zip(known, scaled, strict=True):
            gradient -= own.sum(axis=1).T @ self.basis[order]
        curvature = np.zeros_like(hessian)
        add_curvature(scaled, np.stack([self.basis[order] for order in known]), curvature)
        for j in range(len(curvature)):
            curvature[j + 1 :, :, j] = curvature[j, :, j + 1 :].transpose(1, 2, 0)
        hessian += curvature

    def _criterion(self, motion: Motion, smoothing: Smoothing) -> tuple[float, Motion]:
        W = self._observation(motion, smoothing.sign_width)
        value, slope = self.criterion.smooth(self._gram(W), smoothing.sharpness)
        times(W, self._blocks, 2.0 * self.period, slope, self._weights)
        return value, self.columns.pull_back(motion, self._weights, smoothing.sign_width)

    def _observation(self, motion: Motion, sign_width: float = 0.0) -> Array:
        """Return W (N, r, p)."""
        return self.columns.matrix(motion, sign_width).reshape(len(motion[0]), -1, self.columns.count)

    def _gram(self, W: Array) -> Array:
        out = np.zeros((self.columns.count, self.columns.count)) if self.prior is None else self.prior.copy()
        add_gram(W, self._blocks, self.period, out)
        return out
