"""A judgement in plain words: good, usable or poor, because of what, and what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from core.estimators.identifiability import Conditioning
from core.validation.report import ValidationReport

Grade = Literal["good", "usable", "poor"]

_GOOD = 0.15
_USABLE = 0.4
"""Relative residual of the worst joint while it moves, up to which a result is good, or usable."""
_BALANCED = 0.05
"""Share of the energy turnover that a joint's work may be off by."""
_MEMORY = 0.3
"""s; residuals that stay alike for longer are something left out of the model that friction may explain."""
_NOTABLE = 2.0
"""Times the spacing of the residuals compared: filtered noise is alike for somewhat longer than that."""
_REMEMBERED_BY = ("load", "hysteresis", "warmup")
"""Terms of friction that explain such residuals, in the order of what they usually gain."""


@dataclass(frozen=True)
class Verdict:
    """Attributes: the grade; ``because``, the reasons; ``advice``, what would help."""

    grade: Grade
    because: tuple[str, ...]
    advice: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.grade}, {self.reasons}"

    @property
    def reasons(self) -> str:
        """Everything but the grade, in words."""
        advice = f". What would help: {'; '.join(self.advice)}" if self.advice else ""
        return f"because {'; '.join(self.because)}{advice}"

    def to_document(self) -> dict[str, Any]:
        return {"grade": self.grade, "because": list(self.because), "advice": list(self.advice)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        return cls(document["grade"], tuple(document["because"]), tuple(document["advice"]))


def judge(
    train: ValidationReport,
    validation: ValidationReport | None,
    conditioning: Conditioning,
    terms: Sequence[Collection[str]],
    driven: Sequence[int] = (),
) -> Verdict:
    """Judge a result by its error on held-out motion where there is any, and by its condition number.

    Parameters
    ----------
    terms : (n) the names of those that each joint's friction has beside its law; they are not advised again.
    driven : joints, from 0, whose friction drives them, which no friction does: such a result is poor, whatever its
        residual.
    """
    held_out = validation.pooled["moving"] if validation else None
    proven = held_out is not None and bool(np.any(held_out.samples))
    judged = validation if validation is not None and proven else train
    relative = judged.pooled["moving"].relative
    worst = float(np.nanmax(relative))
    joint = int(np.nanargmax(relative))
    motion = "held-out motion" if proven else "the motion it was estimated from"
    because = [f"on {motion} the residual of the worst joint, {joint + 1}, is {worst:.0%} of its torque"]
    advice = []
    grade: Grade = "good" if worst <= _GOOD else "usable" if worst <= _USABLE else "poor"
    coloured = _coloured(judged)
    if grade != "good" and (judged.whiteness is None or joint in coloured):
        advice.append(f"look at the friction of joint {joint + 1}, the largest error of most drives")
    elif grade != "good":
        advice.append(
            f"the residual of joint {joint + 1} is noise, which no model explains: average periods, lower the cutoff "
            "of the torque filter, or let that joint carry more torque"
        )
    doubts: list[tuple[str | None, str]] = []
    if not proven:
        doubts.append((None, "validate on a different motion"))
    imbalance = _unbalanced(judged)
    if imbalance:
        doubts.append((imbalance, "check the drive gains and the friction of those joints"))
    if conditioning.problem:
        doubts.append((conditioning.problem, "excite the robot with a motion optimised for identification"))
    for reason, remedy in doubts:
        grade = "usable" if grade == "good" else grade
        because += [reason] if reason else []
        advice.append(remedy)
    if driven:
        grade = "poor"
        because.insert(0, f"the friction of {_joints(driven)} drives instead of braking")
        advice.insert(
            0, f"check the signs of position, velocity and current of {_joints(driven)}, and the order of the joints"
        )
    if judged.whiteness is not None and coloured.size:
        seconds = judged.whiteness.correlation_time[coloured]
        because.append(
            f"the residuals of {_joints(coloured)} are not noise, they stay alike for up to {seconds.max():.2g} s: "
            "something is left out of the model"
        )
        remembering = coloured[seconds > _MEMORY]
        advice += [_more_friction(remembering, terms)] if remembering.size else []
    return Verdict(grade, tuple(because), tuple(advice))


def _unbalanced(report: ValidationReport) -> str | None:
    """Say which joints spend another energy than the model does, if any."""
    if report.energy is None:
        return None
    share = report.energy.relative
    wrong = np.flatnonzero(np.nan_to_num(np.abs(share)) > _BALANCED)
    return f"the work of {_joints(wrong)} is off by up to {np.nanmax(np.abs(share)):.0%}" if wrong.size else None


def _coloured(report: ValidationReport) -> NDArray[np.intp]:
    """Return the joints whose residuals are not noise, nor noise that a filter has coloured."""
    whiteness = report.whiteness
    if whiteness is None:
        return np.empty(0, dtype=np.intp)
    notable = whiteness.correlation_time > _NOTABLE * whiteness.spacing
    return np.flatnonzero(notable & np.isfinite(whiteness.p_value) & ~whiteness.white)


def _more_friction(joints: NDArray[np.intp], terms: Sequence[Collection[str]]) -> str:
    """Return what may explain residuals of ``joints`` that stay alike."""
    lacking: dict[tuple[int, ...], list[str]] = {}
    for term in _REMEMBERED_BY:
        without = tuple(int(j) for j in joints if term not in terms[j])
        if without:
            lacking.setdefault(without, []).append(term)
    if lacking:
        choices = [f"{' or '.join(names)} ({_joints(without)})" for without, names in lacking.items()]
        return f"try friction with {' or '.join(choices)}"
    return (
        f"the friction of {_joints(joints)} has all terms that remember: train on more recordings, spread over the "
        "poses, speeds and temperatures the robot works at"
    )


def _joints(indices: Collection[int] | NDArray[np.intp]) -> str:
    numbers = [str(j + 1) for j in indices]
    return f"joint{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"
