"""Whether a robot is still the one that was identified, joint by joint, and if not, what has changed.

A new recording's torque is explained by the identified model, whose parameters are known to within their covariance.
What that leaves may be explained by other friction of a joint, by a body that the robot carries, or by a sensor of
another gain. These are taken in one at a time, the most significant first, for as long as one is significant
(likelihood ratio) and not negligible; so a payload is not taken for friction of all joints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from core.errors import InputError
from core.pipelines.identification import Identification
from core.pipelines.payload import PayloadRuns
from core.recordings.recording import Recording

Array = NDArray[np.float64]
Cause = Literal["friction", "payload", "sensor"]

_NEGLIGIBLE, _NEGLIGIBLE_FRICTION = 0.03, 0.15
"""Share of a joint's torque, or of its friction's, that a change has to make up before it counts."""
_USUAL = 0.5
"""Share of the error that the model always left, likewise: models are not exact, and differ from motion to motion."""
_MOST_ROWS = 20_000
"""Of longer recordings only some rows are taken, evenly spread."""
_ROUNDING = 1e-10
_BANDWIDTH = 1.3
"""Rows over which residuals are taken to be alike, over the square root of their number, as for covariances."""


@dataclass(frozen=True)
class Change:
    """Something that has changed since the robot was identified.

    Attributes
    ----------
    cause : what it is.
    joints : which, from 0, feel it: one for friction and sensor, those whose torque changes notably for a payload.
    p_value : how likely noise alone would look like that.
    values : what changed by how much, SI: ``fc2``, ``m``, ``gain3`` (a share).
    rms : (n,) torque that it makes up, moving or not.
    """

    cause: Cause
    joints: tuple[int, ...]
    p_value: float
    values: dict[str, float]
    rms: Array

    def to_document(self) -> dict[str, Any]:
        return {
            "cause": self.cause,
            "joints": [joint + 1 for joint in self.joints],
            "p_value": self.p_value,
            "values": self.values,
            "rms": self.rms.tolist(),
        }


@dataclass(frozen=True)
class DriftTest:
    """What a comparison with the identified model found.

    Attributes
    ----------
    joint_names, unit : of the robot, and of its torque.
    changes : what has changed, the most significant first; empty where the robot is as it was.
    rms : (n,) error of the model on the new recordings.
    unexplained : (n,) what is left of it after all changes.
    usual : (n,) error on held-out motion when it was identified, or on the training where there was none.
    """

    joint_names: tuple[str, ...]
    unit: str
    changes: tuple[Change, ...]
    rms: Array
    unexplained: Array
    usual: Array

    @property
    def drifted(self) -> tuple[int, ...]:
        """Joints, from 0, that are not as they were."""
        return tuple(sorted({joint for change in self.changes for joint in change.joints}))

    def __str__(self) -> str:
        if not self.changes:
            return "the robot is as it was identified"
        return "; ".join(self._told(change) for change in self.changes)

    def _told(self, change: Change) -> str:
        sizes = ", ".join(f"{name} {value:+.3g}" for name, value in change.values.items())
        where = "" if change.cause == "payload" else f" of {self.joint_names[change.joints[0]]}"
        return f"{change.cause}{where} has changed ({sizes}; up to {change.rms.max():.3g} {self.unit})"

    def to_document(self) -> dict[str, Any]:
        """Return JSON-serialisable data."""
        return {
            "joint_names": list(self.joint_names),
            "unit": self.unit,
            "changes": [change.to_document() for change in self.changes],
            "drifted": [joint + 1 for joint in self.drifted],
            "rms": self.rms.tolist(),
            "unexplained": self.unexplained.tolist(),
            "usual": self.usual.tolist(),
            "summary": str(self),
        }


def drift(identified: Identification, recordings: Sequence[Recording], *, level: float = 1e-3) -> DriftTest:
    """Compare a robot with what was identified.

    Parameters
    ----------
    recordings : of the robot as it is now; half a minute of motion of all joints will do.
    level : probability that a robot that is as it was is said to have changed, by noise.

    Raises
    ------
    InputError
        There is no recording.
    RecordingError, IdentificationError
        A recording cannot be prepared, lacks the signal, or is of another robot.
    """
    if not recordings:
        raise InputError("there is no recording to compare with", code="recordings-missing")
    rows = _Rows.of(identified, recordings)
    usual = _usual(identified)
    spread = np.maximum(identified.residual_std_, np.finfo(np.float64).tiny)
    known = np.asarray(np.linalg.pinv(identified.covariance_, hermitian=True), dtype=np.float64)
    everything = _Fit(rows, known, 1.0 / spread**2, range(len(rows.candidates)))
    # what the whole of them leaves is noise, or what no candidate explains: it says how alike rows are
    left = rows.residual - everything.torque(range(len(rows.candidates)))
    weights = 1.0 / (spread**2 * _alike(left, rows.oversampling))
    least = [np.maximum(rows.size(candidate), _USUAL * usual) for candidate in rows.candidates]
    chosen, p_values = _selected(rows, known, weights, least, level)
    fit = _Fit(rows, known, weights, chosen)
    changes = tuple(_change(fit, number, p, least[number]) for number, p in zip(chosen, p_values, strict=True))
    unexplained = rows.residual - fit.torque(chosen)
    names = identified.model.joint_names
    return DriftTest(names, identified.unit, changes, _rms(rows.residual), _rms(unexplained), usual)


class _Candidate(NamedTuple):
    """Something that may have changed: its cause, the joint it is of (none for a payload), and its columns."""

    cause: Cause
    joint: int | None
    names: tuple[str, ...]
    columns: slice


@dataclass(frozen=True, eq=False)
class _Rows:
    """Columns (N, n, p + c) of the identified parameters and of all candidates; torque (N, n), what the model leaves
    of it, and its friction."""

    columns: Array
    residual: Array
    torque: Array
    friction: Array
    known: int
    candidates: tuple[_Candidate, ...]
    oversampling: float

    @classmethod
    def of(cls, identified: Identification, recordings: Sequence[Recording]) -> Self:
        runs = PayloadRuns(identified, recordings, [])
        known = len(identified.names)
        observations = runs.observations(np.append(identified.parameters_, np.zeros(len(runs.names))))
        every = max(1, sum(len(block.effort) for block in observations.blocks()) // _MOST_ROWS)
        blocks = [(block.columns[::every], block.effort[::every]) for block in observations.blocks()]
        own, torque = np.concatenate([c for c, _ in blocks]), np.concatenate([e for _, e in blocks])
        expected = own[:, :, :known] @ identified.parameters_
        rigid = own[:, :, : identified.base.count] @ identified.parameters_[: identified.base.count]
        laws, candidates = [], [_Candidate("payload", None, runs.names, slice(known, own.shape[2]))]
        start = own.shape[2]
        for joint, (part, names) in enumerate(_laws(identified)):
            laws.append(_of_joint(own[:, joint, part], joint, own.shape[1]))
            candidates.append(_Candidate("friction", joint, names, slice(start, start + len(names))))
            start += len(names)
        for joint in range(own.shape[1]):
            laws.append(_of_joint(expected[:, joint, None], joint, own.shape[1]))
            candidates.append(_Candidate("sensor", joint, (f"gain{joint + 1}",), slice(start, start + 1)))
            start += 1
        columns = np.concatenate([own, *laws], axis=2)
        oversampling = max(1.0, observations.oversampling / every)
        return cls(columns, torque - expected, torque, expected - rigid, known, tuple(candidates), oversampling)

    @cached_property
    def grams(self) -> Array:
        """``X^T X`` (n, P, P) of each joint's columns: every fit is one of these, in part."""
        return np.stack([X.T @ X for X in np.moveaxis(self.columns, 1, 0)])

    @cached_property
    def products(self) -> Array:
        """``X^T r`` (n, P) of each joint's columns and residual."""
        return np.asarray(np.einsum("kjp,kj->jp", self.columns, self.residual))

    def size(self, candidate: _Candidate) -> Array:
        """Return the torque (n,) from which on a change of this kind counts."""
        if candidate.cause == "friction":
            return _NEGLIGIBLE_FRICTION * _rms(self.friction)
        return _NEGLIGIBLE * _rms(self.torque)


class _Fit:
    """Changes of identified parameters, of which so much is known (information, p x p), and of some candidates."""

    def __init__(self, rows: _Rows, known: Array, weights: Array, chosen: Sequence[int]) -> None:
        self.rows = rows
        parts = [np.arange(rows.known), *(np.r_[rows.candidates[number].columns] for number in chosen)]
        index = np.concatenate(parts)
        normal = np.tensordot(weights, rows.grams, 1)[np.ix_(index, index)]
        normal[: rows.known, : rows.known] += known
        right = (weights @ rows.products)[index]
        scale = 1.0 / np.sqrt(np.maximum(np.diag(normal), np.finfo(np.float64).tiny))
        solved = np.linalg.lstsq(normal * scale * scale[:, None], right * scale, rcond=_ROUNDING)[0] * scale
        self.coefficients = np.zeros(rows.columns.shape[2])
        self.coefficients[index] = solved
        self.gain = float(right @ solved)
        """By how much the weighted sum of squares falls."""

    def torque(self, chosen: Sequence[int]) -> Array:
        """Return the torque (N, n) of some of the candidates."""
        index = np.concatenate([np.r_[self.rows.candidates[number].columns] for number in chosen] or [np.zeros(0, int)])
        return np.asarray(self.rows.columns[:, :, index] @ self.coefficients[index])

    def rms(self, number: int) -> Array:
        """Return the root mean square (n,) of one candidate's torque."""
        part = self.rows.candidates[number].columns
        own, gram = self.coefficients[part], self.rows.grams[:, part, part]
        square = np.einsum("a,jab,b->j", own, gram, own) / len(self.rows.columns)
        return np.asarray(np.sqrt(np.maximum(square, 0.0)))


def _selected(
    rows: _Rows, known: Array, weights: Array, least: Sequence[Array], level: float
) -> tuple[list[int], list[float]]:
    """Take candidates in while one is significant and not negligible; return their numbers and p-values."""
    chosen: list[int] = []
    p_values: list[float] = []
    present = _Fit(rows, known, weights, chosen).gain
    while len(chosen) < len(rows.candidates):
        found = []
        for number in sorted(set(range(len(rows.candidates))) - set(chosen)):
            fit = _Fit(rows, known, weights, [*chosen, number])
            freedom = len(rows.candidates[number].names)
            p = float(scipy.stats.chi2.sf(fit.gain - present, freedom))
            if p < level / len(rows.candidates) and np.any(fit.rms(number) > least[number]):
                # p-values of all that is clear are zero; what explains the most, for its freedom, still tells (BIC)
                found.append((freedom * log(rows.residual.size) - fit.gain, number, p, fit.gain))
        if not found:
            break
        _, number, p, present = min(found)
        chosen.append(number)
        p_values.append(p)
    return chosen, p_values


def _change(fit: _Fit, number: int, p_value: float, least: Array) -> Change:
    candidate = fit.rows.candidates[number]
    rms = fit.rms(number)
    joints = np.flatnonzero(rms > least).tolist() if candidate.joint is None else [candidate.joint]
    values = dict(zip(candidate.names, fit.coefficients[candidate.columns].tolist(), strict=True))
    return Change(candidate.cause, tuple(joints), p_value, values, rms)


def _laws(identified: Identification) -> Iterator[tuple[slice, tuple[str, ...]]]:
    """Yield where each joint's law of friction is among the parameters, and their names."""
    start = identified.base.count
    for number, joint in enumerate(identified.friction.joints, 1):
        names = joint.law.parameter_names
        yield slice(start, start + len(names)), tuple(f"{name}{number}" for name in names)
        start += len(joint.parameter_names)


def _of_joint(columns: Array, joint: int, n_joints: int) -> Array:
    """Return columns (N, k) of one joint as columns (N, n, k) of all."""
    result = np.zeros((len(columns), n_joints, columns.shape[1]))
    result[:, joint] = columns
    return result


def _alike(residual: Array, oversampling: float) -> Array:
    """Return how many rows of each joint (n,) are worth an independent one (Newey and West 1987)."""
    width = max(1, round(_BANDWIDTH * (len(residual) * oversampling) ** 0.5))
    power = np.maximum(np.sum(residual**2, axis=0), np.finfo(np.float64).tiny)
    result = np.ones(residual.shape[1])
    for lag in range(1, min(width, len(residual))):
        result += 2.0 * (1.0 - lag / width) * np.sum(residual[lag:] * residual[:-lag], axis=0) / power
    return np.maximum(result, 1.0)


def _usual(identified: Identification) -> Array:
    """Return the error (n,) that the model left on held-out motion, or else on its own."""
    report = identified.validation or identified.train
    return np.nan_to_num(report.pooled["all"].rms)


def _rms(values: Array) -> Array:
    return np.asarray(np.sqrt(np.mean(values**2, axis=0)))
