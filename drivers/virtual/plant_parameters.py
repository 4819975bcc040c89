"""The robot behind a virtual controller: like the catalogue's, but no two alike, and never the catalogue's.

Identification code must not look at these values. Comparisons with them go through ``drivers.virtual.truth``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError
from core.models import SerialChain, catalogue, load, serial_chain
from drivers.virtual.lugre import LuGreFriction

Array = NDArray[np.float64]

# Typical values of a UR10e's joints: seen at the joint, behind a gear of 101. Rotor inertias and friction are
# of the size that published identifications of this arm report; the noise is that of recorded logs.
_ROTOR_INERTIA = np.array([2.6, 2.6, 1.4, 0.38, 0.38, 0.38])  # kg·m²
_DRIVE_GAINS = np.array([11.976, 11.976, 9.839, 10.763, 10.76, 11.33])  # N·m/A
_COULOMB = np.array([9.0, 10.5, 7.0, 1.5, 1.8, 1.4])  # N·m
_VISCOUS = np.array([12.0, 13.0, 8.0, 1.5, 1.6, 1.3])  # N·m·s/rad
_CURRENT_NOISE = np.array([0.08, 0.08, 0.05, 0.02, 0.02, 0.02])  # A, standard deviation at 500 Hz
_PRESLIDING = 1.0e-3  # rad that the bristles bend before they slide
_BRISTLE_DAMPING = 2.0e-3  # s, sigma1 / sigma0

_LEAST, _MOST = 0.05, 0.20  # every perturbation lies between these fractions
_CALIBRATION_ERROR = 0.002  # of the controller's own drive gains, standard deviation
_CALIBRATION_BOUND = 0.004


@dataclass(frozen=True)
class NominalDrives:
    """What the maker knows of this type of joints: rotor inertias, gains and friction, each (n,).

    ``current_noise`` (n,) is the standard deviation of the measured current, A. ``periodic`` (n, k, 2) holds torques
    that depend on the position only, per joint: cycles per turn and amplitude in N·m, of gears and what gives way.
    ``drag_exponent`` (n,) is the power of the speed that viscous friction grows with, None for one.
    """

    rotor_inertia: Array
    gains: Array
    coulomb: Array
    viscous: Array
    current_noise: Array
    periodic: Array
    drag_exponent: Array | None = None

    @classmethod
    def of(cls, model: SerialChain) -> NominalDrives:
        """Return what is typical of a UR10e, with the model's drive gains where it has them.

        Rotor inertias are never the model's: whether it carries any is a choice of who identifies, and must
        not make another robot of the same seed.

        Raises
        ------
        InputError
            The model has not six joints, so nothing typical is known.
        """
        if model.n_joints != _ROTOR_INERTIA.size:
            raise InputError(
                f"the virtual UR10e needs a model of {_ROTOR_INERTIA.size} joints, {model.name!r} has {model.n_joints}"
            )
        gains = _DRIVE_GAINS if model.drive_gains is None else model.drive_gains
        periodic = np.zeros((model.n_joints, 0, 2))
        return cls(_ROTOR_INERTIA, gains, _COULOMB, _VISCOUS, _CURRENT_NOISE, periodic)


@dataclass(frozen=True)
class PlantParameters:
    """One individual robot.

    Attributes
    ----------
    chain : its true links and rotors.
    friction : its true joint friction.
    drive_gains : (n,) true torque per current, N·m/A.
    calibrated_gains : (n,) what the controller takes the drive gains to be, N·m/A.
    nominal : what the controller takes for granted about rotors and friction, and the current's noise.
    periodic : (n, k, 3) torque that depends on the position only: amplitude x sin(cycles per turn x q + phase), in
        this order: cycles per turn, amplitude in N·m, phase in rad.
    seed : of the perturbation.
    """

    chain: SerialChain
    friction: LuGreFriction
    drive_gains: Array
    calibrated_gains: Array
    nominal: NominalDrives
    periodic: Array
    seed: int

    def periodic_torque(self, q: ArrayLike) -> Array:
        """Return the torque (..., n) in N·m that depends on the position ``q`` (..., n) rad only."""
        cycles, amplitude, phase = np.moveaxis(self.periodic, 2, 0)
        angle = cycles * np.asarray(q, dtype=np.float64)[..., None] + phase
        torque: Array = (amplitude * np.sin(angle)).sum(axis=-1)
        return torque


def controller_model(path: Path | None = None) -> SerialChain:
    """Return what a virtual UR10e's controller believes in: the catalogue's robot, or a model file.

    ``perturbed_plant(controller_model(), seed)`` is the robot that ``VirtualUR10e(host, seed)`` simulates.
    """
    return serial_chain(catalogue("ur10e") if path is None else load(path), "the virtual arm")


def perturbed_plant(model: SerialChain, seed: int, nominal: NominalDrives | None = None) -> PlantParameters:
    """Return the robot number ``seed`` of the type ``model``: every value 5 to 20 % off, drives 2 to 8 %.

    Its joints are of the type ``nominal``, a UR10e's by default.

    Links stay physically consistent: each link's mass distribution is stretched, moved and made denser or
    lighter as a whole, which keeps its pseudo-inertia matrix positive (semi-)definite. Deterministic.

    Raises
    ------
    InputError
        The model has not six joints, and no other type of joints was given.
    """
    nominal = nominal or NominalDrives.of(model)
    random = np.random.default_rng([seed, 0x5EED])
    n = model.n_joints
    links = np.array([perturbed_body(row, random) for row in model.inertial_parameters])
    gains = nominal.gains * factors(random, n, 0.02, 0.08)
    calibration = np.clip(random.normal(0.0, _CALIBRATION_ERROR, n), -_CALIBRATION_BOUND, _CALIBRATION_BOUND)
    coulomb = nominal.coulomb * factors(random, n)
    stiffness = coulomb / _PRESLIDING * factors(random, n)
    friction = LuGreFriction(
        stiffness=stiffness,
        damping=stiffness * _BRISTLE_DAMPING,
        coulomb=coulomb,
        static=coulomb * random.uniform(1.1, 1.3, n),
        stribeck_speed=random.uniform(0.02, 0.06, n),
        viscous=nominal.viscous * factors(random, n),
        exponent=nominal.drag_exponent,
    )
    rotors = nominal.rotor_inertia * factors(random, n)
    chain = model.with_rotor_inertia(rotors)
    chain = chain.with_parameters(np.concatenate([links.ravel(), rotors])).with_drive_gains(gains)
    periodic = _perturbed_periodic(nominal.periodic, np.random.default_rng([seed, 0x9EA7]))
    return PlantParameters(chain, friction, gains, gains * (1.0 + calibration), nominal, periodic, seed)


def _perturbed_periodic(nominal: Array, random: np.random.Generator) -> Array:
    """Return (n, k, 3) with amplitudes that are off and phases that nobody knows."""
    n, k, _ = nominal.shape
    amplitude = nominal[:, :, 1] * factors(random, n * k).reshape(n, k)
    return np.stack([nominal[:, :, 0], amplitude, random.uniform(-np.pi, np.pi, (n, k))], axis=2)


def factors(random: np.random.Generator, n: int, least: float = _LEAST, most: float = _MOST) -> Array:
    """Return n factors 1 +- u with u uniform between ``least`` and ``most``."""
    signs = np.where(random.random(n) < 0.5, -1.0, 1.0)
    return 1.0 + signs * random.uniform(least, most, n)


def perturbed_body(row: Array, random: np.random.Generator) -> Array:
    """Return ten inertial parameters of the same body after an affine map and a change of density.

    The map is x -> c + F (x - c) + d about the centre of mass c: F stretches (inertia changes by about twice
    as much), d shifts by a share of the radius of gyration.
    """
    pseudo = pseudo_inertia(row)
    mass = pseudo[3, 3]
    density = factors(random, 1)[0]
    stretch = random.normal(size=(3, 3))
    stretch = (stretch + stretch.T) / np.linalg.norm(stretch + stretch.T, 2)
    direction = random.normal(size=3)
    share, shift_share = random.uniform(_LEAST, _MOST, 2) * (0.5, 1.0)
    if mass <= 0.0:
        return row.copy()
    centre = pseudo[:3, 3] / mass
    spread = np.trace(pseudo[:3, :3]) / mass - centre @ centre
    gyration = np.sqrt(max(spread, 0.0))
    affine = np.eye(4)
    affine[:3, :3] += share * stretch
    shift = direction / np.linalg.norm(direction) * shift_share * gyration
    affine[:3, 3] = centre - affine[:3, :3] @ centre + shift
    return inertial_parameters(density * affine @ pseudo @ affine.T)


def pseudo_inertia(row: Array) -> Array:
    """Return [[Sigma, h], [h^T, m]] (4, 4) of a row of ten parameters, Sigma the second moments of mass."""
    m, mx, my, mz, ixx, ixy, iyy, ixz, iyz, izz = row
    half = 0.5 * (ixx + iyy + izz)
    return np.array(
        [
            [half - ixx, -ixy, -ixz, mx],
            [-ixy, half - iyy, -iyz, my],
            [-ixz, -iyz, half - izz, mz],
            [mx, my, mz, m],
        ]
    )


def inertial_parameters(pseudo: Array) -> Array:
    """Return the ten parameters of a pseudo-inertia matrix; inverse of ``pseudo_inertia``."""
    sigma = pseudo[:3, :3]
    inertia = np.trace(sigma) * np.eye(3) - sigma
    (ixx, ixy, ixz), (_, iyy, iyz), (_, _, izz) = inertia
    return np.array([pseudo[3, 3], *pseudo[:3, 3], ixx, ixy, iyy, ixz, iyz, izz])
