"""Feedforward tables: the torque an identified model predicts along a trajectory, cycle by cycle."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError
from core.excitation.trajectory import TrajectorySamples
from core.friction.laws import SIGN_WIDTH
from core.models import Mechanism
from core.pipelines.identification import Identification

Array = NDArray[np.float64]
Float32 = NDArray[np.float32]

_STORED = np.dtype("<f4")
_REVERSAL = {"revolute": SIGN_WIDTH, "prismatic": 0.1 * SIGN_WIDTH}
"""rad/s (m/s) over which dry friction changes its sign. A slide that moves by centimetres is seldom fast enough for the
width of a turning joint: most of its motion would be left without its friction."""


@dataclass(frozen=True)
class Saturation:
    """A joint's predicted torque beyond its limit: the drive cannot deliver it.

    Attributes
    ----------
    joint : from 1.
    time : s, of the first such sample.
    samples : how many.
    peak, limit : N·m (N).
    """

    joint: int
    time: float
    samples: int
    peak: float
    limit: float


@dataclass(frozen=True, eq=False)
class FeedforwardTable:
    """Torque and motor current along a trajectory.

    Attributes
    ----------
    cycle_time : s between rows.
    torque : (N, n) N·m (N), single precision as it is delivered.
    current : (N, n) A, or None without drive gains.
    largest_step : (n,) largest change of torque from one row to the next, N·m (N).
    saturations : joints that leave their torque limit; nothing is clipped.
    """

    cycle_time: float
    torque: Float32
    current: Float32 | None
    largest_step: Array
    saturations: tuple[Saturation, ...]

    @property
    def samples(self) -> int:
        return int(self.torque.shape[0])

    @property
    def n_joints(self) -> int:
        return int(self.torque.shape[1])

    @cached_property
    def torque_bytes(self) -> bytes:
        """The torque as float32, little endian, row by row."""
        return self.torque.astype(_STORED).tobytes()

    @cached_property
    def current_bytes(self) -> bytes | None:
        """The current in the same form, if there is any."""
        return None if self.current is None else self.current.astype(_STORED).tobytes()

    @property
    def crc32(self) -> int:
        """CRC-32 (ISO 3309, as zlib and Ethernet use it) of ``torque_bytes``."""
        return zlib.crc32(self.torque_bytes)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of cycle time, shape and bytes."""
        content = hashlib.sha256(f"{self.cycle_time!r} {self.samples} {self.n_joints}\n".encode())
        content.update(self.torque_bytes)
        content.update(self.current_bytes or b"")
        return content.hexdigest()

    def to_document(self) -> dict[str, Any]:
        """Return what is to be known about the table besides its numbers, JSON-serialisable."""
        return {
            "cycle_time": self.cycle_time,
            "samples": self.samples,
            "n_joints": self.n_joints,
            "crc32": self.crc32,
            "digest": self.digest,
            "peak_torque": np.abs(self.torque).max(axis=0).tolist(),
            "largest_step": self.largest_step.tolist(),
            "saturations": [asdict(saturation) for saturation in self.saturations],
        }


def build_table(
    identification: Identification, samples: TrajectorySamples, gains: ArrayLike | None = None
) -> FeedforwardTable:
    """Predict the torque along a trajectory sampled at the controller's cycle.

    Dry friction changes sign smoothly, so the torque does not jump where a joint reverses.

    Parameters
    ----------
    gains : (n,) drive gains in N·m/A (N/A); by default those of the identification, else of its model.

    Raises
    ------
    InputError
        The trajectory is of another number of joints, the gains are not n positive numbers, or the
        identification explains current and no gains are known.
    IdentificationError
        The friction of a joint drives it (``friction-drives``).
    """
    identification.require_braking()
    model = identification.model
    if samples.n_joints != model.n_joints:
        raise InputError(f"the trajectory has {samples.n_joints} joints, {model.name} has {model.n_joints}")
    used = _gains(identification, gains)
    widths = [_REVERSAL[kind] for kind in model.joint_types]
    rounded = replace(identification, friction=identification.friction.with_sign_widths(widths))
    effort = rounded.predict(samples.q, samples.qd, samples.qdd, period=samples.period, smooth=True)
    current: Array | None
    if identification.unit == "A":
        if used is None:
            raise InputError(
                "the identification explains current, and no drive gains are known to turn it into torque; give "
                "the gains",
                code="gains-missing",
            )
        torque, current = effort * used, effort
    else:
        torque, current = effort, None if used is None else effort / used
    return FeedforwardTable(
        cycle_time=samples.period,
        torque=torque.astype(np.float32),
        current=None if current is None else current.astype(np.float32),
        largest_step=np.abs(np.diff(torque, axis=0)).max(axis=0),
        saturations=_saturations(torque, samples.t, model),
    )


def _gains(identification: Identification, gains: ArrayLike | None) -> Array | None:
    n = identification.model.n_joints
    known = (gains, identification.effort.gains, identification.model.drive_gains)
    chosen = next((value for value in known if value is not None), None)
    if chosen is None:
        return None
    values = np.asarray(chosen, dtype=np.float64)
    if values.shape != (n,) or not np.all(np.isfinite(values) & (values > 0.0)):
        raise InputError(f"gains must be {n} positive numbers in N·m/A, got {values.tolist()}", code="gains-invalid")
    return values


def _saturations(torque: Array, t: Array, model: Mechanism) -> tuple[Saturation, ...]:
    size = np.abs(torque)
    beyond = size > model.limits.torque
    return tuple(
        Saturation(
            joint=j + 1,
            time=float(t[np.argmax(beyond[:, j])]),
            samples=int(beyond[:, j].sum()),
            peak=float(size[:, j].max()),
            limit=float(model.limits.torque[j]),
        )
        for j in np.flatnonzero(beyond.any(axis=0)).tolist()
    )
