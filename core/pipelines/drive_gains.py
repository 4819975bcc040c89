"""Drive gains from the controller's own targets, where it publishes both torque and current."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_erosion

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


@dataclass(frozen=True)
class DriveGains:
    """Drive gains of n joints as the controller itself uses them.

    Attributes
    ----------
    values : (n,) N·m/A (N/A); NaN where the recordings do not tell.
    sources : (n) ``rest`` where they come from standing samples, ``motion`` where torque and current were
        proportional throughout, None where neither tells.
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
                "they carry no load, and in motion target current is not proportional to target torque. Record "
                "poses in which gravity loads these joints, or give the gains",
                code="gains-undetermined",
                joints=missing,
            )
        return self.values


def from_targets(recordings: Sequence[Recording]) -> DriveGains:
    """Return the ratio of target torque to target current, joint by joint.

    At rest a controller holds its model's gravity torque and nothing else, so the ratio is its drive gain. In
    motion it may add friction and rotor inertia to the current; only where it evidently adds nothing, so that
    torque and current are proportional all the time, moving samples serve joints without load at rest.

    Raises
    ------
    IdentificationError
        A recording has no target torque or no target current.
    """
    torques, currents, rests = [], [], []
    for recording in recordings:
        if recording.target_torque is None or recording.target_current is None:
            raise IdentificationError(
                f"{recording.name}: drive gains cannot be read from it, the controller's target torque or "
                "target current is missing; give the gains",
                code="gains-undetermined",
            )
        torques.append(recording.target_torque)
        currents.append(recording.target_current)
        rests.append(_at_rest(recording))
    torque, current, rest = np.concatenate(torques), np.concatenate(currents), np.concatenate(rests)
    found = [_one_gain(torque[:, j], current[:, j], rest) for j in range(torque.shape[1])]
    return DriveGains(np.array([value for value, _ in found]), tuple(source for _, source in found))


def _at_rest(recording: Recording) -> NDArray[np.bool_]:
    """Return which samples lie well inside a stretch in which no joint moves."""
    still = np.abs(recording.qd).max(axis=1) < _STILL
    samples = int(_SETTLED / float(np.median(np.diff(recording.t))))
    return np.asarray(binary_erosion(still, np.ones(2 * samples + 1, dtype=np.bool_), border_value=1))


def _one_gain(torque: Array, current: Array, rest: NDArray[np.bool_]) -> tuple[float, Source | None]:
    everywhere = np.ones_like(rest)
    choices: tuple[tuple[Source, NDArray[np.bool_]], ...] = (("rest", rest), ("motion", everywhere))
    for source, chosen in choices:
        i, tau = current[chosen], torque[chosen]
        if not i.size or np.abs(i).max() < _LEAST_CURRENT:
            continue
        gain = float(i @ tau / (i @ i))
        if gain > 0.0 and np.linalg.norm(tau - gain * i) <= _MISFIT * np.linalg.norm(tau):
            return gain, source
    return float("nan"), None
