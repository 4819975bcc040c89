"""How far the torque of exported standard parameters is from that of the parameters that were identified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.dynamics.base_parameters import random_states
from core.errors import InputError
from core.models import SerialChain
from core.pipelines.identification import Identification

Array = NDArray[np.float64]

STATES = 500
_SEED = 1
_SHARE_OF_TORQUE = 1e-3
"""Where the residual is smaller still, this share of the joint's torque is no deviation to speak of."""


@dataclass(frozen=True, eq=False)
class TorqueDeviation:
    """Torque without friction over random states, exported less identified.

    Attributes
    ----------
    rms, largest : (n,) of each joint, in ``unit``.
    allowed : (n,) RMS that may pass unasked: the residual of the joint, as what was identified is not better known
        than that, or 0.1 % of its torque.
    unit : N·m, N, or both for mixed joints.
    """

    rms: Array
    largest: Array
    allowed: Array
    unit: str

    @property
    def note(self) -> str:
        """What a reader of the exported file should know."""
        if np.all(self.rms <= 1e-6 * self.allowed):
            return f"torque without friction is exactly as identified ({STATES} random states)"
        return (
            f"torque without friction differs from what was identified, over {STATES} random states, by "
            f"{_row(self.rms)} {self.unit} RMS and at most {_row(self.largest)} {self.unit}, joint by joint"
        )

    def check(self, allowed: float | None) -> None:
        """Refuse a deviation beyond what may pass unasked, or beyond what was explicitly allowed.

        Raises
        ------
        InputError
            ``deviation-too-large``; the context has the figures of each joint.
        """
        limit = self.allowed if allowed is None else np.full_like(self.allowed, allowed)
        over = np.flatnonzero(self.rms > limit)
        if over.size:
            worst = int(over[np.argmax(self.rms[over] / limit[over])])
            raise InputError(
                f"the identified parameters are not those of bodies, and the nearest that are differ in torque: joint "
                f"{worst + 1} by {self.rms[worst]:.3g} {self.unit} RMS, where {limit[worst]:.3g} may pass. Identify "
                f"with the estimator 'consistent', which is exact, or allow a deviation of "
                f"{1.01 * self.rms.max():.3g} {self.unit}",
                code="deviation-too-large",
                rms=self.rms.tolist(),
                largest=self.largest.tolist(),
                allowed=limit.tolist(),
            )


def torque_deviation(identification: Identification, chain: SerialChain) -> TorqueDeviation:
    """Return how far the torque of a chain is from that of the identified base parameters.

    States fill the joints' travel, with rates of +-2 rad/s and accelerations of +-5 rad/s^2 (m/s, m/s^2).
    """
    states = random_states(chain, STATES, _SEED)
    base = identification.base
    identified = base.columns(chain.regressor(*states)) @ identification.parameters_[: base.count]
    difference = chain.inverse_dynamics(*states) - identified
    typical = np.sqrt(np.mean(identified**2, axis=0))
    return TorqueDeviation(
        rms=np.sqrt(np.mean(difference**2, axis=0)),
        largest=np.abs(difference).max(axis=0),
        allowed=np.maximum(identification.residual_std_, _SHARE_OF_TORQUE * typical),
        unit=identification.unit,
    )


def _row(values: Array) -> str:
    return " ".join(f"{value:.3g}" for value in values.tolist())
