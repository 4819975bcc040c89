"""Where an arm may be: above a floor, its tool inside a box, its links away from each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.dynamics.base_parameters import random_states
from core.errors import InputError
from core.excitation.workspace_kernels import workspace_clearances
from core.models import SerialChain

Array = NDArray[np.float64]

DEFAULT_THICKNESS = 0.0418
"""Radius of every capsule, as a share of how far the tool gets from the first joint, however the model places the
frames between them: 57 mm for a UR10e, whose tubes measure 58 to 75 mm across their joints and less between them."""

STUBBY = 1.5
"""Links are neighbours when what joins them is shorter in all than so many times the sum of their radii."""

_PROBES = 2000


@dataclass(frozen=True)
class Workspace:
    """Limits on where the links of an arm may be, in its root frame.

    Links are capsules around the line from a joint's frame to where the next joint, or the tool, is mounted.

    Attributes
    ----------
    box : (2, 3) least and largest x, y, z of the tool point in m, infinite = free; None = no box.
    floor : m, height that no part of a moving link may fall below; None = no floor.
    self_collision : m, least distance between the surfaces of links that are not neighbours; None = unchecked.
    radii : (n + 1,) m, of the base and of every link; None = ``DEFAULT_THICKNESS`` of the arm's reach.
    """

    box: Array | None = None
    floor: float | None = None
    self_collision: float | None = None
    radii: Array | None = None

    def __post_init__(self) -> None:
        for name in ("box", "radii"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.array(getattr(self, name), dtype=np.float64))
        if self.box is not None and (self.box.shape != (2, 3) or not np.all(self.box[0] < self.box[1])):
            raise InputError(f"box: expected the least and the largest x, y, z, got {self.box.tolist()}")
        if self.radii is not None and (self.radii.ndim != 1 or not np.all(self.radii >= 0.0)):
            raise InputError("radii: expected one radius of at least 0 m for the base and one per link")
        for name in ("floor", "self_collision"):
            value = getattr(self, name)
            if value is not None and not np.isfinite(value):
                raise InputError(f"{name} must be a finite number of metres, got {value}")
        if self.self_collision is not None and self.self_collision < 0.0:
            raise InputError(f"self_collision must not be negative, got {self.self_collision} m")

    @property
    def limits_anything(self) -> bool:
        return self.box is not None or self.floor is not None or self.self_collision is not None


class WorkspaceCheck:
    """A workspace prepared for one robot.

    Attributes
    ----------
    labels : (C,) what each clearance is, for messages.
    pairs : (P, 2) links whose distance is checked, 0 = base.

    Raises
    ------
    InputError
        There are not as many radii as links and base, or a distance is asked for that links have in no pose.
    """

    def __init__(self, workspace: Workspace, model: SerialChain) -> None:
        n = model.n_joints
        self.model = model
        self.radii = _default_radii(model) if workspace.radii is None else workspace.radii
        if self.radii.shape != (n + 1,):
            raise InputError(f"radii: {model.name} needs {n + 1}, of the base and {n} links, got {self.radii.size}")
        self._floor = np.inf if workspace.floor is None else float(workspace.floor)
        unbounded = np.array([[-np.inf] * 3, [np.inf] * 3])
        self._box = unbounded if workspace.box is None else workspace.box
        self._has_box = bool(np.isfinite(self._box).any())
        self._clearance = workspace.self_collision or 0.0
        self.pairs = np.empty((0, 2), dtype=np.int64)
        if workspace.self_collision is not None:
            self.pairs = self._pairs_that_can_meet()
        names = ("base", *model.joint_names)
        self.labels = (
            *(f"{names[a]} to {names[b]}" for a, b in self.pairs),
            *(f"{name} above the floor" for name in (names[1:] if np.isfinite(self._floor) else ())),
            *(f"tool {axis} {side} the box" for side in ("from below in", "from above in") for axis in "xyz"),
        )[: self.count]
        self._check_possible()

    @property
    def count(self) -> int:
        """Number C of clearances."""
        floor = self.model.n_joints if np.isfinite(self._floor) else 0
        return len(self.pairs) + floor + (6 if self._has_box else 0)

    def clearances(self, q: Array) -> Array:
        """Return (N, C) in m for q (N, n): negative = violated by that much."""
        out = np.empty((len(q), self.count))
        self._fill(q, False, out, np.empty((0, 0, 0)))
        return out

    def clearances_and_gradients(self, q: Array) -> tuple[Array, Array]:
        """Return (N, C) in m and (N, C, n) in m/rad."""
        out = np.empty((len(q), self.count))
        gradient = np.empty((len(q), self.count, self.model.n_joints))
        self._fill(q, True, out, gradient)
        return out, gradient

    def _fill(self, q: Array, with_gradient: bool, out: Array, gradient: Array) -> None:
        q = np.require(q, dtype=np.float64, requirements=("C", "W"))
        workspace_clearances(
            self.model.arrays, q, self.radii, self.pairs, self._floor, self._box, with_gradient, out, gradient
        )
        out[:, : len(self.pairs)] -= self._clearance

    def _pairs_that_can_meet(self) -> NDArray[np.int64]:
        """All pairs except neighbours: those that follow each other, and those that stubby links join.

        Links that stubby ones join stay about as close as they are mounted, whatever the pose, and their capsules
        overlap around the joints: the elbows of a wrist. What matters is the mounting alone, never the distance
        that is asked for.
        """
        n = self.model.n_joints
        length = np.linalg.norm(self.model.placement_translation[1:], axis=1)  # of links 1..n-1
        limits = self.model.limits
        travel = np.maximum(np.abs(limits.position_lower), np.abs(limits.position_upper))
        slide = np.where([kind == "prismatic" for kind in self.model.joint_types], travel, 0.0)
        pairs = []
        for a in range(n + 1):
            for b in range(a + 2, n + 1):
                bridge = length[a : b - 1].sum() + slide[a:b].sum()  # links a+1..b-1, joints a+1..b
                if bridge > STUBBY * (self.radii[a] + self.radii[b]):
                    pairs.append((a, b))
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)

    def _check_possible(self) -> None:
        """Refuse a distance that links do not have in any pose.

        Raises
        ------
        InputError
            ``self-collision-impossible``.
        """
        q = random_states(self.model, _PROBES, seed=0)[0]
        largest = self.clearances(q)[:, : len(self.pairs)].max(axis=0)
        if len(self.pairs) and largest.min() < 0.0:
            pair = int(np.argmin(largest))
            raise InputError(
                f"self_collision: {self._clearance:g} m is more than {self.labels[pair]} can be apart: in none of "
                f"{_PROBES} poses all over the travel of {self.model.name} is it more than "
                f"{self._clearance + largest[pair]:.3f} m; ask for less, or give the radii of the capsules",
                code="self-collision-impossible",
                between=self.labels[pair],
                largest=float(self._clearance + largest[pair]),
            )


def _default_radii(model: SerialChain) -> Array:
    places = model.joint_frames(random_states(model, _PROBES, seed=0)[0])[:, :, :3, 3]
    reach = np.linalg.norm(places[:, -1] - places[:, 0], axis=1).max()
    return np.full(model.n_joints + 1, DEFAULT_THICKNESS * reach)
