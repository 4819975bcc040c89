"""A recording in memory: what every reader returns and every pipeline takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import RecordingError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Recording:
    """Joint-space signals of one uninterrupted motion, on the controller's own clock.

    Attributes
    ----------
    name : where it came from, for messages and provenance.
    t : (N,) s, strictly increasing, not necessarily uniform.
    q : (N, n) rad (m for prismatic joints).
    qd : (N, n) rad/s (m/s), or None where only position was recorded.
    current : (N, n) A, or None.
    torque : (N, n) N·m measured joint torque (or sensor force, N), or None.
    target_q, target_qd, target_current, target_torque : (N, n) or None, the controller's own.
    joint_names : (n) where the file names its joints, else None: the columns are taken to be in the model's order.
    lost : samples known to be missing between the first and the last.
    provenance : JSON-serialisable facts: path, sha256, format, rows, repairs.

    Raises
    ------
    RecordingError
        Shapes disagree, stamps do not increase, or a value is not finite.
    """

    name: str
    t: Array
    q: Array
    qd: Array | None = None
    current: Array | None = None
    torque: Array | None = None
    target_q: Array | None = None
    target_qd: Array | None = None
    target_current: Array | None = None
    target_torque: Array | None = None
    joint_names: tuple[str, ...] | None = None
    lost: int = 0
    provenance: dict[str, Any] = field(default_factory=dict)

    SIGNALS = ("q", "qd", "current", "torque", "target_q", "target_qd", "target_current", "target_torque")

    def __post_init__(self) -> None:
        if self.q.ndim != 2 or self.q.shape[1] == 0:
            raise RecordingError(
                f"{self.name}: q has shape {self.q.shape}, expected (N, n)", code="recording-shape", signal="q"
            )
        if self.joint_names is not None and len(set(self.joint_names)) != self.n_joints:
            raise RecordingError(
                f"{self.name}: {self.n_joints} joints need as many different names, got {', '.join(self.joint_names)}",
                code="joint-names-differ",
            )
        if self.t.ndim != 1 or self.t.size < 2:
            raise RecordingError(f"{self.name}: a recording needs at least two samples, got {self.t.size}")
        for signal in self.SIGNALS:
            value = getattr(self, signal)
            if value is None:
                continue
            if value.shape != self.q.shape or value.shape[0] != self.t.size:
                raise RecordingError(
                    f"{self.name}: {signal} has shape {value.shape}, expected {(self.t.size, self.n_joints)}",
                    code="recording-shape",
                    signal=signal,
                )
            bad = np.argwhere(~np.isfinite(value))
            if bad.size:
                row, joint = bad[0]
                raise RecordingError(
                    f"{self.name}: {signal} of joint {joint + 1} is not finite at sample {row + 1} "
                    f"({len(bad)} such values); cut the recording there or repair it first",
                    row=int(row + 1),
                    joint=int(joint + 1),
                )
        step = np.diff(self.t)
        if not np.all(step > 0):
            row = int(np.argmax(~(step > 0)))
            raise RecordingError(
                f"{self.name}: time does not increase at sample {row + 2} "
                f"(t = {self.t[row]:.6f} s, then {self.t[row + 1]:.6f} s)",
                row=row + 2,
            )

    @property
    def n_joints(self) -> int:
        return int(self.q.shape[1])

    @property
    def duration(self) -> float:
        """Time between the first and the last sample, s."""
        return float(self.t[-1] - self.t[0])

    def present(self) -> dict[str, Array]:
        """Return the signals (N, n) that were recorded, by name."""
        signals = {name: getattr(self, name) for name in self.SIGNALS}
        return {name: value for name, value in signals.items() if value is not None}

    def rates(self) -> Array:
        """Return ``qd`` (N, n), or the difference quotient of ``q`` where there is none.

        Good enough to tell motion from rest. Estimates take filtered signals, see ``core.signals.prepare``.
        """
        return np.asarray(np.gradient(self.q, self.t, axis=0)) if self.qd is None else self.qd

    def for_joints(self, joint_names: Sequence[str]) -> Recording:
        """Return the recording with the columns of the named joints, in that order.

        Recordings whose file does not name its joints are returned as they are.

        Raises
        ------
        RecordingError
            Some of the joints are not in the recording (code ``joint-names-differ``).
        """
        if self.joint_names is None or self.joint_names == tuple(joint_names):
            return self
        missing = [name for name in joint_names if name not in self.joint_names]
        if missing:
            raise RecordingError(
                f"{self.name}: it has no joint {', '.join(missing)}; it is of {', '.join(self.joint_names)}. Rename "
                "them by joint_names of the column map, or take the model this robot belongs to",
                code="joint-names-differ",
                missing=missing,
                recorded=list(self.joint_names),
            )
        order = [self.joint_names.index(name) for name in joint_names]
        signals: dict[str, Any] = {
            s: None if getattr(self, s) is None else np.ascontiguousarray(getattr(self, s)[:, order])
            for s in self.SIGNALS
        }
        return replace(self, joint_names=tuple(joint_names), **signals)

    def rows(self, first: int, last: int) -> Recording:
        """Return samples ``first``..``last``, 1-based and inclusive, as the logs' own row numbers are."""
        if not 1 <= first < last <= self.t.size:
            raise RecordingError(
                f"{self.name}: rows {first}-{last} do not lie within 1-{self.t.size} with first < last"
            )
        cut = slice(first - 1, last)
        signals: dict[str, Any] = {s: None if getattr(self, s) is None else getattr(self, s)[cut] for s in self.SIGNALS}
        before = int(self.provenance.get("rows", [1])[0]) - 1  # rows stay those of the file when cut twice
        provenance = {**self.provenance, "rows": [before + first, before + last]}
        return replace(self, t=self.t[cut], provenance=provenance, **signals)
