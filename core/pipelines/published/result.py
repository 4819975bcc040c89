"""The result of a published method: an identification, and where the method has one, a compensation on top."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.pipelines.identification import Identification
from core.pipelines.published.compensation import Compensation
from core.validation import ValidationReport

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Compensated:
    """A compensation and what came of it.

    Attributes
    ----------
    compensation : as it was fitted.
    train, validation : errors of the model together with it; the latter None without held-out data.
    chosen : whether it lowers the error on held-out motion; otherwise ``predict`` does without it.
    """

    compensation: Compensation
    train: ValidationReport
    validation: ValidationReport | None
    chosen: bool


@dataclass(frozen=True, eq=False)
class PublishedResult:
    """What a published method makes of recordings.

    Attributes
    ----------
    method : its name.
    identification : model, parameters, uncertainty, provenance; stands alone, and is what exports take.
    compensated : with the torque that no model explains, where the method learns it.
    account : what the method's own steps did, JSON-serialisable.
    """

    method: str
    identification: Identification
    compensated: Compensated | None
    account: Mapping[str, Any]

    @property
    def train(self) -> ValidationReport:
        """Errors on the training data, of what ``predict`` predicts."""
        chosen = self._chosen
        return chosen.train if chosen else self.identification.train

    @property
    def validation(self) -> ValidationReport | None:
        """Errors on held-out motion, of what ``predict`` predicts."""
        chosen = self._chosen
        return chosen.validation if chosen else self.identification.validation

    @property
    def remark(self) -> str | None:
        """What is to be said of the compensation, or None where there is none."""
        if self.compensated is None:
            return None
        if self.compensated.validation is None or self.identification.validation is None:
            return "the compensation is not used: without held-out data nobody knows whether it helps"
        before, after = (
            mean_moving(report) for report in (self.identification.validation, self.compensated.validation)
        )
        trained = mean_moving(self.identification.train), mean_moving(self.compensated.train)
        figures = (
            f"training {trained[0]:.4g} -> {trained[1]:.4g}, held out {before:.4g} -> {after:.4g} "
            f"{self.identification.unit}, mean RMS while moving"
        )
        if self.compensated.chosen:
            return f"the compensation is used: {figures}"
        return f"the compensation over-fits and is not used: {figures}"

    def predict(
        self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, *, period: float | None = None, smooth: bool = False
    ) -> Array:
        """Return torques (N, n) along a motion; see ``Identification.predict``."""
        torque = self.identification.predict(q, qd, qdd, period=period, smooth=smooth)
        chosen = self._chosen
        if chosen is None:
            return torque
        return torque + chosen.compensation.torque(*_rows(q, qd))[0]

    def predict_std(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, *, period: float | None = None) -> Array:
        """Return the standard deviation (N, n) of the expected torque, with that of the compensation where it is used.

        The compensation's is the conditional one, so a measured torque scatters no more than that.
        """
        deviation = self.identification.predict_std(q, qd, qdd, period=period)
        chosen = self._chosen
        if chosen is None:
            return deviation
        return np.asarray(np.hypot(deviation, chosen.compensation.torque(*_rows(q, qd))[1]))

    def to_document(self) -> dict[str, Any]:
        """Return the document of the identification, with the method beside it, JSON-serialisable."""
        compensated = self.compensated and {
            "compensation": self.compensated.compensation.to_document(),
            "chosen": self.compensated.chosen,
            "train": self.compensated.train.to_document(),
            "validation": self.compensated.validation and self.compensated.validation.to_document(),
        }
        own = {"name": self.method, **self.account, "remark": self.remark, "compensated": compensated}
        return {**self.identification.to_document(), "method": own}

    @property
    def _chosen(self) -> Compensated | None:
        return self.compensated if self.compensated and self.compensated.chosen else None


def mean_moving(report: ValidationReport) -> float:
    """Return the mean over joints of the RMS residual while moving."""
    return float(np.nanmean(report.pooled["moving"].rms))


def _rows(q: ArrayLike, qd: ArrayLike) -> tuple[Array, Array]:
    return np.atleast_2d(np.asarray(q, dtype=np.float64)), np.atleast_2d(np.asarray(qd, dtype=np.float64))
