"""Recursive least squares beside the batch answer, sequential identification, cross-checks (source E).

The stream's estimate is the result. What it is held against: batch least squares on the same rows, by relative error of
the parameters and by torque; sequential identification from the last joint to the first; work measured and predicted;
what a change of each parameter by one per cent does to the torque.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from core.errors import InputError
from core.estimators import Estimator, RecursiveLeastSquares, SequentialLeastSquares
from core.pipelines.identification import Identification
from core.pipelines.identify import PLAIN_FRICTION
from core.pipelines.published.method import Method, Task
from core.pipelines.published.result import PublishedResult, mean_moving
from core.signals import SignalSettings


@dataclass(frozen=True)
class RecursiveSixAxis(Method):
    """Attributes, besides ``signals``.

    friction : whose shapes, if any, are fitted before.
    estimator : which is the result, ``recursive`` or ``sequential``; the other is reported beside it.
    forgetting, reset_interval : of the recursive one; see ``RecursiveLeastSquares``.
    """

    signals: SignalSettings = field(default_factory=SignalSettings)
    friction: str = PLAIN_FRICTION
    estimator: Literal["recursive", "sequential"] = "recursive"
    forgetting: float = 0.9999
    reset_interval: int | None = None

    name = "recursive_six_axis"
    source = "six-axis arm, practitioner's notes (methods, section 6)"

    def run(self, task: Task) -> PublishedResult:
        ways: dict[str, Estimator] = {
            "recursive": RecursiveLeastSquares(self.forgetting, reset_interval=self.reset_interval),
            "sequential": SequentialLeastSquares(),
        }
        if self.estimator not in ways:
            raise InputError(f"{self.name}: estimator must be recursive or sequential, got {self.estimator!r}")
        batch = task.identified(self.signals, self.friction, "wls")
        found = {name: task.identified(self.signals, batch.friction, way) for name, way in ways.items()}
        chosen = found[self.estimator]
        account = {
            "against_batch": {name: _compared(result, batch) for name, result in found.items()},
            "energy": chosen.train.energy.to_document() if chosen.train.energy else None,
            "sensitivity": dict(zip(chosen.names, chosen.sensitivity_.tolist(), strict=True)),
        }
        return PublishedResult(self.name, self.signed(chosen, account), None, account)


def _compared(result: Identification, batch: Identification) -> dict[str, Any]:
    """Return how far a result is from the batch answer.

    The parameters' errors are weighed by how well data tell each: those that they do not tell differ without harm.
    """
    difference = result.parameters_ - batch.parameters_
    size = np.linalg.norm(batch.parameters_)
    deviation = np.sqrt(np.diag(batch.covariance_))
    judged = [("train", result.train, batch.train)]
    if result.validation and batch.validation:
        judged.append(("validation", result.validation, batch.validation))
    return {
        "parameter_error": float(np.linalg.norm(difference) / size),
        "largest_error_in_std": float(np.max(np.abs(difference) / deviation)),
        "rms_moving": {name: mean_moving(own) for name, own, _ in judged},
        "rms_moving_batch": {name: mean_moving(other) for name, _, other in judged},
    }
