"""Virtual arms that play a trajectory as fast as the processor allows, and the recordings that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from core import models
from core.excitation.trajectory import Trajectory
from core.models import SerialChain, serial_chain
from core.recordings import Recording
from drivers.virtual.coman_r5 import robot as coman_r5
from drivers.virtual.plant import DriveDesign, Plant
from drivers.virtual.plant_parameters import NominalDrives, PlantParameters, controller_model, perturbed_plant

EXPONENTS = (0.4, 0.7)
"""Viscous friction of a virtual joint grows with the speed to a power between these; a real UR10e's were found to be
0.55 and 0.41 (methods, section 3)."""
SETTLING = 1.0
"""s at rest in the first pose before a recording begins."""


@dataclass(frozen=True, eq=False)
class VirtualArm:
    """One individual arm: what its controller believes, what is true, how its drives work."""

    model: SerialChain
    parameters: PlantParameters
    design: DriveDesign

    @property
    def gains(self) -> np.ndarray:
        """Drive gains (n,) as the controller tells them, N·m/A."""
        return self.parameters.calibrated_gains

    def tracking_error(self, trajectory: Trajectory, feedforward: np.ndarray) -> np.ndarray:
        """Return the largest deviation (n,) from a trajectory, rad, with torques (N, n) added to what the loops ask."""
        targets = self._targets(trajectory)
        rows = self._played(targets, feedforward)
        return np.abs(targets[:, 0] - rows[:, 0]).max(axis=0)

    def _targets(self, trajectory: Trajectory) -> np.ndarray:
        """Return q, qd, qdd (N, 3, n), cycle by cycle."""
        samples = trajectory.sample(self.design.period)
        return np.stack([samples.q, samples.qd, samples.qdd], axis=1)

    def _played(self, targets: np.ndarray, feedforward: Sequence[np.ndarray]) -> np.ndarray:
        """Return position, speed and current (N, 3, n) along targets (N, 3, n), after settling in the first pose."""
        plant = Plant(self.model, self.parameters, targets[0, 0], self.design)
        still = targets[0] * [[1.0], [0.0], [0.0]]
        for _ in range(round(SETTLING / self.design.period)):
            plant.run_cycle(still, feedforward[0])
        rows = np.empty_like(targets)
        for row, target, torque in zip(rows, targets, feedforward, strict=True):
            if not plant.run_cycle(target, torque):
                raise RuntimeError("the simulated dynamics broke down")
            row[:] = plant.out[[5, 6, 7]]
        return rows

    @property
    def known(self) -> SerialChain:
        """What an identification may know: geometry, that there are rotors, the controller's drive gains."""
        return self.model.with_rotor_inertia(np.ones(self.model.n_joints)).with_drive_gains(self.gains)

    def play(self, name: str, trajectory: Trajectory, *, repeats: int = 1, every: int = 1) -> Recording:
        """Return what the controller records while it plays a trajectory: positions, speeds, currents.

        Repeats follow each other without a pause, so a periodic trajectory has to end as it begins. ``every`` cycles
        one sample is recorded.
        """
        one = self._targets(trajectory)
        played = np.concatenate([*[one[:-1]] * (repeats - 1), one])
        rows = self._played(played, [np.empty(0)] * len(played))[::every]
        t = self.design.period * np.arange(len(played))[::every]
        return Recording(name, t, rows[:, 0], rows[:, 1], current=rows[:, 2], joint_names=self.model.joint_names)


def coman(seed: int) -> VirtualArm:
    """An arm of the COMAN R5's class: ripple, links that give way, Stribeck friction, noise."""
    return VirtualArm(coman_r5.controller_model(), coman_r5.individual(seed), coman_r5.DESIGN)


def ur10e(seed: int, *, stribeck: bool, presliding: bool) -> VirtualArm:
    """A UR10e whose viscous friction grows with a power of the speed that no two joints share.

    The plant has more than that: breaking loose takes more than sliding on (``stribeck``), and friction builds up over
    a milliradian after a reversal (``presliding``; without, over a fiftieth of it). The power law knows of neither.
    """
    model = controller_model()
    exponent = np.random.default_rng([seed, 0xA1FA]).uniform(*EXPONENTS, model.n_joints)
    nominal = replace(NominalDrives.of(model), drag_exponent=exponent)
    plant = perturbed_plant(model, seed, nominal)
    friction = plant.friction
    if not stribeck:
        friction = replace(friction, static=friction.coulomb)
    if not presliding:
        friction = replace(friction, stiffness=50.0 * friction.stiffness, damping=friction.damping)
    plant = replace(plant, friction=friction)
    return VirtualArm(model, plant, DriveDesign())


def three_joint(seed: int) -> VirtualArm:
    """A waist, a shoulder and an elbow whose viscous friction levels off; its currents are torques."""
    model = serial_chain(models.catalogue("three_joint"), "the virtual three-joint arm")
    exponent = np.random.default_rng([seed, 0xA1FA]).uniform(*EXPONENTS, model.n_joints)
    nominal = NominalDrives(
        rotor_inertia=np.array([1.2, 1.2, 0.5]),
        gains=np.ones(3),
        coulomb=np.array([6.0, 7.0, 4.0]),
        viscous=np.array([16.0, 18.0, 10.0]),
        current_noise=np.array([1.0, 1.0, 0.6]),
        periodic=np.zeros((3, 0, 2)),
        drag_exponent=exponent,
    )
    design = DriveDesign(
        deviation_limit=np.full(3, 0.1), tuning_poses=np.array([[0.0, 0.0, 1.0], [0.0, 0.7, 0.3], [0.0, -0.7, 1.5]])
    )
    return VirtualArm(model, perturbed_plant(model, seed, nominal), design)
