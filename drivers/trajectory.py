"""Files that drivers are given: a trajectory on a uniform grid, and currents to add along it."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError

Array = NDArray[np.float64]


class TrajectoryFileError(InputError):
    """A trajectory file is missing, foreign, not uniform in time or not finite."""

    code = "trajectory-file-invalid"


@dataclass(frozen=True)
class PlayableTrajectory:
    """``q`` (N, n) rad and ``qd`` (N, n) rad/s every ``period`` s. Limits are checked elsewhere."""

    period: float
    q: Array
    qd: Array

    @classmethod
    def load(cls, path: Path, n_joints: int) -> Self:
        """Read an .npz with ``t`` (N,), ``q`` and ``qd`` (N, n); other arrays in it are ignored.

        Raises
        ------
        TrajectoryFileError
        """
        try:
            with path.open("rb") as stored, np.load(stored, allow_pickle=False) as file:
                t, q, qd = (np.ascontiguousarray(file[name], dtype=np.float64) for name in ("t", "q", "qd"))
        except KeyError as error:
            raise TrajectoryFileError(f"{path}: {error.args[0]}; needed are t, q and qd") from error
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            raise TrajectoryFileError(f"{path}: not a trajectory file: {error}") from error
        if t.ndim != 1 or t.size < 2 or q.shape != (t.size, n_joints) or qd.shape != q.shape:
            raise TrajectoryFileError(
                f"{path}: t, q, qd have shapes {t.shape}, {q.shape}, {qd.shape}; needed are (N,), "
                f"(N, {n_joints}), (N, {n_joints}) with N >= 2"
            )
        if not (np.isfinite(t).all() and np.isfinite(q).all() and np.isfinite(qd).all()):
            raise TrajectoryFileError(f"{path}: a value is not finite")
        period = float(t[-1] - t[0]) / (t.size - 1)
        if period <= 0 or np.abs(np.diff(t) - period).max() > 1e-6 * max(period, 1e-3):
            raise TrajectoryFileError(f"{path}: the time steps are not uniform")
        return cls(period, q, qd)

    @property
    def duration(self) -> float:
        """Time from the first to the last pose, s."""
        return float(self.period * (self.q.shape[0] - 1))

    @property
    def fastest(self) -> tuple[int, float]:
        """Joint (from 0) and rad/s of the largest step between two poses."""
        speed = np.abs(np.diff(self.q, axis=0)).max(axis=0) / self.period
        joint = int(np.argmax(speed))
        return joint, float(speed[joint])

    def pose(self, time: float) -> Array:
        """Return q (n,) at ``time`` s, by cubic Hermite interpolation; the end poses before and after."""
        at = min(max(time / self.period, 0.0), self.q.shape[0] - 1.0)
        row = min(int(at), self.q.shape[0] - 2)
        u = at - row
        q0, q1 = self.q[row], self.q[row + 1]
        m0, m1 = self.qd[row] * self.period, self.qd[row + 1] * self.period
        step = q1 - q0
        pose: Array = q0 + u * (m0 + u * ((3.0 * step - 2.0 * m0 - m1) + u * (m0 + m1 - 2.0 * step)))
        return pose


@dataclass(frozen=True)
class FeedforwardCurrents:
    """Motor currents to add while a trajectory is played: ``current`` (N, n) A every ``period`` s from its start."""

    period: float
    current: Array

    @classmethod
    def load(cls, path: Path, n_joints: int) -> Self:
        """Read an .npz with ``period`` and ``current`` (N, n).

        Raises
        ------
        TrajectoryFileError
        """
        try:
            with path.open("rb") as stored, np.load(stored, allow_pickle=False) as file:
                period = float(file["period"])
                current = np.ascontiguousarray(file["current"], dtype=np.float64)
        except KeyError as error:
            raise TrajectoryFileError(f"{path}: {error.args[0]}; needed are period and current") from error
        except (OSError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise TrajectoryFileError(f"{path}: not a file of feedforward currents: {error}") from error
        if current.ndim != 2 or current.shape[0] < 2 or current.shape[1] != n_joints:
            raise TrajectoryFileError(f"{path}: current has shape {current.shape}; needed is (N, {n_joints}), N >= 2")
        if not (np.isfinite(period) and period > 0.0 and np.isfinite(current).all()):
            raise TrajectoryFileError(f"{path}: a value is not finite, or the period not positive")
        return cls(period, current)
