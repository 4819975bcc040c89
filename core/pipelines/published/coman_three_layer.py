"""Three layers: rigid body, friction of two regimes, and a mixture of Gaussians for what is left (source A).

Layer 1 estimates base parameters from torque less friction, layer 2 friction from torque less rigid body; they
alternate until both settle. The first layer 1 has Coulomb and viscous friction beside the base parameters, since
nothing is known of friction then. Layer 3 learns what both leave.

Source: Zhao, Liu, Xu, Liu, Fang and Zhang, Forest Engineering 39(3), 2023, p. 150.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import IdentificationError, InputError
from core.estimators import Observations, make_estimator
from core.estimators.nonnegative import nonnegative_least_squares
from core.friction import FrictionModel, JointFriction, friction_model
from core.pipelines.identify import PLAIN_FRICTION
from core.pipelines.published.compensation import Compensation, Inputs
from core.pipelines.published.method import Method, Task
from core.pipelines.published.result import Compensated, PublishedResult, mean_moving
from core.pipelines.published.rows import Rows, rows_of
from core.pipelines.training import prepared
from core.signals import SignalSettings

Array = NDArray[np.float64]

LAW = "two_regime_cubic"
_LOW = 5
"""The law's first parameters are those of the low regime, the others add what is different beyond."""
_LEAST_ROWS = 50
"""Rows that a regime needs for its threshold to be considered."""


@dataclass(frozen=True)
class ComanThreeLayer(Method):
    """Attributes, besides ``signals``.

    rigid : estimator of layer 1; ``irls`` has the full covariance of the joints and weighs outliers down, ``wls`` and
        ``ols`` are the plain ones.
    friction : ``two_regime_cubic`` alternates both layers; any other law leaves out layer 2, and layer 1 estimates it.
    regimes : of layer 2, ``low_then_high`` as published, or ``together``.
    thresholds : speeds between the regimes that are tried for each joint.
    compensation : ``mixture``, or ``none`` to leave out layer 3.
    inputs : of layer 3, ``own`` position and speed of the joint, or those of ``all``.
    components : numbers of components that are compared.
    tolerance : change of the torque that both layers explain, as a share of what they leave (RMS), that ends the
        alternation.
    max_alternations : IdentificationError after as many.
    """

    signals: SignalSettings = field(default_factory=lambda: SignalSettings(velocity="differentiated"))
    rigid: str = "irls"
    friction: str = LAW
    regimes: Literal["low_then_high", "together"] = "low_then_high"
    thresholds: int = 16
    compensation: Literal["mixture", "none"] = "mixture"
    inputs: Inputs = "own"
    components: Sequence[int] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    tolerance: float = 0.02
    max_alternations: int = 50

    name = "coman_three_layer"
    source = "Zhao et al., Forest Engineering 39(3), 2023, p. 150"

    def run(self, task: Task) -> PublishedResult:
        self._check()
        rows = rows_of(task.model, task.train, task.gains, self.signals, task.progress)
        if self.friction == LAW:
            friction, parameters, account = self._alternated(rows)
            found = self.settled(task, friction, parameters, account)
        else:
            account = {"alternations": 0}
            found = self.signed(task.identified(self.signals, self.friction, self.rigid), account)
        compensated = None
        if self.compensation == "mixture":
            residual = rows.effort - rows.regressor(found.friction) @ found.parameters_
            compensated = self._compensated(task, rows, residual, found)
            account = {**account, "components": [r.n_components_ for r in compensated.compensation.regressions]}
        return PublishedResult(self.name, found, compensated, account)

    def _check(self) -> None:
        for name, choices in (("regimes", ("low_then_high", "together")), ("compensation", ("mixture", "none"))):
            if getattr(self, name) not in choices:
                raise InputError(f"{self.name}: {name} must be one of {', '.join(choices)}")
        if self.thresholds < 1 or self.max_alternations < 1 or not self.tolerance > 0.0:
            raise InputError(f"{self.name}: thresholds and max_alternations must be at least 1, tolerance positive")

    def _alternated(self, rows: Rows) -> tuple[FrictionModel, Array, dict[str, Any]]:
        """Return friction with its thresholds, all parameters (p,) and an account, once layers 1 and 2 have settled."""
        first = rows.regressor(friction_model(PLAIN_FRICTION, rows.n_joints))
        base = self._estimated(first, rows.effort)[: rows.rigid.shape[2]]
        explained = np.zeros_like(rows.effort)
        for alternation in range(1, self.max_alternations + 1):  # noqa: B007 - how many there were is told
            layers = [
                self._joint_friction(rows, rows.effort[:, j] - rows.rigid[:, j] @ base, j) for j in range(rows.n_joints)
            ]
            rubbed = np.column_stack([rows.friction(own, j) @ values for j, (own, values) in enumerate(layers)])
            base = self._estimated(rows.rigid, rows.effort - rubbed)
            before, explained = explained, rows.rigid @ base + rubbed
            change = _rms(explained - before) / _rms(rows.effort - explained)
            if change < self.tolerance:
                break
        else:
            raise IdentificationError(
                f"rigid body and friction did not settle within {self.max_alternations} alternations (last change "
                f"{change:.2g} of the residual); allow more, or relax the tolerance",
                code="estimator-not-converged",
            )
        friction = FrictionModel(tuple(own for own, _ in layers))
        parameters = np.concatenate([base, *(values for _, values in layers)])
        return friction, parameters, {"alternations": alternation}

    def _estimated(self, columns: Array, effort: Array) -> Array:
        return make_estimator(self.rigid).fit_observations(Observations.of(columns, effort)).coef_

    def _joint_friction(self, rows: Rows, torque: Array, j: int) -> tuple[JointFriction, Array]:
        """Return one joint's friction with the threshold that leaves least, and its parameters (8,)."""
        (law,) = friction_model(LAW, 1).joints
        speed = np.abs(rows.qd[:, j])
        low, high = law.free[f"{LAW}.threshold"].bounds(float(speed.max()))
        best: tuple[JointFriction, Array, float] | None = None
        for threshold in np.geomspace(low, high, self.thresholds).tolist():
            slow = speed <= threshold
            if min(slow.sum(), (~slow).sum()) < _LEAST_ROWS:
                continue
            tried = law.with_shapes({f"{LAW}.threshold": threshold})
            values, squared = self._regimes(rows.friction(tried, j), torque, slow)
            if best is None or squared < best[2]:
                best = tried, values, squared
        if best is None:
            raise IdentificationError(
                f"joint {j + 1} has too few samples at low or at high speed for friction of two regimes; record "
                "longer, or choose another friction",
                code="too-few-samples",
            )
        return best[0], best[1]

    def _regimes(self, columns: Array, torque: Array, slow: NDArray[np.bool_]) -> tuple[Array, float]:
        """Return parameters (8,) whose two Coulomb torques are not negative, and the squared error they leave."""
        if self.regimes == "together":
            return nonnegative_least_squares(columns, torque, (0, 1))
        own, _ = nonnegative_least_squares(columns[slow, :_LOW], torque[slow], (0, 1))
        left = torque - columns[:, :_LOW] @ own
        beyond, _ = nonnegative_least_squares(columns[~slow, _LOW:], left[~slow], ())
        values = np.concatenate([own, beyond])
        return values, float(np.sum((torque - columns @ values) ** 2))

    def _compensated(self, task: Task, rows: Rows, residual: Array, found: Any) -> Compensated:
        compensation = Compensation.fit(rows, residual, self.inputs, self.components, task.random_state)
        held_out = [
            segment
            for recording in task.validate
            for segment in prepared(recording, task.model, found.effort, self.signals).segments
        ]
        trained = compensation.report(found, rows.data.all_segments)
        judged = compensation.report(found, held_out) if held_out else None
        chosen = judged is not None and mean_moving(judged) < mean_moving(found.validation)
        return Compensated(compensation, trained, judged, chosen)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))
