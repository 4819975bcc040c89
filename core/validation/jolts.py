"""Short bursts of residual that no model of the motion explains, such as a robot braking into its stop."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_OUTLYING = 6.0
"""A residual beyond this many robust standard deviations is outlying."""
_JOINED = 0.1
"""s; outlying samples closer together than this belong to one jolt."""
_SHORT = 0.5
"""s; what lasts longer is a fault of the model, not a jolt."""
_SHARE = 1.0 / 3.0
"""Only jolts that hold at least this share of a joint's squared error matter."""


@dataclass(frozen=True)
class Jolt:
    """A burst of residual in one joint.

    Attributes
    ----------
    recording, joint : where; the joint counts from 1.
    start, stop : s, controller time.
    peak : largest absolute residual, unit of the torque.
    share : of the joint's squared error in the recording.
    """

    recording: str
    joint: int
    start: float
    stop: float
    peak: float
    share: float

    def __str__(self) -> str:
        return (
            f"{self.recording}: a jolt of joint {self.joint} at t = {self.start:.2f}..{self.stop:.2f} s holds "
            f"{self.share:.0%} of its squared error"
        )

    def to_document(self) -> dict[str, Any]:
        return asdict(self)


def find_jolts(recording: str, times: Array, residual: Array) -> list[Jolt]:
    """Return the jolts in a residual (N, n) at times (N,), the heaviest first."""
    jolts = []
    for joint, own in enumerate(residual.T, 1):
        squared = own**2
        deviation = 1.4826 * float(np.median(np.abs(own - np.median(own))))
        outlying = np.flatnonzero(np.abs(own) > _OUTLYING * deviation)
        if not outlying.size:
            continue
        for burst in np.split(outlying, np.flatnonzero(np.diff(times[outlying]) > _JOINED) + 1):
            part = slice(burst[0], burst[-1] + 1)
            start, stop = float(times[burst[0]]), float(times[burst[-1]])
            share = float(squared[part].sum() / squared.sum())
            if share >= _SHARE and stop - start <= _SHORT:
                jolts.append(Jolt(recording, joint, start, stop, float(np.abs(own[part]).max()), share))
    return sorted(jolts, key=lambda jolt: -jolt.share)
