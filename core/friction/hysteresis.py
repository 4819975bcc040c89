"""Presliding: friction that builds up with displacement after a reversal, whatever the speed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.errors import InputError
from core.friction.laws import SIGN_WIDTH
from core.friction.term import Shaped, VelocityLaw, link_torque
from core.signals.motion import JointMotion

Array = NDArray[np.float64]

THRESHOLDS: Array = np.geomspace(3e-4, 0.1, 6)
"""rad (m): displacements after which the stops slide."""


@njit(cache=True)
def _play(q: Array, thresholds: Array, states: Array) -> None:
    """Run the stops from ``states[0]``, in units of their thresholds."""
    for i in range(1, q.size):
        step = q[i] - q[i - 1]
        for k in range(thresholds.size):
            moved = states[i - 1, k] + step / thresholds[k]
            states[i, k] = min(max(moved, -1.0), 1.0)


def stop_states(q: Array, direction: float) -> Array:
    """Return the states (N, 6) of Prandtl-Ishlinskii stop operators along positions q (N,), within +-1.

    A stop forgets where it started once the joint has travelled two thresholds in one direction.

    Parameters
    ----------
    direction : of the motion before the first sample, -1..1; 0 where the joint stood: nobody knows what its
        stops hold then, and 0 is the middle of what they can.
    """
    states = np.empty((q.size, THRESHOLDS.size))
    states[0] = direction
    _play(np.ascontiguousarray(q), THRESHOLDS, states)
    return states


@dataclass(frozen=True)
class Hysteresis(Shaped):
    """Six Prandtl-Ishlinskii stop operators in q; their forces end at the thresholds.

    Rate-independent, so sampled motions of any rate fit, and continuous at every reversal. A motion that
    starts while the joint moves finds its stops slid into that direction.

    Attributes
    ----------
    load_scaled : besides the constant forces, others that are proportional to ``|link torque|``; None where
        a specification leaves it open.
    """

    load_scaled: bool | None = None

    name: ClassVar[str] = "hysteresis"

    @property
    def options(self) -> tuple[str, ...]:
        return {None: (), True: ("load",), False: ("plain",)}[self.load_scaled]

    @classmethod
    def from_options(cls, words: tuple[str, ...], shapes: dict[str, float]) -> Self:
        cls.checked(shapes)
        if words not in {(), ("load",), ("plain",)}:
            raise InputError(f"hysteresis takes load or plain, not {', '.join(words)}", code="friction-invalid")
        return cls({(): None, ("load",): True, ("plain",): False}[words])

    @property
    def needs_load(self) -> bool:
        return bool(self.load_scaled)

    def parameter_names(self, law: VelocityLaw) -> tuple[str, ...]:
        stops = range(1, THRESHOLDS.size + 1)
        plain = tuple(f"h{k}_" for k in stops)
        return (*plain, *(f"hl{k}_" for k in stops)) if self.load_scaled else plain

    def nonnegative(self, law: VelocityLaw) -> tuple[str, ...]:
        return ()

    def columns(self, motion: JointMotion, joint: int, law: VelocityLaw, *, sign_width: float) -> Array:
        direction = float(np.tanh(motion.qd[0, joint] / SIGN_WIDTH))
        return self._scaled(stop_states(motion.q[:, joint], direction), motion, joint)

    def sliding(self, motion: JointMotion, joint: int, law: VelocityLaw, qd: Array) -> Array:
        slid = np.sign(qd)[:, None] * np.ones(THRESHOLDS.size)
        return self._scaled(slid, motion, joint)

    def unloaded(self) -> Self:
        return replace(self, load_scaled=False)

    def _scaled(self, states: Array, motion: JointMotion, joint: int) -> Array:
        if not self.load_scaled:
            return states
        return np.hstack([states, states * np.abs(link_torque(motion, joint))[:, None]])
