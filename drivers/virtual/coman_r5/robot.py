"""What is simulated: an arm of the COMAN R5's class, whose gears ripple, whose links give way, and which rubs.

Figures are of the size that the study of a real one reports (Zhao et al., Forest Engineering 2023 (3), p. 150:
9.53 mA left by least squares, mean over the joints): rigid body, Coulomb and viscous friction fitted to a motion
leave some 10 mA while it moves, of which what depends on the position only is the larger part. Nothing here is the
maker's.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from core.models import SerialChain, catalogue, serial_chain
from drivers.virtual.plant import DriveDesign
from drivers.virtual.plant_parameters import NominalDrives, PlantParameters, perturbed_plant

Array = NDArray[np.float64]

HOME = np.array([0.0, 0.0, 1.2, 0.3, 0.9, 0.0])
PERIOD = 0.001  # s
GEAR_RATIO = 101
_GAINS = np.array([12.5, 12.5, 10.0, 6.0, 6.0, 6.0])  # N·m/A at the joint
_RIPPLE = np.array([0.12, 0.12, 0.09, 0.04, 0.04, 0.04])  # N·m, twice per turn of the wave generator
_GIVING_WAY = np.array([0.20, 0.24, 0.16, 0.07, 0.07, 0.06])  # N·m once per turn, and half of it twice

NOMINAL = NominalDrives(
    rotor_inertia=np.array([1.0, 1.0, 0.6, 0.15, 0.15, 0.15]),
    gains=_GAINS,
    coulomb=np.array([1.2, 1.3, 0.9, 0.32, 0.32, 0.28]),
    viscous=np.array([1.6, 1.8, 1.1, 0.28, 0.28, 0.24]),
    current_noise=np.array([0.010, 0.010, 0.008, 0.006, 0.006, 0.006]),
    periodic=np.stack(
        [
            np.tile([1.0, 2.0, 2.0 * GEAR_RATIO], (6, 1)),
            np.column_stack([_GIVING_WAY, 0.5 * _GIVING_WAY, _RIPPLE]),
        ],
        axis=2,
    ),
)
DESIGN = DriveDesign(
    period=PERIOD,
    substeps=2,
    joint_encoder=2.0 * math.pi / 2**19,
    motor_encoder=2.0 * math.pi / (GEAR_RATIO * 2**16),
    deviation_limit=np.array([0.1, 0.1, 0.1, 0.15, 0.15, 0.15]),
    tuning_poses=np.array([HOME, [0.0, 0.5, 0.6, 0.0, 1.2, 0.0], [0.0, -0.6, 1.8, 0.5, 0.3, 0.0]]),
)


def controller_model() -> SerialChain:
    """Return what the controller believes in: the catalogue's arm, with the nominal drive gains."""
    return serial_chain(catalogue("coman_r5"), "the virtual COMAN R5").with_drive_gains(_GAINS)


def individual(seed: int) -> PlantParameters:
    """Return the robot number ``seed``: see ``drivers.virtual.plant_parameters.perturbed_plant``."""
    return perturbed_plant(controller_model(), seed, NOMINAL)
