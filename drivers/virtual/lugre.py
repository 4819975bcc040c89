"""LuGre friction of the simulated joints: bristles that bend, then slide.

    z' = v - sigma0 |v| z / g(v),   g(v) = fc + (fs - fc) exp(-(v / vs)^2)
    F  = sigma0 z + sigma1 z' + fv |v|^e sgn(v),   e = 1 unless something else is said

Source: Canudas de Wit, Olsson, Astrom, Lischinsky, "A new model for control of systems with friction",
IEEE Transactions on Automatic Control 40(3), 1995.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

COLUMNS = ("stiffness", "damping", "coulomb", "static", "stribeck_speed", "viscous", "exponent")


@dataclass(frozen=True)
class LuGreFriction:
    """Friction of n joints; every array is (n,).

    ``stiffness`` sigma0 in N·m/rad and ``damping`` sigma1 in N·m·s/rad of the bristles, ``coulomb`` fc and
    ``static`` fs in N·m, ``stribeck_speed`` vs in rad/s, ``viscous`` fv in N·m·s/rad, with an ``exponent`` of the speed
    (where there is one, fv is in N·m at 1 rad/s).
    """

    stiffness: Array
    damping: Array
    coulomb: Array
    static: Array
    stribeck_speed: Array
    viscous: Array
    exponent: Array | None = None

    def table(self) -> Array:
        """Return the parameters as the kernels take them: (n, 7), columns ``COLUMNS``."""
        columns = [getattr(self, name) for name in COLUMNS[:-1]]
        return np.ascontiguousarray(np.column_stack([*columns, self._exponent]))

    def steady_state(self, qd: ArrayLike) -> Array:
        """Return the torque in N·m that sliding at constant ``qd`` (..., n) rad/s takes; 0 at rest."""
        speed = np.asarray(qd, dtype=np.float64)
        level = self.coulomb + (self.static - self.coulomb) * np.exp(-((speed / self.stribeck_speed) ** 2))
        return level * np.sign(speed) + self.viscous * np.sign(speed) * np.abs(speed) ** self._exponent

    @property
    def _exponent(self) -> Array:
        return np.ones_like(self.viscous) if self.exponent is None else self.exponent


@njit(cache=True, error_model="numpy")
def bend(row: Array, z: float, v: float, dt: float) -> tuple[float, float, float]:
    """Advance one joint's bristle deflection ``z`` by ``dt`` at the speed ``v``.

    Returns the new deflection, the friction torque, and the slope of torque over speed within the step that
    the bristle adds. The deflection equation is linear in z, so it is solved exactly for constant v: stable
    however stiff the bristles. The slope is what an implicit integration of the speed needs while sticking;
    it vanishes when sliding, so it does not act like additional inertia there.
    """
    stiffness, damping, coulomb, static = row[0], row[1], row[2], row[3]
    level = coulomb + (static - coulomb) * math.exp(-((v / row[4]) ** 2))
    rate = stiffness * abs(v) / level
    if rate * dt > 1e-9:
        decay = math.exp(-rate * dt)
        steady = math.copysign(level / stiffness, v)
        bent = steady + (z - steady) * decay
        reach = (1.0 - decay) / rate
    else:
        bent = z + v * dt
        reach = dt
    sticking = 1.0 - stiffness * bent * math.copysign(1.0, v) / level
    drag = row[5] * v if row[6] == 1.0 else math.copysign(row[5] * abs(v) ** row[6], v)
    torque = stiffness * bent + damping * v * sticking + drag
    return bent, torque, (stiffness * reach + damping) * max(sticking, 0.0)
