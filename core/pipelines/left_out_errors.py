"""Errors on left-out recordings at the price of one fit: what compositions of friction are compared by.

The normal equations of all recordings without one are those of all minus those of that one, so base parameters and
coefficients of friction are estimated without the recording they are judged on. Shapes and load are not: they are
those of a fit to all. Where that flatters it does so by about a per cent, which is why what is chosen is scored anew
by ``Folds``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.pipelines.friction_shapes import FittedFriction, FrictionData
from core.pipelines.normal_equations import eliminate, joint_weights, regularised_solution
from core.signals import Segment

Array = NDArray[np.float64]


class _JointSums(NamedTuple):
    """Normal equations of one joint in one recording, ``[F W tau]``: of all rows, and of those that move."""

    rows: int
    all: Array
    moving_rows: int
    moving: Array


def left_out_rms(data: FrictionData, fitted: FittedFriction, moving_threshold: float) -> Array:
    """Return the RMS residual (recordings, n) while moving, each recording predicted from the others.

    Parameters
    ----------
    fitted : fitted to all recordings of ``data``.
    """
    sums = [_sums(data, i, fitted, moving_threshold) for i in range(len(data.segments))]
    joints = range(fitted.friction.n_joints)
    together = [np.sum([own[j].all for own in sums], axis=0) for j in joints]
    rows = sum(own[0].rows for own in sums)
    rms = np.full((len(sums), len(joints)), np.nan)
    for i, held_out in enumerate(sums):
        others = [together[j] - held_out[j].all for j in joints]
        for j, combination in enumerate(_residuals(fitted, others, rows - held_out[0].rows)):
            if held_out[j].moving_rows:
                squared = float(combination @ held_out[j].moving @ combination)
                rms[i, j] = (max(squared, 0.0) / held_out[j].moving_rows) ** 0.5
    return rms


def residuals(data: FrictionData, fitted: FittedFriction) -> Iterator[tuple[Segment, Array]]:
    """Yield each segment with the residual (n_rows, n) of a fit to all of them."""
    joints = range(fitted.friction.n_joints)
    sums = [_sums(data, i, fitted, 0.0) for i in range(len(data.segments))]
    together = [np.sum([own[j].all for own in sums], axis=0) for j in joints]
    combinations = _residuals(fitted, together, sum(own[0].rows for own in sums))
    for i, segments in enumerate(data.segments):
        for k, segment in enumerate(segments):
            columns = _columns(data, (i, k), fitted)
            yield segment, np.column_stack([own @ v for own, v in zip(columns, combinations, strict=True)])


def _residuals(fitted: FittedFriction, normals: Sequence[Array], rows: int) -> list[Array]:
    """Return, joint by joint, the combination of ``[F W tau]`` that is the residual of least squares."""
    counts = [len(joint.parameter_names) for joint in fitted.friction.joints]
    reduced = [eliminate(o[:k, :k], o[:k, k:], o[k:, k:]) for o, k in zip(normals, counts, strict=True)]
    base, _ = joint_weights(reduced, np.ones(len(counts)), rows)
    parts = zip(normals, counts, strict=True)
    own = [regularised_solution(o[:k, :k], o[:k, -1] - o[:k, k:-1] @ base) for o, k in parts]
    return [np.concatenate([-coefficients, -base, [1.0]]) for coefficients in own]


def _sums(data: FrictionData, recording: int, fitted: FittedFriction, moving_threshold: float) -> list[_JointSums]:
    sums = [_JointSums(0, np.zeros(()), 0, np.zeros(())) for _ in fitted.friction.joints]
    for k, segment in enumerate(data.segments[recording]):
        moving = np.abs(segment.motion.qd[segment.rows]) > moving_threshold
        for j, rows in enumerate(_columns(data, (recording, k), fitted)):
            chosen = rows[moving[:, j]]
            before = sums[j]
            sums[j] = _JointSums(
                before.rows + len(rows),
                before.all + rows.T @ rows,
                before.moving_rows + len(chosen),
                before.moving + chosen.T @ chosen,
            )
    return sums


def _columns(data: FrictionData, at: tuple[int, int], fitted: FittedFriction) -> Iterator[Array]:
    """Yield the filtered rows ``[F W tau]`` of a segment, joint by joint."""
    segment = data.segment(at)
    motion = segment.motion
    if fitted.friction.needs_load:
        motion = replace(motion, link_torque=data.link_torque(at, fitted.base_parameters))
    for j, friction in enumerate(fitted.friction.joints):
        parts = [data.columns(at, motion, friction, j, part) for part in range(len(friction.parts))]
        yield np.hstack([*parts, data.fixed(at, j)])
