"""The last comparison: the served torque table against what the virtual plant really needs.

This is the only place of the demonstration that reads the plant's truth; an import contract keeps it from
everything that identifies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.excitation import catalogue
from drivers.virtual.coman_r5.robot import NOMINAL, individual
from drivers.virtual.plant_parameters import controller_model, perturbed_plant
from drivers.virtual.truth import truth_torque
from service.demo.robots import DemoArm

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TruthComparison:
    """Per joint: RMS of (table - truth) in N·m, and the same over the truth's own RMS."""

    rms: tuple[float, ...]
    relative: tuple[float, ...]


def compare(table: Array, robot: DemoArm, seed: int) -> TruthComparison:
    """Compare ``table`` (N, n) in N·m with the truth along the second motion, sampled every cycle of the robot.

    A COMAN R5 tells currents only, which the service takes for torques by the gains of its type: so the truth is
    taken as the current that it takes, times these.
    """
    samples = catalogue(f"{robot.motions}_validation").sample(robot.cycle_time)
    motion = samples.q, samples.qd, samples.qdd
    if robot.key == "coman_r5":
        plant = individual(seed)
        truth = truth_torque(plant, *motion) * (NOMINAL.gains / plant.drive_gains)
    else:
        truth = truth_torque(perturbed_plant(controller_model(), seed), *motion)
    error = np.sqrt(np.mean((table - truth) ** 2, axis=0))
    size = np.sqrt(np.mean(truth**2, axis=0))
    return TruthComparison(tuple(error.tolist()), tuple((error / size).tolist()))
