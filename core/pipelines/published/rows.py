"""What published methods work on: filtered rows of all training data in memory, and what is to be done with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.dynamics.base_parameters import reduce_to_base
from core.errors import InputError
from core.friction import FrictionModel, JointFriction
from core.models import Mechanism
from core.pipelines.effort import choose_effort
from core.pipelines.estimation import Progress, TrainingData
from core.pipelines.friction_shapes import FrictionData
from core.pipelines.torque_model import TorqueModel
from core.pipelines.training import check_motion, for_joints_of, training_data
from core.recordings.recording import Recording
from core.signals import SignalSettings

Array = NDArray[np.float64]

MOVING = 0.02
"""rad/s (m/s); a joint faster than this moves."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of all training data, filtered like the torque and thinned to what filtered torque has to say.

    Attributes
    ----------
    model : rigid body; its friction plays no part.
    rigid : (N, n, b) base regressor.
    effort : (N, n).
    q, qd : (N, n) rad, rad/s (m, m/s), of the rows.
    data : what they were made from.
    """

    model: TorqueModel
    rigid: Array
    effort: Array
    q: Array
    qd: Array
    data: TrainingData
    _friction: FrictionData
    _kept: dict[tuple[JointFriction, int], Array] = field(default_factory=dict)

    @classmethod
    def of(cls, model: TorqueModel, data: TrainingData) -> Rows:
        kept = FrictionData(model.chain, model.base, data.segments)
        at = _places(kept)
        stacked = np.stack([np.vstack([kept.fixed(a, j) for a in at]) for j in range(model.chain.n_joints)], axis=1)
        motions = [(kept.segment(a).motion, kept.segment(a).rows) for a in at]
        q = np.vstack([motion.q[rows] for motion, rows in motions])
        qd = np.vstack([motion.qd[rows] for motion, rows in motions])
        return cls(model, stacked[:, :, :-1], np.ascontiguousarray(stacked[:, :, -1]), q, qd, data, kept)

    @property
    def n_joints(self) -> int:
        return int(self.effort.shape[1])

    def friction(self, friction: JointFriction, j: int) -> Array:
        """Return the filtered columns (N, k) of one joint's friction, kept for the next time."""
        if (friction, j) not in self._kept:
            self._kept[friction, j] = self.tried(friction, j)
        return self._kept[friction, j]

    def tried(self, friction: JointFriction, j: int) -> Array:
        """Return the same, not to be kept: shapes that a search passes by do not come again."""
        own, at = self._friction, _places(self._friction)

        def part(i: int) -> Array:
            return np.vstack([own.columns(a, own.segment(a).motion, friction, j, i) for a in at])

        return np.hstack([part(i) for i in range(len(friction.parts))])

    def regressor(self, friction: FrictionModel) -> Array:
        """Return the columns (N, n, p) of base parameters, then friction joint by joint."""
        own = [self.friction(joint, j) for j, joint in enumerate(friction.joints)]
        columns = np.zeros((*self.effort.shape, self.rigid.shape[2] + sum(block.shape[1] for block in own)))
        columns[:, :, : self.rigid.shape[2]] = self.rigid
        start = self.rigid.shape[2]
        for j, block in enumerate(own):
            columns[:, j, start : start + block.shape[1]] = block
            start += block.shape[1]
        return columns


def rows_of(
    model: Mechanism,
    train: Sequence[Recording],
    gains: ArrayLike | str | None,
    settings: SignalSettings,
    progress: Progress | None,
) -> Rows:
    """Return the rows of recordings, prepared the way ``core.pipelines.identify`` prepares them; errors as there."""
    if not train:
        raise InputError("there is no recording to estimate from", code="recordings-missing")
    recordings = [for_joints_of(model, recording) for recording in train]
    rigid = TorqueModel(model, reduce_to_base(model), FrictionModel(()))
    effort = choose_effort(model, recordings, gains)
    data, _, _ = training_data(rigid, recordings, effort, settings, "auto", MOVING, progress)
    check_motion(data.all_segments, model, MOVING)
    return Rows.of(rigid, data)


def _places(data: FrictionData) -> list[tuple[int, int]]:
    return [(i, k) for i, segments in enumerate(data.segments) for k in range(len(segments))]
