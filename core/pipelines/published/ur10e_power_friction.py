"""Friction whose viscous part is a power of the speed, its exponent found beside least squares (source B).

Least squares with exponents of one begins; then in turns each joint's (fc, fv, b, alpha) is fitted to torque less rigid
body by an interior-point method, which keeps positive what physics says is, and least squares finds all linear
parameters for the new exponents, until those settle. ``search = "variable_projection"`` leaves that to the
identification core, which reaches the same optimum without alternating.

Source: the UR10e patent of the methods, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from core.errors import IdentificationError, InputError
from core.estimators import Observations, make_estimator
from core.friction import FrictionModel, JointFriction, friction_model
from core.pipelines.published.method import Method, Task
from core.pipelines.published.result import PublishedResult
from core.pipelines.published.rows import Rows, rows_of
from core.signals import SignalSettings

Array = NDArray[np.float64]

LAW = "power_viscous"
_ALPHA = f"{LAW}.alpha"
_STEP = 1e-4
"""Of alpha, for the derivative by difference: columns are filtered, so there is no closed form of it."""


@dataclass(frozen=True)
class Ur10ePowerFriction(Method):
    """Attributes, besides ``signals``.

    estimator : of the linear parameters.
    search : ``alternating``, least squares and interior point in turns, or ``variable_projection``.
    tolerance : change of every alpha at which they count as settled.
    max_alternations : IdentificationError after as many.
    """

    signals: SignalSettings = field(default_factory=lambda: SignalSettings(velocity="differentiated"))
    estimator: str = "ols"
    search: Literal["alternating", "variable_projection"] = "alternating"
    tolerance: float = 1e-3
    max_alternations: int = 100

    name = "ur10e_power_friction"
    source = "UR10e identification with power-law viscous friction (patent)"

    def run(self, task: Task) -> PublishedResult:
        if self.search not in ("alternating", "variable_projection"):
            raise InputError(f"{self.name}: search must be alternating or variable_projection, got {self.search!r}")
        friction: str | FrictionModel = LAW
        account: dict[str, Any] = {}
        if self.search == "alternating":
            friction, account = self._alternated(
                rows_of(task.model, task.train, task.gains, self.signals, task.progress)
            )
        found = task.identified(self.signals, friction, self.estimator)
        account["alpha"] = [joint.shapes[_ALPHA] for joint in found.friction.joints]
        return PublishedResult(self.name, self.signed(found, account), None, account)

    def _alternated(self, rows: Rows) -> tuple[FrictionModel, dict[str, Any]]:
        """Return friction with exponents that have settled."""
        friction = friction_model(f"{LAW}(alpha=1.0)", rows.n_joints)
        for alternation in range(1, self.max_alternations + 1):
            observations = Observations.of(rows.regressor(friction), rows.effort)
            coef = make_estimator(self.estimator).fit_observations(observations).coef_
            base, own = np.split(coef, [rows.rigid.shape[2]])
            before = [joint.shapes[_ALPHA] for joint in friction.joints]
            torque = rows.effort - rows.rigid @ base
            parts = zip(friction.joints, own.reshape(rows.n_joints, -1), strict=True)
            alpha = [fit_exponent(rows, j, joint, torque[:, j], values) for j, (joint, values) in enumerate(parts)]
            friction = FrictionModel(
                tuple(
                    joint.with_shapes({_ALPHA: a}) for joint, a in zip(_free(rows.n_joints).joints, alpha, strict=True)
                )
            )
            change = float(np.max(np.abs(np.subtract(alpha, before))))
            if change < self.tolerance:
                return friction, {"alternations": alternation}
        raise IdentificationError(
            f"the exponents did not settle within {self.max_alternations} alternations (last change {change:.2g}); "
            "allow more, or relax the tolerance",
            code="estimator-not-converged",
        )


def fit_exponent(rows: Rows, j: int, friction: JointFriction, torque: Array, start: Array) -> float:
    """Return the exponent that explains friction torque (N,) of one joint best, within its bounds.

    Parameters
    ----------
    friction, start : present exponent, and (fc, fv, b) that go with it.
    """
    (free,) = _free(1).joints
    lower, upper = free.free[_ALPHA].bounds(1.0)
    present = friction.shapes[_ALPHA]

    @lru_cache(maxsize=2)  # error, slope and curvature are asked for at the same point
    def columns(alpha: float) -> Array:
        return rows.tried(free.with_shapes({_ALPHA: alpha}), j)

    scale = float(torque @ torque)

    def cost(x: Array) -> tuple[float, Array]:
        own = columns(float(x[3]))
        left = own @ x[:3] - torque
        bent = (columns(float(x[3]) + _STEP)[:, 1] - own[:, 1]) / _STEP * x[1]
        return float(left @ left) / scale, 2.0 * np.append(own.T @ left, bent @ left) / scale

    def curvature(x: Array) -> Array:
        own = columns(float(x[3]))
        slopes = np.column_stack([own, (columns(float(x[3]) + _STEP)[:, 1] - own[:, 1]) / _STEP * x[1]])
        return np.asarray(2.0 * slopes.T @ slopes / scale)

    positive = np.maximum(start[:2], 1e-3 * max(float(np.abs(start).max()), 1e-9))
    bounds = scipy.optimize.Bounds([0.0, 0.0, -np.inf, lower], [np.inf, np.inf, np.inf, upper])
    begin = np.array([*positive, start[2], np.clip(present, lower + _STEP, upper - _STEP)])
    found = scipy.optimize.minimize(
        cost, begin, jac=True, hess=curvature, bounds=bounds, method="trust-constr", options={"maxiter": 60}
    )
    return float(found.x[3])


def _free(n_joints: int) -> FrictionModel:
    return friction_model(LAW, n_joints)
