"""Joint torque as a linear function of base and friction parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from core.dynamics.base_parameters import BaseParameters
from core.errors import InputError
from core.friction import FrictionModel
from core.models import Mechanism
from core.pipelines.torque_slopes import ShapeNames, TorqueSlopes, torque_slopes
from core.signals import Segment
from core.signals.motion import JointMotion

Array = NDArray[np.float64]

_BLOCK = 2048
"""Samples handled at once: a regressor of 2048 samples of a six-joint robot takes 6 MB."""
_NEGLIGIBLE = 1e-10
"""What is left of a filter's transient where blocks of a filtered regressor meet."""


@dataclass(frozen=True)
class TorqueModel:
    """What torque depends on: rigid body and rotors through base parameters, friction through its own.

    Attributes
    ----------
    chain : geometry and gravity; its inertial parameters play no part.
    base : the base parameters of ``chain``.
    friction : of every joint.
    """

    chain: Mechanism
    base: BaseParameters
    friction: FrictionModel

    @property
    def names(self) -> tuple[str, ...]:
        """Names (p,) of all parameters: base first, then friction."""
        return self.base.base_names + self.friction.names

    @property
    def nonnegative(self) -> tuple[int, ...]:
        """Indices of the parameters that physics forbids to be negative."""
        start, forbidden = self.base.count, set(self.friction.nonnegative)
        return tuple(start + i for i, name in enumerate(self.friction.names) if name in forbidden)

    def torque(self, motion: JointMotion, parameters: Array, *, smooth: bool = False) -> Array:
        """Return torques (N, n) for parameters (p,) in the order of ``names``; ``smooth`` without jumps."""
        if np.shape(parameters) != (len(self.names),):
            raise InputError(f"parameters have shape {np.shape(parameters)}, expected ({len(self.names)},)")
        rigid = self.link_torque(motion, parameters[: self.base.count])
        loaded = replace(motion, link_torque=rigid)
        return rigid + self.friction.torque(loaded, parameters[self.base.count :], smooth=smooth)

    def torque_std(self, motion: JointMotion, parameters: Array, covariance: Array, shapes: ShapeNames) -> Array:
        """Return the standard deviation (N, n) of ``torque`` that a covariance (p + s, p + s) brings.

        It is that of the parameters, then of the logarithms of fitted shapes.
        """
        loaded = self.loaded(motion, parameters[: self.base.count])
        friction = self.friction.columns(loaded)
        slopes = self.slopes(loaded, parameters, shapes)
        parts = [self._columns(loaded, part, friction, slopes) for part in _blocks(0, motion.n_samples)]
        return np.concatenate([np.sqrt(np.einsum("kjp,kjp->kj", part @ covariance, part)) for part in parts])

    def slopes(self, motion: JointMotion, parameters: Array, shapes: ShapeNames) -> TorqueSlopes | None:
        """Return the slopes in what torque is not linear in, along a motion that is ``loaded``; None for nothing."""
        if not self.friction.needs_load and not any(shapes):
            return None
        return torque_slopes(self.friction, parameters[self.base.count :], motion, shapes)

    def link_torque(self, motion: JointMotion, base_parameters: Array) -> Array:
        """Return the torques (N, n) of the rigid body alone, for base parameters (b,)."""
        standard = np.zeros(self.chain.n_parameters)
        standard[self.base.independent] = base_parameters  # the others are regrouped into these: zero will do
        states = self.chain.from_joints(motion.q, motion.qd, motion.qdd)
        return self.chain.inverse_dynamics(*states, parameters=standard)

    def predict(self, segment: Segment, parameters: Array) -> Array:
        """Return torques (n_rows, n) of a segment's rows, filtered like the measured ones."""
        return segment.low_pass.apply(self.torque(segment.motion, parameters))[segment.rows]

    def bracket(self, segment: Segment, parameters: Array) -> tuple[Array, Array]:
        """Return the least and the largest torque (n_rows, n) at which a standing joint stays where it is.

        Friction holds a joint against any torque between; which one is a matter of its past.
        """
        rigid = self.link_torque(segment.motion, parameters[: self.base.count])
        loaded = replace(segment.motion, link_torque=rigid)
        ends = self.friction.bracket(loaded, parameters[self.base.count :])
        lower, upper = (segment.low_pass.apply(rigid + end)[segment.rows] for end in ends)
        return lower, upper

    def rigid_rows(self, segment: Segment) -> Array:
        """Return the filtered base regressor (n_rows, n, b) of a segment's rows."""
        rigid = TorqueModel(self.chain, self.base, FrictionModel(()))
        return np.concatenate([columns for columns, _ in rigid.observations(segment)])

    def linearised(self, segment: Segment, parameters: Array, shapes: ShapeNames) -> Iterator[tuple[Array, Array]]:
        """Yield what ``observations`` does with columns (m, n, p + s), the slopes in fitted shapes included."""
        loaded = self.loaded(segment.motion, parameters[: self.base.count])
        yield from self._rows(segment, loaded, self.slopes(loaded, parameters, shapes))

    def observations(self, segment: Segment, base_parameters: Array | None = None) -> Iterator[tuple[Array, Array]]:
        """Yield the filtered regressor (m, n, p) and torque (m, n) of a segment's rows, block by block.

        Friction that grows with the load needs ``base_parameters`` (b,) to know the load from.
        """
        yield from self._rows(segment, self.loaded(segment.motion, base_parameters), None)

    def _rows(
        self, segment: Segment, loaded: JointMotion, slopes: TorqueSlopes | None
    ) -> Iterator[tuple[Array, Array]]:
        """Yield filtered columns and torque, block by block.

        The regressor of a block is filtered together with as many samples on both sides as transients last,
        so that the result is that of filtering the whole segment at once.
        """
        motion, low_pass = segment.motion, segment.low_pass
        friction = self.friction.columns(loaded) if self.friction.joints else ()
        halo = low_pass.settling(_NEGLIGIBLE)
        first, stop, step = segment.rows.indices(motion.n_samples)
        for part in _blocks(first, stop, step):
            around = slice(max(0, part.start - halo), min(motion.n_samples, part.stop + halo))
            raw = self._columns(motion, around, friction, slopes)
            filtered = _filter_nonzero(raw, segment)
            rows = slice(part.start - around.start, part.stop - around.start, step)
            yield filtered[rows], segment.effort[part.start : part.stop : step]

    def loaded(self, motion: JointMotion, base_parameters: Array | None) -> JointMotion:
        """Return the motion with its link torque, where friction depends on it and it is known."""
        if base_parameters is None or not self.friction.needs_load:
            return motion
        return replace(motion, link_torque=self.link_torque(motion, base_parameters))

    def _rigid_columns(self, motion: JointMotion, part: slice) -> Array:
        states = self.chain.from_joints(motion.q[part], motion.qd[part], motion.qdd[part])
        return self.base.columns(self.chain.regressor(*states))

    def _columns(
        self, motion: JointMotion, part: slice, friction: tuple[Array, ...], slopes: TorqueSlopes | None
    ) -> Array:
        rigid = self._rigid_columns(motion, part)
        columns = np.zeros((len(rigid), motion.n_joints, len(self.names)))
        columns[:, :, : self.base.count] = rigid
        start = self.base.count
        for j, own in enumerate(friction):
            columns[:, j, start : start + own.shape[1]] = own[part]
            start += own.shape[1]
        return columns if slopes is None else slopes.extended(columns, self.base.count, part)


def _blocks(first: int, stop: int, step: int = 1) -> Iterator[slice]:
    length = _BLOCK - _BLOCK % step if step < _BLOCK else step
    for start in range(first, stop, length):
        yield slice(start, min(start + length, stop))


def _filter_nonzero(columns: Array, segment: Segment) -> Array:
    """Filter the columns that are not zero throughout: joint j feels only links beyond it."""
    flat = columns.reshape(len(columns), -1)
    used = np.flatnonzero(flat.any(axis=0))
    flat[:, used] = segment.low_pass.apply(flat[:, used])
    return columns
