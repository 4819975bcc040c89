"""Arctan friction, all parameters at once by an artificial bee colony or by variable projection (source C).

Repeated periods are averaged, position is refitted by a Fourier series, torque passes the five-point cubic smoother.
The colony searches the m + 5 n parameters for the least RMS residual of all joints together. It moves one coordinate at
a time, which gets nowhere along parameters that only act together; so coordinates are those in which the linear
parameters act independently (the R factor of the regressor with nominal f4), around the least-squares estimate with
Coulomb and viscous friction. ``coordinates = "plain"`` searches the parameters themselves.

Variable projection eliminates what is linear and searches only f4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.estimators import Observations, OrdinaryLeastSquares
from core.estimators.bee_colony import BeeColony
from core.estimators.joint_factors import r_factor
from core.friction import FrictionModel, friction_model
from core.pipelines.identify import PLAIN_FRICTION
from core.pipelines.published.method import Method, Task
from core.pipelines.published.result import PublishedResult
from core.pipelines.published.rows import Rows, rows_of
from core.signals import SignalSettings

Array = NDArray[np.float64]

LAW = "arctan"
_F4 = f"{LAW}.f4"
_REACH = 1.0
"""How far the colony looks around least squares, in RMS residuals that a coordinate's change makes of the torque:
independent coordinates need not make more than the whole of what least squares leaves."""


def repeated(period: float, **changes: Any) -> SignalSettings:
    """Return the signal processing of the source for an excitation that repeats every ``period`` s."""
    own: dict[str, Any] = {
        "period": period,
        "periods": "averaged",
        "kinematics": "fourier",
        "fourier_order": 5,
        "torque_filter": "five_point_cubic",
        "smoothing_passes": 100,
    }
    return SignalSettings(**(own | changes))


@dataclass(frozen=True)
class AbcArctan(Method):
    """Attributes, besides ``signals`` (of repeated periods: ``repeated``; 25 s is the source's).

    search : ``bee_colony`` as published, or ``variable_projection``.
    colony : NP, limit and G.
    coordinates : of the colony, ``independent`` or ``plain``.
    """

    signals: SignalSettings = field(default_factory=lambda: repeated(25.0))
    search: Literal["bee_colony", "variable_projection"] = "bee_colony"
    colony: BeeColony = field(default_factory=BeeColony)
    coordinates: Literal["independent", "plain"] = "independent"

    name = "abc_arctan"
    source = "arctan friction by an artificial bee colony, three joints (methods, section 4)"

    def run(self, task: Task) -> PublishedResult:
        if self.search not in ("bee_colony", "variable_projection"):
            raise InputError(f"{self.name}: search must be bee_colony or variable_projection, got {self.search!r}")
        if self.coordinates not in ("independent", "plain"):
            raise InputError(f"{self.name}: coordinates must be independent or plain, got {self.coordinates!r}")
        if self.search == "variable_projection":
            found = self.signed(task.identified(self.signals, LAW, "ols"), {})
            return PublishedResult(self.name, found, None, {})
        rows = rows_of(task.model, task.train, task.gains, self.signals, task.progress)
        friction, parameters, account = self.foraged(rows, np.random.default_rng(task.random_state))
        return PublishedResult(self.name, self.settled(task, friction, parameters, account), None, account)

    def foraged(self, rows: Rows, random: np.random.Generator) -> tuple[FrictionModel, Array, dict[str, Any]]:
        """Return what the colony finds: friction with its f4, the linear parameters (p,), and an account."""
        n, law = rows.n_joints, friction_model(LAW, 1).joints[0]
        shape = law.free[_F4]
        bounds = np.log([shape.bounds(max(float(np.abs(rows.qd[:, j]).max()), 1e-3)) for j in range(n)])
        start, deviation, per_coordinate = self._linear_box(rows, np.exp(bounds.mean(axis=1)))
        reach = np.full(start.size, _REACH * deviation)

        def taken_apart(x: Array) -> tuple[FrictionModel, Array]:
            f4 = np.exp(x[start.size :])
            shaped = FrictionModel(tuple(law.with_shapes({_F4: float(value)}) for value in f4))
            return shaped, start + per_coordinate @ x[: start.size]

        cost = _total_residual(rows, taken_apart)
        lower, upper = np.concatenate([-reach, bounds[:, 0]]), np.concatenate([reach, bounds[:, 1]])
        found = self.colony.minimise(cost, lower, upper, random)
        account = {
            "total_rms": found.cost,
            "evaluations": found.evaluations,
            "history": [float(value) for value in found.history],
        }
        return *taken_apart(found.best), account

    def _linear_box(self, rows: Rows, f4: Array) -> tuple[Array, float, Array]:
        """Return where to look for the linear parameters: a centre (p,), the residual there (RMS, one joint), and
        what parameters (p, p) change with each coordinate, scaled so that one unit makes one unit of torque (RMS)."""
        n, base = rows.n_joints, rows.rigid.shape[2]
        plain = OrdinaryLeastSquares().fit_observations(
            Observations.of(rows.regressor(friction_model(PLAIN_FRICTION, n)), rows.effort)
        )
        own = plain.coef_[base:].reshape(n, 3)
        beside = np.column_stack([own[:, :2], np.zeros(n), own[:, 2]])  # f1, f2, f3, f0
        start = np.concatenate([plain.coef_[:base], beside.ravel()])
        shaped = FrictionModel(tuple(friction_model(f"{LAW}(f4={value!r})", 1).joints[0] for value in f4.tolist()))
        matrix = rows.regressor(shaped).reshape(-1, start.size)
        size = np.linalg.norm(matrix, axis=0) / len(matrix) ** 0.5
        if self.coordinates == "plain":
            return start, float(np.linalg.norm(plain.residual_std_)), np.diag(1.0 / size)
        triangle = r_factor(matrix / size) / len(matrix) ** 0.5
        return start, float(np.linalg.norm(plain.residual_std_)), np.linalg.inv(triangle) / size[:, None]


def _total_residual(
    rows: Rows, taken_apart: Callable[[Array], tuple[FrictionModel, Array]]
) -> Callable[[Array], float]:
    """Return the RMS over samples of the residual of all joints together, as a function of a point."""
    base = rows.rigid.shape[2]

    def cost(x: Array) -> float:
        friction, parameters = taken_apart(x)
        own = parameters[base:].reshape(rows.n_joints, -1)
        left = rows.effort - rows.rigid @ parameters[:base]
        for j, (joint, values) in enumerate(zip(friction.joints, own, strict=True)):
            left[:, j] -= rows.tried(joint, j) @ values
        return float(np.sqrt(np.sum(left**2) / len(left)))

    return cost
