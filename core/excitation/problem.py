"""One design problem on its grid: criterion, limits and their derivatives in the coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.excitation.columns import Motion, ObservationColumns
from core.excitation.criteria import Criterion
from core.excitation.families import LinearFamily
from core.excitation.limits import DesignLimits
from core.excitation.linear_limits import LinearLimits
from core.excitation.workspace import WorkspaceCheck

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
    barrier_hessian : (n m, n m) exact for limits linear in x, Gauss-Newton for the workspace.
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
    samples : intervals of the grid on which criterion, torque and workspace are evaluated; limits linear in x
        are kept on one twice as fine.
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
        prior: Array | None = None,
    ) -> None:
        self.columns = columns
        self.criterion = criterion
        self.family = family
        self.limits = limits
        self.prior = prior
        t = np.linspace(0.0, family.duration, samples + 1)
        self.period = family.duration / samples
        self.basis = family.basis(t)[:3]
        self.offset = family.offset(t)[:3]
        self.limit_times = np.linspace(0.0, family.duration, 2 * samples + 1)
        self.linear = LinearLimits.of(family.basis(self.limit_times), family.offset(self.limit_times), limits.joints)
        self.workspace: WorkspaceCheck | None = None
        if limits.workspace.limits_anything:
            self.workspace = WorkspaceCheck(limits.workspace, columns.model)
            self.guard = self.workspace.guard(limits.start, limits.end)
        self.torque = limits.joints.torque if np.isfinite(limits.joints.torque).any() else None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return self.family.n_joints, self.family.size

    def motion(self, x: Array) -> Motion:
        """Return q, qd, qdd (N, n) on the grid."""
        q, qd, qdd = (self.offset[order] + self.basis[order] @ x.T for order in range(3))
        return q, qd, qdd

    def information(self, x: Array, sign_width: float | None = None) -> Array:
        """Return the integral of ``W^T W`` over time (p, p) on the grid, prior included."""
        return self._with_prior(self.columns.matrix(self.motion(x), sign_width))

    def value(self, x: Array) -> float:
        """Return the exact criterion on the grid."""
        return self.criterion.value(self.information(x))

    def figure(self, x: Array) -> float:
        """Return the criterion on the logarithmic scale on which it is minimised, hardly smoothed."""
        W = self.columns.matrix(self.motion(x))
        return self.criterion.smooth(self._with_prior(W), _SHARP)[0]

    def objective(self, x: Array, smoothing: Smoothing) -> tuple[float, Array]:
        """Return the smoothed criterion, on its logarithmic scale, and its gradient (n, m)."""
        motion = self.motion(x)
        value, bars = self._criterion(motion, smoothing, None)
        return value, self.to_coefficients(bars)

    def to_coefficients(self, bars: tuple[Array, Array, Array]) -> Array:
        """Return dJ/dx (n, m) for dJ/dq, dJ/dqd, dJ/dqdd, each (N, n), on the grid."""
        return np.asarray(sum(bar.T @ basis for bar, basis in zip(bars, self.basis, strict=True)))

    def inside(self, x: Array) -> bool:
        """Whether x keeps all limits on the grid, strictly."""
        if not self.linear.feasible(x):
            return False
        motion = self.motion(x)
        if self.torque is not None and np.any(np.abs(self._torque(motion)) >= self.torque):
            return False
        return self.workspace is None or bool(np.all(self.workspace.clearances(motion[0]) > self.guard))

    def point(self, x: Array, smoothing: Smoothing) -> Point:
        """Return merit and derivatives at x."""
        size = x.size
        outside = Point(x, np.inf, np.empty(0), np.empty(0), np.empty((0, 0)))
        if not self.linear.feasible(x):
            return outside
        motion = self.motion(x)
        mu = smoothing.barrier
        merit, multipliers = self._torque_barrier(motion, mu)
        if not np.isfinite(merit):
            return outside
        linear, linear_gradient, blocks = self.linear.barrier(x)
        gradient = mu * linear_gradient
        hessian = np.zeros((self.shape[0], self.shape[1], self.shape[0], self.shape[1]))
        for j, block in enumerate(blocks):
            hessian[j, :, j, :] = mu * block
        merit += mu * linear
        if self.workspace is not None:
            clearance, slope = self.workspace.clearances_and_gradients(motion[0])
            clearance -= self.guard
            if np.any(clearance <= 0.0):
                return outside
            merit -= mu * float(np.log(clearance).sum())
            scaled = slope / clearance[:, :, None]
            gradient -= mu * (scaled.sum(axis=1).T @ self.basis[0])
            self._add_contracted(hessian, scaled, mu)
        value, bars = self._criterion(motion, smoothing, multipliers)
        learned = self.to_coefficients(bars)
        return Point(x, merit + value, learned.ravel(), (learned + gradient).ravel(), hessian.reshape(size, size))

    def _add_contracted(self, hessian: Array, scaled: Array, mu: float) -> None:
        """Add ``mu sum (B g)(B g)^T`` over clearances: first to one (n, n) matrix per sample, then in x."""
        per_sample = np.matmul(scaled.transpose(0, 2, 1), scaled)
        position = self.basis[0]
        n = self.shape[0]
        for i in range(n):
            for j in range(i + 1):
                block = mu * (position.T @ (per_sample[:, i, j, None] * position))
                hessian[i, :, j, :] += block
                if i != j:
                    hessian[j, :, i, :] += block.T

    def _criterion(
        self, motion: Motion, smoothing: Smoothing, multipliers: Array | None
    ) -> tuple[float, tuple[Array, Array, Array]]:
        W = self.columns.matrix(motion, smoothing.sign_width)
        value, slope = self.criterion.smooth(self._with_prior(W), smoothing.sharpness)
        weights = W @ (2.0 * self.period * slope)
        return value, self.columns.pull_back(motion, weights, smoothing.sign_width, multipliers)

    def _with_prior(self, W: Array) -> Array:
        own = self.period * (W.T @ W)
        return np.asarray(own if self.prior is None else own + self.prior)

    def _torque(self, motion: Motion) -> Array:
        return self.columns.model.inverse_dynamics(*motion)

    def _torque_barrier(self, motion: Motion, mu: float) -> tuple[float, Array | None]:
        """Return the torque limits' part of the merit and its derivative in the torque (N, n)."""
        if self.torque is None:
            return 0.0, None
        share = self._torque(motion) / self.torque  # zero where unlimited
        if np.any(np.abs(share) >= 1.0):
            return np.inf, None
        value = -mu * float(np.log1p(-(share**2)).sum())
        return value, 2.0 * mu * share / (1.0 - share**2) / self.torque
