"""The truth about a virtual robot: for the last comparison of a demonstration or a test, and nothing else.

Whatever identifies, validates or predicts must not import this module.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drivers.virtual.plant_parameters import PlantParameters
from drivers.virtual.upru_parameters import UpruPlantParameters

Array = NDArray[np.float64]


def truth_torque(plant: PlantParameters, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
    """Return the joint torque (N, n) in N·m that a steady motion through these states really takes.

    Rigid body and rotors, what depends on the position only, and friction as when sliding steadily; presliding has
    no such function of the state. q, qd, qdd are (N, n) in rad, rad/s, rad/s².
    """
    steady = plant.friction.steady_state(np.atleast_2d(qd)) + plant.periodic_torque(np.atleast_2d(q))
    return plant.chain.inverse_dynamics(q, qd, qdd) + steady


def truth_leg_force(plant: UpruPlantParameters, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
    """Return the force (N, 6) in N that the legs' sensors really carry, compression positive.

    What they show is this times ``plant.sensor_gain`` plus ``plant.sensor_tare``. q, qd, qdd (N, 6) are the
    platform's pose, m and rad, and its derivatives.
    """
    return plant.robot.inverse_dynamics(q, qd, qdd)


def truth_leg_current(plant: UpruPlantParameters, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
    """Return the motor current (N, 6) in A that a steady motion through these states really takes.

    As `truth_torque`: friction is that of steady sliding.
    """
    _, rate, acceleration = plant.robot.joint_motion(q, qd, qdd)
    force = plant.robot.motor_force(q, qd, qdd) + plant.friction.steady_state(rate)
    return np.asarray((force + plant.screw_inertia * acceleration) / plant.drive_gains)
