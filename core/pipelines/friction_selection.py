"""``--friction auto``: the composition that predicts best what it has not seen.

Laws are compared first, then terms are added as long as they certainly lower the error on left-out recordings; laws
that came close are compared again with the first terms, since what a law misses alone may be the terms' part. In the
end terms that turn out to be needless go again, and joints take another composition where it serves them better. The
comparison costs one fit each (``left_out_rms``), begun at the shapes of the composition it comes from; finalists are
verified by full cross-validation. The error on what was estimated from never counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import IdentificationError
from core.estimators import Estimator
from core.friction import FRICTIONLESS, LAWS, friction_model
from core.pipelines.cross_validation import CrossValidation, Folds
from core.pipelines.friction_shapes import FittedFriction
from core.pipelines.gear_orders import strongest_order
from core.pipelines.left_out_errors import left_out_rms

Array = NDArray[np.float64]

AUTO = "auto"
_EXPECTED = 24
"""Compositions that are usually tried."""
_CLOSE = 1.03
"""Laws within this share of the best one's score are tried again with terms."""
_WORTH = 0.995
"""Another composition has to bring the score below this share, and by more than one standard error."""


@dataclass(frozen=True)
class Candidate:
    """What was tried.

    Attributes
    ----------
    friction : the composition, or one per joint.
    score : mean RMS on left-out recordings; None where it could not be estimated, and ``reason`` says why not.
    verified : the same by full cross-validation, for finalists.
    """

    friction: str | tuple[str, ...]
    score: float | None
    verified: float | None = None
    reason: str | None = None

    def to_document(self) -> dict[str, Any]:
        text = self.friction if isinstance(self.friction, str) else ", ".join(self.friction)
        return {
            "friction": text,
            "mean_rms_moving": self.score,
            "verified_mean_rms_moving": self.verified,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Selection:
    """Attributes: the chosen composition, or one per joint; its scores; all that were tried, in their order."""

    friction: str | tuple[str, ...]
    scores: CrossValidation
    candidates: tuple[Candidate, ...]

    def to_document(self) -> dict[str, Any]:
        return {
            "scheme": self.scores.scheme,
            "chosen": self.friction if isinstance(self.friction, str) else list(self.friction),
            "candidates": [candidate.to_document() for candidate in self.candidates],
        }


def select_friction(folds: Folds, estimator: Estimator, progress: Callable[[float], None] | None = None) -> Selection:
    """Return the composition with the lowest error on left-out recordings that its rivals do not reach as simply.

    Raises
    ------
    IdentificationError
        No composition can be estimated from these data.
    """
    search = _Search(folds, progress)
    laws = sorted((law for law in LAWS if law not in FRICTIONLESS), key=search.score)
    first = search.extended(laws[0], ("load", "hysteresis"))
    terms = first.removeprefix(laws[0])
    close = [law for law in laws if search.score(law) < _CLOSE * search.score(laws[0])]
    chosen = min([search.extended(law + terms, ("warmup",), first) for law in close], key=search.score)
    order = strongest_order(folds.shapes, search.fits[chosen]) if chosen in search.fits else None
    chosen = search.extended(chosen, ("elasticity", *([f"ripple({order})"] if order else [])))
    if "+load" in chosen:
        chosen = search.better(chosen, chosen.replace("+load", "+load(drive)"))
    chosen = search.shortened(chosen)
    return _verified(folds, estimator, search, [search.joint_by_joint(chosen), chosen])


def _verified(
    folds: Folds, estimator: Estimator, search: _Search, finalists: Sequence[str | tuple[str, ...]]
) -> Selection:
    """Return the finalist with the best score in full cross-validation; a later one unless an earlier is worth it."""
    found: list[tuple[str | tuple[str, ...], CrossValidation]] = []
    table = {candidate.friction: candidate for candidate in search.table}
    others = sorted(search.tried, key=search.score)
    for friction in dict.fromkeys([*finalists, *others]):
        if found and friction not in finalists:
            break
        fitted = search.fitted(friction)
        score = table[friction].score if friction in table else None
        try:
            model = replace(folds.model, friction=friction_model(friction, folds.model.chain.n_joints))
            scores = folds.score(model, estimator, fitted)
        except IdentificationError as error:
            table[friction] = Candidate(friction, score, None, error.detail)
        else:
            table[friction] = Candidate(friction, score, scores.mean)
            found.append((friction, scores))
    if not found:
        raise IdentificationError(
            "no composition of friction can be estimated from all folds of these data; record more, and more varied "
            "motion, or name a composition",
            code="friction-undetermined",
        )
    friction, scores = found[-1]
    if found[0][1].mean < _WORTH * scores.mean:
        friction, scores = found[0]
    return Selection(friction, scores, tuple(table.values()))


class _Search:
    """Scores of compositions, each found once."""

    def __init__(self, folds: Folds, progress: Callable[[float], None] | None) -> None:
        self.folds, self.progress = folds, progress
        self.tried: dict[str, Array] = {}
        self.fits: dict[str, FittedFriction] = {}

    @property
    def table(self) -> list[Candidate]:
        return [Candidate(friction, self.score(friction)) for friction in self.tried]

    def score(self, friction: str, parent: str | None = None) -> float:
        """Return the mean RMS over joints and left-out recordings while moving."""
        if friction not in self.tried:
            start = self.fits.get(parent) if parent else None
            model = friction_model(friction, self.folds.model.chain.n_joints)
            fitted = self.folds.shapes.fit(model, start=start, roughly=True)
            self.fits[friction] = fitted
            self.tried[friction] = left_out_rms(self.folds.shapes, fitted, self.folds.moving_threshold)
            if self.progress is not None:
                self.progress(min(0.9, len(self.tried) / _EXPECTED))
        return float(np.nanmean(self.tried[friction]))

    def extended(self, friction: str, terms: Sequence[str], parent: str | None = None) -> str:
        """Return the composition with those of ``terms``, one after the other, that are worth it."""
        self.score(friction, parent)
        for term in terms:
            friction = self.better(friction, f"{friction}+{term}")
        return friction

    def better(self, friction: str, rival: str) -> str:
        """Return the rival if it is certainly better."""
        self.score(rival, friction)
        return rival if _certainly_less(self._per_fold(rival), self._per_fold(friction)) else friction

    def shortened(self, friction: str) -> str:
        """Return the composition without terms that are not worth it; the last one has just proved itself."""
        law, *terms = friction.split("+")
        for term in terms[:-1]:
            shorter = "+".join([law, *(kept for kept in terms if kept != term)])
            self.score(shorter, friction)
            if not _certainly_less(self._per_fold(friction), self._per_fold(shorter)):
                return self.shortened(shorter)
        return friction

    def joint_by_joint(self, friction: str) -> str | tuple[str, ...]:
        """Return the composition of each joint that serves it best: ``friction`` unless another is certainly better."""
        chosen = []
        for j in range(self.folds.model.chain.n_joints):
            best = min(self.tried, key=lambda other: float(np.nanmean(self.tried[other][:, j])))
            certain = _certainly_less(self.tried[best][:, j], self.tried[friction][:, j])
            chosen.append(best if certain else friction)
        return friction if set(chosen) == {friction} else tuple(chosen)

    def fitted(self, friction: str | tuple[str, ...]) -> FittedFriction:
        """Return shapes and load of a composition fitted to all folds."""
        n = self.folds.model.chain.n_joints
        each = (friction,) * n if isinstance(friction, str) else friction
        joints = tuple(self.fits[own].friction.joints[j] for j, own in enumerate(each))
        start = self.fits[each[0]]
        started = replace(start, friction=replace(start.friction, joints=joints))
        model = friction_model(friction, n)
        return self.folds.shapes.fit(model, start=started)

    def _per_fold(self, friction: str) -> Array:
        return np.asarray(np.nanmean(self.tried[friction], axis=1))


def _certainly_less(rival: Array, present: Array) -> bool:
    """Return whether errors (folds,) are less by a worthwhile share, and by more than a standard error."""
    gain = present - rival
    gain = gain[np.isfinite(gain)]
    if not gain.size or np.nanmean(rival) >= _WORTH * np.nanmean(present):
        return False
    error = float(np.std(gain, ddof=1)) / gain.size**0.5 if gain.size > 1 else 0.0
    return float(gain.mean()) > error
