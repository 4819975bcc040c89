"""A judgement in plain words: good, usable or poor, because of what, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from core.validation.report import ValidationReport

Grade = Literal["good", "usable", "poor"]

MAX_CONDITION_NUMBER = 1e4
"""Beyond it some parameters follow the noise rather than the robot (methods, section 6)."""
_GOOD = 0.15
_USABLE = 0.4
"""Relative residual of the worst joint while it moves, up to which a result is good, or usable."""
_BALANCED = 0.05
"""Share of the energy turnover that a joint's work may be off by."""
_MEMORY = 0.3
"""s; residuals that stay alike for longer are not noise but something left out of the model."""


@dataclass(frozen=True)
class Verdict:
    """Attributes: the grade; ``because``, the reasons; ``advice``, what would help."""

    grade: Grade
    because: tuple[str, ...]
    advice: tuple[str, ...]

    def __str__(self) -> str:
        advice = f"; {'; '.join(self.advice)}" if self.advice else ""
        return f"{self.grade}: {'; '.join(self.because)}{advice}"

    def to_document(self) -> dict[str, Any]:
        return {"grade": self.grade, "because": list(self.because), "advice": list(self.advice)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        return cls(document["grade"], tuple(document["because"]), tuple(document["advice"]))


def judge(
    train: ValidationReport,
    validation: ValidationReport | None,
    condition_number: float,
    undetermined: Sequence[str],
) -> Verdict:
    """Judge a result by its error on held-out motion where there is any, and by its condition number."""
    held_out = validation.pooled["moving"] if validation else None
    proven = held_out is not None and bool(np.any(held_out.samples))
    relative = held_out.relative if held_out is not None and proven else train.pooled["moving"].relative
    worst = float(np.nanmax(relative))
    joint = int(np.nanargmax(relative)) + 1
    motion = "held-out motion" if proven else "the motion it was estimated from"
    because = [f"on {motion} the residual of the worst joint, {joint}, is {worst:.0%} of its torque"]
    advice = []
    grade: Grade = "good" if worst <= _GOOD else "usable" if worst <= _USABLE else "poor"
    if grade != "good":
        advice.append(f"look at the friction of joint {joint}, the largest error of most drives")
    if not proven:
        grade = "usable" if grade == "good" else grade
        advice.append("validate on a different motion")
    judged = validation if validation is not None and proven else train
    imbalance = _unbalanced(judged)
    if imbalance:
        grade = "usable" if grade == "good" else grade
        because.append(imbalance)
        advice.append("check the drive gains and the friction of those joints")
    remembering = _remembering(judged)
    if remembering and grade != "good":
        because.append(remembering)
        advice.append("try friction that depends on load, hysteresis or warm-up")
    if undetermined:
        grade = "usable" if grade == "good" else grade
        because.append(
            f"the condition number is {condition_number:.3g}, so that {', '.join(undetermined)} are hardly determined"
        )
        advice.append("excite the robot with a motion optimised for identification")
    return Verdict(grade, tuple(because), tuple(advice))


def _unbalanced(report: ValidationReport) -> str | None:
    """Say which joints spend another energy than the model does, if any."""
    if report.energy is None:
        return None
    share = report.energy.relative
    wrong = np.flatnonzero(np.nan_to_num(np.abs(share)) > _BALANCED)
    return f"the work of joints {_listed(wrong)} is off by up to {np.nanmax(np.abs(share)):.0%}" if wrong.size else None


def _remembering(report: ValidationReport) -> str | None:
    """Say which joints' residuals are not noise, if any."""
    if report.whiteness is None:
        return None
    long = np.flatnonzero(np.nan_to_num(report.whiteness.correlation_time) > _MEMORY)
    if not long.size:
        return None
    return f"the residuals of joints {_listed(long)} stay alike for more than {_MEMORY:g} s: they are not noise"


def _listed(joints: Iterable[int]) -> str:
    return ", ".join(str(j + 1) for j in joints)
