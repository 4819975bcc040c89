"""The last comparison of a platform's demonstration: what was found against what the virtual plant is.

With ``service.demo.truth`` the only place that reads a plant's truth; an import contract keeps it from everything that
identifies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.excitation import trajectory_from_definition
from drivers.virtual.truth import truth_leg_current
from drivers.virtual.upru_parameters import perturbed_upru, upru_model
from service.demo.platform_flow import PlatformOutcome

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PlatformTruth:
    """Per leg: RMS of (table - truth) in A, and over the truth's own RMS; sensors and drives as found less true.

    ``tare`` N, ``gain`` of the sensors and ``drive_gain`` as shares of the true ones.
    """

    rms: tuple[float, ...]
    relative: tuple[float, ...]
    tare: tuple[float, ...]
    gain: tuple[float, ...]
    drive_gain: tuple[float, ...]


def compare(outcome: PlatformOutcome, seed: int) -> PlatformTruth:
    """Compare table, sensors and drives with those of the plant number ``seed``.

    Sensor gains are found up to a common factor, which the drives' gains share: it is taken out of both.
    """
    plant = perturbed_upru(upru_model(), seed)
    samples = trajectory_from_definition(outcome.definition).sample(outcome.table["cycle_time"])
    truth = truth_leg_current(plant, samples.q, samples.qd, samples.qdd)
    error = np.sqrt(np.mean((outcome.current - truth) ** 2, axis=0))
    sensors = outcome.calibration["sensors"]
    gain = np.array(sensors["gain"]) / plant.sensor_gain
    drive_gain = np.array(outcome.drives_found["gain"]) / plant.drive_gains
    return PlatformTruth(
        rms=tuple(error.tolist()),
        relative=tuple((error / np.sqrt(np.mean(truth**2, axis=0))).tolist()),
        tare=tuple((np.array(sensors["tare"]) - plant.sensor_tare).tolist()),
        gain=tuple((gain / gain.mean() - 1.0).tolist()),
        drive_gain=tuple((drive_gain / drive_gain.mean() - 1.0).tolist()),
    )
