"""The truth about a virtual robot: for the last comparison of a demonstration or a test, and nothing else.

Whatever identifies, validates or predicts must not import this module.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drivers.virtual.plant_parameters import PlantParameters

Array = NDArray[np.float64]


def truth_torque(plant: PlantParameters, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
    """Return the joint torque (N, n) in N·m that a steady motion through these states really takes.

    Rigid body and rotors, what depends on the position only, and friction as when sliding steadily; presliding has
    no such function of the state. q, qd, qdd are (N, n) in rad, rad/s, rad/s².
    """
    steady = plant.friction.steady_state(np.atleast_2d(qd)) + plant.periodic_torque(np.atleast_2d(q))
    return plant.chain.inverse_dynamics(q, qd, qdd) + steady
