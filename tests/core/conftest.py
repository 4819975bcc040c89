"""A simulated robot whose parameters are known, recorded the way controllers record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from core.models import SerialChain, catalogue
from core.recordings import Recording

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SimulatedRobot:
    """A chain with Coulomb and viscous friction, and the gains of its drives."""

    model: SerialChain
    coulomb: Array
    viscous: Array
    offset: Array
    gains: Array

    def torque(self, q: Array, qd: Array, qdd: Array) -> Array:
        friction = self.coulomb * np.sign(qd) + self.viscous * qd + self.offset
        return self.model.inverse_dynamics(q, qd, qdd) + friction

    def motion(self, t: Array, seed: int) -> tuple[Array, Array, Array]:
        """A sum of slow sines per joint, with its derivatives."""
        random = np.random.default_rng(seed)
        n = self.model.n_joints
        rate = 2.0 * np.pi * random.uniform(0.05, 0.4, (n, 5))
        size = random.uniform(0.1, 0.4, (n, 5))
        phase = t[:, None, None] * rate + random.uniform(0.0, 6.0, (n, 5))
        return (
            (size * np.sin(phase)).sum(axis=-1),
            (size * rate * np.cos(phase)).sum(axis=-1),
            (-size * rate**2 * np.sin(phase)).sum(axis=-1),
        )

    def record(
        self,
        seed: int = 0,
        *,
        seconds: float = 30.0,
        rate: float = 100.0,
        noise: float = 0.0,
        jitter: float = 0.0,
        noise_seed: int | None = None,
    ) -> Recording:
        """Record a motion: current noise in N·m at the joint, stamps off by up to ``jitter`` of a period."""
        random = np.random.default_rng(1000 + seed if noise_seed is None else noise_seed)
        t = 5.0 + np.arange(int(seconds * rate)) / rate
        t += random.uniform(-0.5, 0.5, t.size) * jitter / rate
        q, qd, qdd = self.motion(t, seed)
        torque = self.torque(q, qd, qdd) + random.normal(0.0, 1.0, q.shape) * noise
        return Recording(f"motion {seed}", t, q, qd, current=torque / self.gains)


@pytest.fixture(scope="session")
def robot() -> SimulatedRobot:
    n = 6
    return SimulatedRobot(
        model=catalogue("ur10e").with_rotor_inertia(np.array([2.0, 2.0, 1.0, 0.3, 0.3, 0.2])).with_drive_gains(None),
        coulomb=np.linspace(8.0, 1.0, n),
        viscous=np.linspace(12.0, 1.0, n),
        offset=np.linspace(-1.0, 1.0, n),
        gains=np.array([12.0, 12.0, 10.0, 11.0, 11.0, 11.0]),
    )


@pytest.fixture(scope="session")
def ur10e_window(ur10e_data) -> Callable[[str], Recording]:
    """A recorded log by its short name, cut to the rows in which the robot moves."""
    from core.recordings import parse_source, read

    sources = {
        "5harm": "excitation/ur-20_02_06-20sec_5harm.csv:545-2417",
        "10harm": "excitation/ur-20_02_06-20sec_10harm.csv:713-2800",
        "30sec": "excitation/ur-20_02_10-30sec_12harm.csv:635-3510",
        "40sec": "excitation/ur-20_02_12-40sec_12harm.csv:500-4460",
        "50sec": "excitation/ur-20_02_12-50sec_12harm.csv:355-5090",
        "ptp": "point_to_point/ur-20_01_17-ptp_10_points.csv:700-4200",
    }

    def window(name: str) -> Recording:
        path, rows = parse_source(str(ur10e_data / sources[name]))
        return read(path, "ur-log", rows)

    return window
