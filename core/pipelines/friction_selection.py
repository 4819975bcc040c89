"""``--friction auto``: the composition that predicts best what it has not seen.

Laws are compared first, then terms are added as long as they certainly lower the error on left-out recordings; laws
that came close are compared again with the first terms, since what a law misses alone may be the terms' part. In the
end terms that turn out to be needless go again, and joints take another composition where it serves them better. The
comparison costs one fit each (``left_out_rms``), begun at the shapes of the composition it comes from; what is chosen
is verified by full cross-validation. The error on what was estimated from never counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import IdentificationError
from core.estimators import Estimator
from core.friction import FRICTIONLESS, LAWS, FrictionModel, friction_model
from core.pipelines.cross_validation import CrossValidation, Folds
from core.pipelines.friction_shapes import FittedFriction
from core.pipelines.gear_orders import strongest_order
from core.pipelines.left_out_errors import left_out_rms

Array = NDArray[np.float64]

AUTO = "auto"
Composition = str | tuple[str, ...]
"""One composition for all joints, or one for each."""
_EXPECTED = 24
"""Compositions that are usually tried."""
_CLOSE = 1.03
"""Laws within this share of the best one's score are tried again with terms."""
_ESSENTIAL = 0.97
"""A term that brought the score below this share of what it was is not doubted again."""
_WORTH = 0.995
"""Another composition has to bring the score below this share, and by more than one standard error."""


@dataclass(frozen=True)
class Candidate:
    """What was tried.

    Attributes
    ----------
    friction : the composition.
    score : mean RMS on left-out recordings; None where it could not be estimated, and ``reason`` says why not.
    verified : the same by full cross-validation, for what is chosen.
    """

    friction: Composition
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
    """What came of it.

    Attributes
    ----------
    friction : the chosen composition.
    fitted : its shapes and load, fitted to all folds.
    scores : by full cross-validation.
    candidates : all that were tried, in their order.
    """

    friction: Composition
    fitted: FittedFriction
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
    chosen = search.simplest([search.extended(law + terms, ("warmup",), first) for law in close])
    order = strongest_order(folds.shapes, search.fits[chosen])
    chosen = search.extended(chosen, ("elasticity", *([f"ripple({order})"] if order else [])))
    if "+load" in chosen:
        chosen = search.better(chosen, chosen.replace("+load", "+load(drive)"))
    chosen = search.shortened(chosen)
    return _verified(folds, estimator, search, search.joint_by_joint(chosen))


def _verified(folds: Folds, estimator: Estimator, search: _Search, chosen: Composition) -> Selection:
    """Return what full cross-validation says of the chosen composition, or of the best one that can be estimated."""
    refused: dict[Composition, str] = {}
    for friction in dict.fromkeys([chosen, *sorted(search.tried, key=search.score)]):
        try:
            model = replace(folds.model, friction=friction_model(friction, folds.model.chain.n_joints))
            fitted = folds.shapes.fit(model.friction, start=search.fits[friction])
            scores = folds.score(model, estimator, fitted)
        except IdentificationError as error:
            refused[friction] = error.detail
            continue
        table = [
            Candidate(tried, search.score(tried), scores.mean if tried == friction else None, refused.get(tried))
            for tried in search.tried
        ]
        return Selection(friction, fitted, scores, tuple(table))
    raise IdentificationError(
        "no composition of friction can be estimated from all folds of these data; record more, and more varied "
        "motion, or name a composition",
        code="friction-undetermined",
    )


class _Search:
    """Scores of compositions, each found once."""

    def __init__(self, folds: Folds, progress: Callable[[float], None] | None) -> None:
        self.folds, self.progress = folds, progress
        self.tried: dict[Composition, Array] = {}
        self.fits: dict[Composition, FittedFriction] = {}
        self.essential: set[str] = set()

    def score(self, friction: Composition, parent: str | None = None) -> float:
        """Return the mean RMS over joints and left-out recordings while moving."""
        if friction not in self.tried:
            model = friction_model(friction, self.folds.model.chain.n_joints)
            fitted = self.folds.shapes.fit(model, start=self._start(friction, parent), roughly=True)
            self.fits[friction] = fitted
            self.tried[friction] = left_out_rms(self.folds.shapes, fitted, self.folds.moving_threshold)
            if self.progress is not None:
                self.progress(min(0.9, len(self.tried) / _EXPECTED))
        return float(np.nanmean(self.tried[friction]))

    def _start(self, friction: Composition, parent: str | None) -> FittedFriction | None:
        """Return the fit to begin at: that of the parent, or each joint's where joints differ."""
        if isinstance(friction, str):
            return self.fits[parent] if parent else None
        joints = tuple(self.fits[own].friction.joints[j] for j, own in enumerate(friction))
        return FittedFriction(FrictionModel(joints), self.fits[friction[0]].base_parameters)

    def extended(self, friction: str, terms: Sequence[str], parent: str | None = None) -> str:
        """Return the composition with those of ``terms``, one after the other, that are worth it."""
        self.score(friction, parent)
        for term in terms:
            friction = self.better(friction, f"{friction}+{term}")
        return friction

    def better(self, friction: str, rival: str) -> str:
        """Return the rival if it is certainly better."""
        if self.score(rival, friction) < _ESSENTIAL * self.score(friction):
            self.essential |= _names(rival) - _names(friction)
        return rival if _certainly_less(self._per_fold(rival), self._per_fold(friction)) else friction

    def simplest(self, rivals: Sequence[str]) -> str:
        """Return the composition with the fewest parameters and shapes than which none is certainly better."""
        best = min(rivals, key=self.score)
        equals = [r for r in rivals if not _certainly_less(self._per_fold(best), self._per_fold(r))]
        return min(equals, key=self._size)

    def _size(self, friction: str) -> tuple[int, float]:
        joint = friction_model(friction, 1).joints[0]
        return len(joint.parameter_names) + len(joint.free), self.score(friction)

    def shortened(self, friction: str) -> str:
        """Return the composition without terms that are not worth it; the last one has just proved itself."""
        law, *terms = friction.split("+")
        doubted = [term for term in terms[:-1] if _name(term) not in self.essential]
        for term in doubted:
            shorter = "+".join([law, *(kept for kept in terms if kept != term)])
            self.score(shorter, friction)
            if not _certainly_less(self._per_fold(friction), self._per_fold(shorter)):
                return self.shortened(shorter)
        return friction

    def joint_by_joint(self, friction: str) -> Composition:
        """Return the composition that serves each joint best, if all of them together certainly serve better."""
        texts = [text for text in self.tried if isinstance(text, str)]
        chosen = []
        for j in range(self.folds.model.chain.n_joints):
            best = min(texts, key=lambda text: float(np.nanmean(self.tried[text][:, j])))
            certain = _certainly_less(self.tried[best][:, j], self.tried[friction][:, j])
            chosen.append(best if certain else friction)
        mixed = tuple(chosen)
        if set(mixed) == {friction}:
            return friction
        self.score(mixed)
        return mixed if _certainly_less(self._per_fold(mixed), self._per_fold(friction)) else friction

    def _per_fold(self, friction: Composition) -> Array:
        return np.asarray(np.nanmean(self.tried[friction], axis=1))


def _certainly_less(rival: Array, present: Array) -> bool:
    """Return whether errors (folds,) are less by a worthwhile share, and by more than a standard error."""
    gain = present - rival
    gain = gain[np.isfinite(gain)]
    if not gain.size or np.nanmean(rival) >= _WORTH * np.nanmean(present):
        return False
    error = float(np.std(gain, ddof=1)) / gain.size**0.5 if gain.size > 1 else 0.0
    return float(gain.mean()) > error


def _name(term: str) -> str:
    return term.partition("(")[0]


def _names(friction: str) -> set[str]:
    return {_name(term) for term in friction.split("+")}
