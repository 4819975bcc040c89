"""Drive gains from the controller's own targets, where it publishes both torque and current."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from core.errors import IdentificationError
from core.recordings.recording import Recording

Array = NDArray[np.float64]
Source = Literal["rest", "motion"]

_STILL = 0.001
"""rad/s (m/s); a joint slower than this stands."""
_SETTLED = 0.2
"""s around a sample throughout which all joints must stand."""
_LEAST_CURRENT = 0.01
"""A; smaller target currents drown in the digits that controllers publish."""
_MISFIT = 0.02
"""Share of the torque that a constant gain may leave unexplained."""
_SURELY_MOVING = 0.1
"""rad/s (m/s); faster joints have left the range in which friction changes its sign."""
_LEAST_MOVING = 100
"""Fewer moving samples than this tell nothing."""


@dataclass(frozen=True)
class DriveGains:
    """Drive gains of n joints as the controller itself uses them.

    Attributes
    ----------
    values : (n,) N·m/A (N/A); NaN where the recordings do not tell.
    sources : (n) ``rest`` where they come from standing samples, ``motion`` where from moving ones, None
        where neither tells.
    """

    values: Array
    sources: tuple[Source | None, ...]

    def complete(self) -> Array:
        """Return all gains (n,).

        Raises
        ------
        IdentificationError
            The gain of a joint is not known.
        """
        missing = [j + 1 for j, source in enumerate(self.sources) if source is None]
        if missing:
            raise IdentificationError(
                f"the recordings do not tell the drive gains of joints {', '.join(map(str, missing))}: at rest "
                "they carry no load, and in motion the target current does not follow the target torque closely "
                "enough. Record poses in which gravity loads these joints, or give the gains",
                code="gains-undetermined",
                joints=missing,
            )
        return self.values


def from_targets(recordings: Sequence[Recording]) -> DriveGains:
    """Return the ratio of target torque to target current, joint by joint.

    At rest a controller holds its model's gravity torque and nothing else, so the ratio is its drive gain. In
    motion it may add Coulomb and viscous friction to the current; joints without load at rest are read from
    moving samples, provided that such friction explains the difference.

    Raises
    ------
    IdentificationError
        A recording has no target torque or no target current.
    """
    for recording in recordings:
        if recording.target_torque is None or recording.target_current is None:
            raise IdentificationError(
                f"{recording.name}: drive gains cannot be read from it, the controller's target torque or "
                "target current is missing; give the gains",
                code="gains-undetermined",
            )
    torque = np.concatenate([r.target_torque for r in recordings if r.target_torque is not None])
    current = np.concatenate([r.target_current for r in recordings if r.target_current is not None])
    velocity = np.concatenate([_target_velocity(r) for r in recordings])
    rest = np.concatenate([_at_rest(r) for r in recordings])
    found = [_one_gain(torque[:, j], current[:, j], velocity[:, j], rest) for j in range(torque.shape[1])]
    return DriveGains(np.array([value for value, _ in found]), tuple(source for _, source in found))


def _target_velocity(recording: Recording) -> Array:
    return recording.rates() if recording.target_qd is None else recording.target_qd


def _at_rest(recording: Recording) -> NDArray[np.bool_]:
    """Return which samples lie well inside a stretch in which no joint moves."""
    still = np.abs(_target_velocity(recording)).max(axis=1) < _STILL
    samples = int(_SETTLED / float(np.median(np.diff(recording.t))))
    return np.asarray(scipy.ndimage.binary_erosion(still, np.ones(2 * samples + 1, dtype=np.bool_), border_value=1))


def _one_gain(torque: Array, current: Array, velocity: Array, rest: NDArray[np.bool_]) -> tuple[float, Source | None]:
    gain = _slope(torque[rest], current[rest, None])
    if np.isfinite(gain):
        return gain, "rest"
    fast = np.abs(velocity) > _SURELY_MOVING
    if fast.sum() >= _LEAST_MOVING:
        friction = np.column_stack([current[fast], np.sign(velocity[fast]), velocity[fast]])
        gain = _slope(torque[fast], friction)
        if np.isfinite(gain):
            return gain, "motion"
    return float("nan"), None


def _slope(torque: Array, columns: Array) -> float:
    """Return the torque per current, the first of the columns; NaN where the fit does not bear it out."""
    if not len(torque) or np.abs(columns[:, 0]).max() < _LEAST_CURRENT:
        return float("nan")
    solution, _, rank, _ = np.linalg.lstsq(columns, torque, rcond=None)
    misfit = np.linalg.norm(torque - columns @ solution)
    determined = rank == columns.shape[1] and misfit <= _MISFIT * np.linalg.norm(torque)
    return float(solution[0]) if determined and solution[0] > 0.0 else float("nan")
