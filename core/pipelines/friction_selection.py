"""``--friction auto``: the composition that predicts best what it has not seen.

Laws are compared first, then terms are added one by one as long as they lower the score, and laws that came
close are compared again with these terms. The score is that of
cross-validation, mean RMS over joints and folds while moving, never the error on what was estimated from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from core.errors import IdentificationError
from core.estimators import Estimator
from core.friction import LAWS, friction_model
from core.pipelines.cross_validation import CrossValidation, Folds

AUTO = "auto"
_TERMS = ("load", "hysteresis", "warmup", "elasticity")
"""In the order of what they usually gain. Ripple is left out: nobody told the orders of the gears."""
_CLOSE = 1.03
"""Laws within this share of the best one's score are tried again with the terms that were found to help."""
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
    tried: dict[str, CrossValidation | None] = {}
    table: list[Candidate] = []
    expected = len(LAWS) + len(_TERMS) + 2

    def score(friction: str) -> float:
        try:
            scores = _score(folds, estimator, friction)
        except IdentificationError as error:
            tried[friction] = None
            table.append(Candidate(friction, None, error.detail))
        else:
            tried[friction] = scores
            table.append(Candidate(friction, scores.mean))
        if progress is not None:
            progress(min(1.0, len(table) / expected))
        return table[-1].score or float("inf")

    laws = sorted(LAWS, key=score)
    law, terms = laws[0], ""
    best = _known(tried, law)
    for term in _TERMS:
        if score(f"{law}{terms}+{term}") < _WORTH * best.mean:
            terms += f"+{term}"
            best = _known(tried, law + terms)
    close = [other for other in laws[1:] if _close(tried[other], tried[law])] if terms else []
    chosen = min([law, *close], key=lambda name: best.mean if name == law else score(name + terms)) + terms
    return Selection(chosen, _known(tried, chosen), tuple(table))


def _close(other: CrossValidation | None, best: CrossValidation | None) -> bool:
    """Return whether a law that lost alone may win together with terms."""
    return other is not None and best is not None and other.mean < _CLOSE * best.mean


def _score(folds: Folds, estimator: Estimator, friction: str) -> CrossValidation:
    model = replace(folds.model, friction=friction_model(friction, folds.model.chain.n_joints))
    return folds.score(model, estimator, folds.start(model.friction))


def _known(tried: dict[str, CrossValidation | None], friction: str) -> CrossValidation:
    scores = tried[friction]
    if scores is None:
        raise IdentificationError(
            "no composition of friction can be estimated from all folds of these data; record more, and more varied "
            "motion, or name a composition",
            code="friction-undetermined",
        )
    return scores
