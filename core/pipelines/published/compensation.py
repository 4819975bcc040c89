"""What a model leaves of the torque, as a function of position and speed (methods, source A, layer 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.estimators.mixture_regression import MixtureRegression
from core.pipelines.estimation import compared
from core.pipelines.identification import Identification
from core.pipelines.published.rows import Rows
from core.signals import Segment
from core.validation import ValidationReport, validation_report

Array = NDArray[np.float64]
Inputs = Literal["own", "all"]


@dataclass(frozen=True, eq=False)
class Compensation:
    """One Gaussian mixture regression per joint.

    Attributes
    ----------
    regressions : (n).
    inputs : ``own``, each joint's torque from its own position and speed; ``all``, from those of all joints.
    """

    regressions: tuple[MixtureRegression, ...]
    inputs: Inputs

    @classmethod
    def fit(cls, rows: Rows, residual: Array, inputs: Inputs, components: Sequence[int], random_state: int) -> Self:
        """Fit to the torque (N, n) that is left of the rows."""
        if inputs not in ("own", "all"):
            raise InputError(f"inputs must be own or all, got {inputs!r}")
        found = [
            MixtureRegression(components, random_state).fit(_inputs(rows.q, rows.qd, j, inputs), residual[:, j])
            for j in range(rows.n_joints)
        ]
        return cls(tuple(found), inputs)

    def torque(self, q: Array, qd: Array) -> tuple[Array, Array]:
        """Return the expected torque (N, n) at positions and speeds (N, n), and its standard deviation (N, n)."""
        parts = [r.predict(_inputs(q, qd, j, self.inputs)) for j, r in enumerate(self.regressions)]
        return np.column_stack([mean for mean, _ in parts]), np.column_stack([std for _, std in parts])

    def report(self, identification: Identification, segments: Sequence[Segment]) -> ValidationReport:
        """Return the errors of a result together with this compensation."""
        motions = []
        for segment in segments:
            plain = compared(
                segment, identification.torque_model, identification.parameters_, identification.moving_threshold
            )
            more, _ = self.torque(segment.motion.q[segment.rows], segment.motion.qd[segment.rows])
            bracket = plain.bracket and (plain.bracket[0] + more, plain.bracket[1] + more)
            motions.append(replace(plain, predicted=plain.predicted + more, bracket=bracket))
        return validation_report(motions)

    def to_document(self) -> dict[str, Any]:
        return {"inputs": self.inputs, "regressions": [regression.to_document() for regression in self.regressions]}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        return cls(tuple(map(MixtureRegression.from_document, document["regressions"])), document["inputs"])


def _inputs(q: Array, qd: Array, j: int, inputs: Inputs) -> Array:
    return np.column_stack([q[:, j], qd[:, j]]) if inputs == "own" else np.hstack([q, qd])
