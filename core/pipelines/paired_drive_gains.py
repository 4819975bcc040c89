"""Drive gains from runs with and without a payload that is known, at least by its mass.

Without a load only ratios of gains can be told: twice the gain is twice the arm. A known mass sets the scale
(Gautier and Briot 2014). The current of joint j in units of its nominal gain is

    tau_j = c_j (W_j phi + P_j pi) + F_j f_j,    c_j = nominal gain / gain

with the arm's base parameters phi, what is not known of the payload's ten parameters pi, and friction f. It
is linear for given c, so only the n factors c are searched for, on R factors. Noise is in the current alone,
which stands on the left: nothing is biased by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from core.errors import IdentificationError, InputError
from core.estimators import Block, JointFactors, Observations, WeightedLeastSquares, coloured_covariance
from core.models.chain import INERTIAL_NAMES
from core.pipelines.identification import Identification
from core.pipelines.payload import PayloadRuns
from core.recordings.recording import Recording

Array = NDArray[np.float64]

_WIDEST = np.log(5.0)
"""Gains are looked for up to this factor from the nominal ones."""


@dataclass(frozen=True, eq=False)
class PairedDriveGains:
    """Drive gains of n joints from a known payload.

    Attributes
    ----------
    values, std : (n,) N·m/A (N/A), and their standard deviations, residuals coloured; what the model itself
        gets wrong, above all friction that changes with the load, is not in them.
    payload : (10,) parameters of the payload, the known ones as given.
    covariance_kind : how the standard deviations were found.
    """

    values: Array
    std: Array
    payload: Array
    covariance_kind: str


def from_paired_runs(
    arm: Identification, loaded: Sequence[Recording], unloaded: Sequence[Recording], payload: Mapping[str, float]
) -> PairedDriveGains:
    """Estimate drive gains.

    Parameters
    ----------
    arm : identified without the payload with nominal gains, as good as they are known; its friction's shapes
        are kept.
    loaded, unloaded : runs with and without the payload, best of one motion.
    payload : what is known of it by name, ``m`` at least, in the last joint frame.

    Raises
    ------
    InputError
        The mass is missing, a name is unknown, or there are no runs of both kinds.
    IdentificationError
        The arm is not identified from currents with gains, or the payload shows in no joint.
    """
    unknown = set(payload) - set(INERTIAL_NAMES)
    if unknown or "m" not in payload or not payload["m"] > 0.0:
        raise InputError(f"a known payload needs its mass m, and may have {', '.join(INERTIAL_NAMES[1:])}")
    if not (loaded and unloaded):
        raise InputError("drive gains need runs both with and without the payload", code="recordings-missing")
    if arm.effort.gains is None or arm.effort.signal != "current":
        raise IdentificationError(
            "drive gains need an arm that was identified from currents with nominal gains", code="gains-undetermined"
        )
    problem = _Problem(arm, PayloadRuns(arm, loaded, unloaded), payload)
    factors = problem.solve()
    linear, std, kind = problem.uncertainty(factors)
    nominal = arm.effort.gains
    return PairedDriveGains(
        values=nominal / factors,
        std=nominal / factors**2 * std,
        payload=problem.complete(linear),
        covariance_kind=kind,
    )


class _Problem:
    def __init__(self, arm: Identification, runs: PayloadRuns, payload: Mapping[str, float]) -> None:
        self._base, self._arm_size = arm.base.count, len(arm.names)
        self._n = arm.model.n_joints
        names = [INERTIAL_NAMES[i] for i in runs.visible.independent]
        self._visible = runs.visible.independent
        self._given = np.array([payload.get(name, 0.0) for name in names])
        self._free = np.array([i for i, name in enumerate(names) if name not in payload], dtype=np.intp)
        self._observations = runs.observations(np.append(arm.parameters_, self._given))
        self._factors: JointFactors = self._observations.factors
        start = WeightedLeastSquares().fit_factors(self._factors, self._observations.names)
        self._weights = start.weights_

    def solve(self) -> Array:
        """Return the factors c (n,)."""
        found = least_squares(
            self._unexplained,
            np.zeros(self._n),
            bounds=(-_WIDEST, _WIDEST),
            x_scale=0.1,
        )
        if np.any(np.abs(found.x) > 0.999 * _WIDEST):
            joint = int(np.argmax(np.abs(found.x))) + 1
            raise IdentificationError(
                f"the payload does not tell the drive gain of joint {joint}; move it so that it loads all joints",
                code="gains-undetermined",
                joint=joint,
            )
        return np.asarray(np.exp(found.x))

    def complete(self, linear: Array) -> Array:
        """Return the ten payload parameters."""
        values = self._given.copy()
        values[self._free] = linear[self._arm_size :]
        result = np.zeros(10)
        result[self._visible] = values
        return result

    def uncertainty(self, factors: Array) -> tuple[Array, Array, str]:
        """Return the linear unknowns, the standard deviations (n,) of the factors, and of which kind they are."""
        matrix, rest = self._scaled(factors)
        linear = np.asarray(np.linalg.lstsq(matrix, rest, rcond=None)[0])
        pi = self._given.copy()
        pi[self._free] = linear[self._arm_size :]
        rigid = np.concatenate([linear[: self._base], np.zeros(self._arm_size - self._base), pi])

        given = np.concatenate([np.zeros(self._arm_size), self._given])
        given[self._arm_size + self._free] = 0.0

        def rows() -> Iterator[Block]:
            """Linear at the solution: the linear unknowns, then increments of c."""
            for columns, effort, motion in self._observations.blocks():
                slopes = (columns @ rigid)[:, :, None] * np.eye(self._n)
                scaled = self._with_factors(columns, factors[:, None])
                yield Block(np.concatenate([scaled, slopes], axis=2), effort - factors * (columns @ given), motion)

        names = [*(f"x{i}" for i in range(linear.size)), *(f"c{j + 1}" for j in range(self._n))]
        observations = Observations(names, self._n, rows)
        fitted = WeightedLeastSquares().fit_observations(observations)
        covariance = coloured_covariance(fitted, observations)
        return linear, np.asarray(np.sqrt(np.diag(covariance.matrix)[-self._n :])), covariance.kind

    def _with_factors(self, columns: Array, factors: Array) -> Array:
        """Return the columns of the linear unknowns, those of bodies times c; factors broadcast to (..., 1)."""
        free = self._arm_size + self._free
        bodies, friction = columns[..., : self._base] * factors, columns[..., self._base : self._arm_size]
        return np.concatenate([bodies, friction, columns[..., free] * factors], axis=-1)

    def _scaled(self, factors: Array) -> tuple[Array, Array]:
        """Return matrix and right-hand side of the linear unknowns for factors c."""
        matrices, sides = [], []
        given = self._given.copy()
        given[self._free] = 0.0
        for j, (c, weight) in enumerate(zip(factors, self._weights, strict=True)):
            rows, effort = self._factors.of_joint(j)
            matrices.append(self._with_factors(rows, np.full((len(rows), 1), c)) * weight)
            sides.append((effort - c * (rows[:, self._arm_size :] @ given)) * weight)
        return np.concatenate(matrices), np.concatenate(sides)

    def _unexplained(self, logarithms: Array) -> Array:
        """Return the residual of the linear unknowns' best values for factors c, given by their logarithms."""
        matrix, rest = self._scaled(np.exp(logarithms))
        orthogonal, _ = np.linalg.qr(matrix / np.maximum(np.linalg.norm(matrix, axis=0), 1e-300))
        return np.asarray(rest - orthogonal @ (orthogonal.T @ rest))
