"""Between motor current and force sensor: gains, screw inertia and friction of the drives of a parallel robot.

Where force sensors have told what a robot's legs carry, motor current is what is left to explain: with f the force on
the push rod,

    i = c f + (s l'' + friction) / gain,  c = 1 / gain

which is linear in c, s / gain and friction / gain, so that gains come out as well: nobody has to know them, they are on
the scale of the sensors. f is that of the identified model, not the sensor's own reading, whose noise would be in the
regressor. The result predicts current, which is what a drive takes as feedforward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import IdentificationError, InputError
from core.models import LegDrives, SixUPRU
from core.pipelines.identification import Identification
from core.pipelines.identify import PLAIN_FRICTION, identify
from core.recordings.recording import Recording

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FoundDrives:
    """What is to be known of the drives in units of force; each (6,), with standard deviations.

    Attributes
    ----------
    gain, gain_std : N/A.
    screw_inertia, screw_inertia_std : of screw and motor along the leg, kg.
    """

    gain: Array
    gain_std: Array
    screw_inertia: Array
    screw_inertia_std: Array

    def to_document(self) -> dict[str, list[float]]:
        names = ("gain", "gain_std", "screw_inertia", "screw_inertia_std")
        return {name: getattr(self, name).tolist() for name in names}


def identify_drives(
    sensors: Identification,
    train: Sequence[Recording],
    validate: Sequence[Recording] = (),
    *,
    friction: str | Sequence[str] = PLAIN_FRICTION,
    **options: Any,
) -> Identification:
    """Explain motor current by the forces that the sensors' result predicts; see the head of this file.

    Parameters
    ----------
    sensors : the result of ``identify`` on sensor forces, N.
    train, validate : recordings with motor current; those of the sensors' result will do.
    friction : of the cylinders, any composition; it may grow with the load.
    options : as of ``identify``, but for the gains.

    Returns
    -------
    The result in A, of a ``LegDrives`` with the gains that were found, so that feedforward tables come out in A and N.

    Raises
    ------
    InputError
        The sensors' result is of no 6-UPRU robot, or not in N.
    IdentificationError
        As ``identify`` does, or a drive's gain comes out negative.
    """
    robot = sensors.model
    if not isinstance(robot, SixUPRU) or sensors.unit != "N":
        raise InputError(
            f"{robot.name}: drives are identified beside the forces of a 6-UPRU robot's sensors, in N; this result is "
            f"in {sensors.unit}",
            code="sensors-needed",
        )
    standard = sensors.base.standard(sensors.parameters_[: sensors.base.count], robot.parameters)
    drives = LegDrives(robot.with_drive_gains(None).with_parameters(standard))
    bare, held_out = ([replace(recording, torque=None) for recording in group] for group in (train, validate))
    result = identify(drives, bare, held_out, friction=friction, **options)
    shares = result.base.standard(result.parameters_[: result.base.count], np.zeros(12))
    if not np.all(shares[:6] > 0.0):
        legs = [robot.joint_names[j] for j in np.flatnonzero(~(shares[:6] > 0.0))]
        raise IdentificationError(
            f"the drive gains of {', '.join(legs)} come out negative: currents have the other sign than forces, or the "
            "legs carry too little; a positive current pushes the platform away from the base",
            code="gains-undetermined",
            joints=legs,
        )
    known = drives.with_parameters(shares).with_drive_gains(1.0 / shares[:6])
    return replace(result, model=known, provenance={**result.provenance, "model_digest": known.digest()})


def found_drives(result: Identification) -> FoundDrives:
    """Return gains and screw inertia of a result of ``identify_drives``.

    Raises
    ------
    InputError
        It is of something else, or force or screw parameters were left out.
    """
    if not isinstance(result.model, LegDrives) or set(result.base.base_names) != set(result.model.parameter_names):
        raise InputError("this is no complete result of identify_drives", code="drives-needed")
    order = [result.base.base_names.index(name) for name in result.model.parameter_names]
    values, covariance = result.parameters_[order], result.covariance_[np.ix_(order, order)]
    share, screw = values[:6], values[6:]
    slopes = np.column_stack([-screw / share**2, 1.0 / share])
    pairs = np.array([covariance[np.ix_([j, 6 + j], [j, 6 + j])] for j in range(6)])
    return FoundDrives(
        gain=1.0 / share,
        gain_std=np.sqrt(np.diag(covariance)[:6]) / share**2,
        screw_inertia=screw / share,
        screw_inertia_std=np.sqrt(np.einsum("ji,jik,jk->j", slopes, pairs, slopes)),
    )
