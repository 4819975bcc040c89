"""``--friction auto``: the composition that predicts best what it has not seen.

Laws are compared first, then terms are added one by one as long as they lower the score. Laws that came close
are compared again with the first terms, since what a law misses alone may be the terms' part. The score is that of
cross-validation, mean RMS over joints and folds while moving, never the error on what was estimated from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.errors import IdentificationError
from core.estimators import Estimator
from core.friction import LAWS, friction_model
from core.pipelines.cross_validation import CrossValidation, Folds

AUTO = "auto"
_FIRST, _SECOND, _LAST = ("load", "hysteresis"), ("warmup",), ("elasticity",)
"""Terms in the order of what they usually gain. Ripple is left out: nobody told the orders of the gears."""
_EXPECTED = 16
"""Compositions that are usually tried."""
_CLOSE = 1.03
"""Laws within this share of the best one's score are tried again with terms."""
_WORTH = 0.995
"""A term has to lower the score below this share of what it is without."""


@dataclass(frozen=True)
class Candidate:
    """Attributes: the composition; its score, None where it could not be estimated; and why not."""

    friction: str
    score: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Selection:
    """Attributes: the chosen composition, its scores, and the table of all that were tried, in their order."""

    friction: str
    scores: CrossValidation
    candidates: tuple[Candidate, ...]

    def to_document(self) -> dict[str, Any]:
        rows = [{"friction": c.friction, "mean_rms_moving": c.score, "reason": c.reason} for c in self.candidates]
        return {"scheme": self.scores.scheme, "chosen": self.friction, "candidates": rows}


def select_friction(folds: Folds, estimator: Estimator, progress: Callable[[float], None] | None = None) -> Selection:
    """Return the composition with the lowest score.

    Raises
    ------
    IdentificationError
        No composition can be estimated from these data.
    """
    search = _Search(folds, estimator, progress)
    laws = sorted(LAWS, key=search.score)
    first = search.extended(laws[0], _FIRST)
    terms = first.removeprefix(laws[0])
    close = [law for law in laws if search.score(law) < _CLOSE * search.score(laws[0])]
    contenders = [search.extended(law + terms, _SECOND) for law in (close if terms else laws[:1])]
    chosen = search.extended(min([first, *contenders], key=search.score), _LAST)
    scores = search.tried[chosen]
    if scores is None:
        raise IdentificationError(
            "no composition of friction can be estimated from all folds of these data; record more, and more varied "
            "motion, or name a composition",
            code="friction-undetermined",
        )
    return Selection(chosen, scores, tuple(search.table))


class _Search:
    """Scores of compositions, each found once."""

    def __init__(self, folds: Folds, estimator: Estimator, progress: Callable[[float], None] | None) -> None:
        self.folds, self.estimator, self.progress = folds, estimator, progress
        self.tried: dict[str, CrossValidation | None] = {}
        self.table: list[Candidate] = []

    def score(self, friction: str) -> float:
        if friction not in self.tried:
            self._try(friction)
        scores = self.tried[friction]
        return float("inf") if scores is None else scores.mean

    def extended(self, friction: str, terms: Sequence[str]) -> str:
        """Return the composition with those of ``terms``, one after the other, that are worth it."""
        for term in terms:
            longer = f"{friction}+{term}"
            if self.score(longer) < _WORTH * self.score(friction):
                friction = longer
        return friction

    def _try(self, friction: str) -> None:
        model = replace(self.folds.model, friction=friction_model(friction, self.folds.model.chain.n_joints))
        try:
            scores = self.folds.score(model, self.estimator, self.folds.start(model.friction))
        except IdentificationError as error:
            self.tried[friction] = None
            self.table.append(Candidate(friction, None, error.detail))
        else:
            self.tried[friction] = scores
            self.table.append(Candidate(friction, scores.mean))
        if self.progress is not None:
            self.progress(min(1.0, len(self.table) / _EXPECTED))
