"""The parallel robot behind a virtual TwinCAT: like the catalogue's, but no two alike, and never the catalogue's.

Identification code must not look at these values. Comparisons with them go through ``drivers.virtual.truth``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.models import load, resolve
from core.models.frames import com_from_inertial
from core.models.six_upru import SixUPRU
from core.models.upru_parameters import platform_parameters
from drivers.virtual.lugre import LuGreFriction
from drivers.virtual.plant_parameters import factors, perturbed_body

Array = NDArray[np.float64]

CATALOGUE_MODEL = "upru6"

# Typical of an electric cylinder of this size: a servo motor of the 400 W class (MINAS A6B) on a ball screw with a
# lead of 10 mm, a strain-gauge force sensor (Interface 1210) between screw and joint.
_SCREW_INERTIA = 90.0  # kg, motor and screw seen along the leg
_DRIVE_GAIN = 250.0  # N/A
_COULOMB = 55.0  # N
_VISCOUS = 260.0  # N·s/m
_PRESLIDING = 2.0e-5  # m that the contacts give way before they slide
_BRISTLE_DAMPING = 2.0e-3  # s, sigma1 / sigma0
_CURRENT_NOISE = 0.02  # A, standard deviation at 1 kHz
_FORCE_NOISE = 1.5  # N
_LARGEST_TARE = 12.0  # N
_LARGEST_GAIN_ERROR = 0.015
_TILT = np.radians([0.4, 1.2])  # least and largest angle between the base's normal and the vertical


@dataclass(frozen=True)
class UpruPlantParameters:
    """One individual robot; arrays are (6,), one entry per leg.

    Attributes
    ----------
    robot : its true masses, inertias and direction of gravity; its geometry is the one the maker has measured.
    friction : of the cylinders, in N, m and s.
    screw_inertia : kg.
    drive_gains : N/A.
    sensor_tare : N that the sensors show without a load.
    sensor_gain : what they show per N.
    current_noise, force_noise : standard deviations, A and N.
    seed : of the perturbation.
    """

    robot: SixUPRU
    friction: LuGreFriction
    screw_inertia: Array
    drive_gains: Array
    sensor_tare: Array
    sensor_gain: Array
    current_noise: float
    force_noise: float
    seed: int


def upru_model(path: Path | None = None) -> SixUPRU:
    """Return what is believed of the robot: the catalogue's, or a model file.

    Raises
    ------
    InputError
        The file describes another kind of robot.
    """
    model = resolve(CATALOGUE_MODEL) if path is None else load(path)
    if not isinstance(model, SixUPRU):
        raise InputError(f"a virtual 6-UPRU needs a 6-UPRU model; {model.name!r} is none")
    return model


def perturbed_upru(model: SixUPRU, seed: int) -> UpruPlantParameters:
    """Return the robot number ``seed`` of the type ``model``: every mass and inertia 5 to 20 % off. Deterministic."""
    random = np.random.default_rng([seed, 0x6E6])
    parameters = np.concatenate([_perturbed_legs(model.parameters[:13], random), _perturbed_platform(model, random)])
    gains = (np.full(6, _DRIVE_GAIN) if model.drive_gains is None else model.drive_gains) * factors(
        random, 6, 0.02, 0.08
    )
    coulomb = _COULOMB * factors(random, 6)
    stiffness = coulomb / _PRESLIDING * factors(random, 6)
    return UpruPlantParameters(
        robot=replace(model, parameters=parameters, gravity=_tilted(model.gravity, random)),
        friction=LuGreFriction(
            stiffness=stiffness,
            damping=stiffness * _BRISTLE_DAMPING,
            coulomb=coulomb,
            static=coulomb * random.uniform(1.1, 1.3, 6),
            stribeck_speed=random.uniform(0.004, 0.012, 6),
            viscous=_VISCOUS * factors(random, 6),
        ),
        screw_inertia=_SCREW_INERTIA * factors(random, 6),
        drive_gains=gains,
        sensor_tare=random.uniform(-_LARGEST_TARE, _LARGEST_TARE, 6),
        sensor_gain=1.0 + random.uniform(-_LARGEST_GAIN_ERROR, _LARGEST_GAIN_ERROR, 6),
        current_noise=_CURRENT_NOISE,
        force_noise=_FORCE_NOISE,
        seed=seed,
    )


def _perturbed_legs(parameters: Array, random: np.random.Generator) -> Array:
    """Return leg parameters (13,) of links that are denser or lighter, and stretched along the leg.

    L1 has a density and a stretch of its own, L2 to L4 share theirs, since sums of them are parameters.
    """
    density, stretch = factors(random, 2), 1.0 + random.uniform(-0.06, 0.06, 2)
    upper, lower = density
    moments = density * stretch
    squares = density * stretch**2
    changes = np.array(
        [
            *(upper, squares[0], lower, squares[1]),
            *(upper, moments[0], squares[0]),
            *(lower, moments[1], lower, moments[1], moments[1], squares[1]),
        ]
    )
    return np.asarray(parameters * changes)


def _perturbed_platform(model: SixUPRU, random: np.random.Generator) -> Array:
    """Return platform parameters (16,) of a body that is stretched, moved and denser or lighter."""
    mass, moment, entries = model.parameters[13], model.parameters[14:17], model.parameters[17:23]
    inertia = np.zeros((3, 3))
    inertia[np.triu_indices(3)] = entries
    inertia += np.triu(inertia, 1).T
    centre = moment / mass
    about_origin = inertia + mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    row = np.array([mass, *moment, *about_origin[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])
    return platform_parameters(*com_from_inertial(perturbed_body(row, random)))


def _tilted(gravity: Array, random: np.random.Generator) -> Array:
    """Return gravity in the frame of a base that does not stand quite level."""
    angle, direction = random.uniform(*_TILT), random.uniform(0.0, 2.0 * np.pi)
    axis = np.array([np.cos(direction), np.sin(direction), 0.0])
    return np.asarray(gravity * np.cos(angle) + np.cross(axis, gravity) * np.sin(angle))
