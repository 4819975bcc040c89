"""Limits that are not linear in a trajectory's coefficients: predicted torque, workspace, whatever a robot adds.

All of them are margins (N, C) of a motion, positive inside, that depend on the samples one by one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.excitation.trajectory import Motion
from core.excitation.workspace import WorkspaceCheck

Array = NDArray[np.float64]
Gradients = tuple[Array | None, Array | None, Array | None]
"""Of margins (N, C) in q, qd and qdd: each (N, C, n), or None where the margins do not depend on it."""

GUARD = 0.004
"""m that a search keeps off on its coarse grid, for what happens between grid points."""

TORQUE_GUARD = 0.005
"""The same for predicted torque, as a share of its limit."""


@dataclass(frozen=True)
class Shortfall:
    """A violated limit: for a person, how much in SI units, and what names it in the context of an error."""

    text: str
    excess: float
    context: dict[str, Any]


class NonlinearLimits(ABC):
    """A group of limits of one kind.

    Attributes
    ----------
    kind : for the context of errors.
    labels : (C,) what each limit is, for messages.
    guard : (C,) margins to keep on a coarse grid.
    """

    kind: ClassVar[str]
    labels: tuple[str, ...]
    guard: Array

    @abstractmethod
    def margins(self, motion: Motion) -> Array:
        """Return (N, C), above zero inside the limits."""

    @abstractmethod
    def pull_back(self, motion: Motion, multipliers: Array) -> Motion:
        """Return the derivatives of ``sum multipliers * margins`` in q, qd, qdd, each (N, n)."""

    def gradients(self, motion: Motion) -> Gradients | None:
        """Return the gradients of all margins, from which an optimiser takes the curvature of a barrier.

        None where they cost too much: then it learns that curvature along with the criterion's.
        """
        return None

    @abstractmethod
    def shortfall(self, column: int, margin: float) -> Shortfall:
        """Say which limit a margin below 0 violates, and by how much."""


class WorkspaceLimits(NonlinearLimits):
    """Floor, box and self-collision of an arm; margins in m.

    Parameters
    ----------
    check : the workspace, prepared for the robot.
    poses : (K, n) that are given: half of what they leave is kept where that is less than ``GUARD``.
    """

    kind = "workspace"

    def __init__(self, check: WorkspaceCheck, poses: Array) -> None:
        self._check = check
        self.labels = check.labels
        self.guard = np.clip(0.5 * check.clearances(poses).min(axis=0), 0.0, GUARD)

    def margins(self, motion: Motion) -> Array:
        return self._check.clearances(motion[0])

    def pull_back(self, motion: Motion, multipliers: Array) -> Motion:
        slope = self._check.clearances_and_gradients(motion[0])[1]
        still = np.zeros_like(motion[0])
        return np.einsum("kc,kcj->kj", multipliers, slope), still, still

    def gradients(self, motion: Motion) -> Gradients:
        return self._check.clearances_and_gradients(motion[0])[1], None, None

    def shortfall(self, column: int, margin: float) -> Shortfall:
        missing, label = max(-margin, 0.0), self.labels[column]
        return Shortfall(f"{label}, {1e3 * missing:.3g} mm too little", missing, {"between": label})


class TorqueLimits(NonlinearLimits):
    """Predicted torques within ``limit`` (r,), either way; margins are shares of it, 1 where it is infinite.

    Parameters
    ----------
    torque : motion -> torques (N, r).
    pull_back : (motion, multipliers (N, r)) -> derivatives of ``sum multipliers * torque`` in q, qd, qdd.
    names, units : (r,) for messages.
    poses : (K, n) that are given, at rest.
    """

    kind = "torque"

    def __init__(
        self,
        torque: Callable[[Motion], Array],
        pull_back: Callable[[Motion, Array], Motion],
        limit: Array,
        names: tuple[str, ...],
        units: tuple[str, ...],
        poses: Array,
    ) -> None:
        self._torque, self._torque_pull_back = torque, pull_back
        self._limit, self._units = limit, units
        self.labels = 2 * tuple(f"predicted torque of joint {j} ({name})" for j, name in enumerate(names, 1))
        still = np.zeros_like(poses)
        self.guard = np.clip(0.5 * self.margins((poses, still, still)).min(axis=0), 0.0, TORQUE_GUARD)

    def margins(self, motion: Motion) -> Array:
        share = self._torque(motion) / self._limit
        return np.hstack([1.0 - share, 1.0 + share])

    def pull_back(self, motion: Motion, multipliers: Array) -> Motion:
        upper, lower = np.split(multipliers, 2, axis=1)
        return self._torque_pull_back(motion, (lower - upper) / self._limit)

    def shortfall(self, column: int, margin: float) -> Shortfall:
        joint = column % self._limit.size
        excess = max(-margin, 0.0) * float(self._limit[joint])
        text = f"{self.labels[column]}, {excess:.4g} {self._units[joint]} more than its limit"
        return Shortfall(text, excess, {"joint": joint + 1})
