"""The 29 standard parameters of a 6-UPRU robot, what they come from, and the 17 that forces can tell apart.

Links of a leg are numbered from the platform to the base: L1 between upper universal joint and revolute joint,
L2 up to the force sensor, L3 the push rod, L4 the cylinder. All legs are alike.

Source: tables 1 and 3 of the paper that ``core.dynamics.upru_kinematics`` names.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import ModelError
from core.models.frames import is_possible_body

Array = NDArray[np.float64]

_PAIRS = ("xx", "xy", "xz", "yy", "yz", "zz")
_ROWS, _COLUMNS = np.triu_indices(3)

PARAMETER_NAMES = (
    *("Ia1", "In1", "Ia2+Ia3+Ia4", "In2+In3+In4"),
    *("m1", "m1*lc1", "m1*lc1^2", "m2", "m2*lc2", "m3", "m3*lc3", "m4*lc4", "m2*lc2^2+m3*lc3^2+m4*lc4^2"),
    *("mp", "mp*rcx", "mp*rcy", "mp*rcz"),
    *(f"Ic{pair}" for pair in _PAIRS),
    *(f"mp*rc*rc{pair}" for pair in _PAIRS),
)
"""Names (29,). Ia, In: axial and transverse inertia about the link's centre. lc: its distance from the upper
joint centre, for L4 from the lower one. mp, rc, Ic: mass, centre and inertia about it of the platform, in {p}."""

BASE_COLUMNS = (0, 2, 3, 4, 5, 9, 10, 11, 14, 15, 16, 17, 18, 19, 20, 21, 22)
"""Indices (17,) of the parameters that base parameters are built around, in the source's order."""

BODY_COLUMNS = (13, 14, 15, 16, 17, 18, 20, 19, 21, 22)
"""Indices (10,) of the parameters that m mx my mz Ixx Ixy Iyy Ixz Iyz Izz of a body on the platform add to.

Inertia about the origin counts as if about the centre: what the last six parameters add is a part of it."""


def leg_parameters(mass: ArrayLike, com: ArrayLike, axial: ArrayLike, transverse: ArrayLike) -> Array:
    """Return the first 13 parameters.

    Parameters
    ----------
    mass : (4,) kg of L1 to L4.
    com : (4,) m, distance of the centre from the upper joint centre, towards the base; of L4 from the lower
        joint centre, towards the platform.
    axial, transverse : (4,) kg·m², inertia about the leg's axis, and across it about the centre.

    Raises
    ------
    ModelError
        A shape is wrong, a number not finite, a mass or inertia negative.
    """
    values = {"mass": mass, "com": com, "axial inertia": axial, "transverse inertia": transverse}
    arrays = {name: _finite(value, f"{name} of L1 to L4", (4,)) for name, value in values.items()}
    for name, array in arrays.items():
        if name != "com" and np.any(array < 0.0):
            link = int(np.argmax(array < 0.0))
            raise ModelError(f"the {name} of L{link + 1} is negative ({array[link]:g})")
    m, lc, ia, it = arrays.values()
    square = m * lc**2
    return np.array(
        [
            *(ia[0], it[0], ia[1:].sum(), it[1:].sum()),
            *(m[0], m[0] * lc[0], square[0]),
            *(m[1], m[1] * lc[1], m[2], m[2] * lc[2], m[3] * lc[3], square[1:].sum()),
        ]
    )


def platform_parameters(mass: float, com: ArrayLike, inertia: ArrayLike) -> Array:
    """Return the last 16 parameters.

    Parameters
    ----------
    mass : kg.
    com : (3,) m in {p}.
    inertia : (3, 3) kg·m² about the centre of mass, axes of {p}.

    Raises
    ------
    ModelError
        No body has these.
    """
    centre = _finite(com, "com of the platform", (3,))
    tensor = _finite(inertia, "inertia of the platform", (3, 3))
    if not is_possible_body(mass, tensor):
        raise ModelError(
            f"a platform of {mass:g} kg: no body has this mass and inertia; the mass must be positive, the inertia "
            "symmetric, and none of its principal values above the sum of the others"
        )
    return np.concatenate([[mass], mass * centre, _entries(tensor), mass * _entries(np.outer(centre, centre))])


def loaded_parameters(parameters: Array, mass: float, com: Array, inertia: Array) -> Array:
    """Return the parameters (29,) with a body fixed to the platform: kg, (3,) m in {p}, (3, 3) kg·m² about it."""
    own_mass, own_moment = parameters[13], parameters[14:17]
    about_origin = _tensor(parameters[17:23]) + _steiner(_tensor(parameters[23:29]))
    about_origin += inertia + mass * _steiner(np.outer(com, com))
    moment = own_moment + mass * com
    spread = np.outer(moment, moment) / (own_mass + mass)
    result = parameters.copy()
    result[13] = own_mass + mass
    result[14:17] = moment
    result[17:23] = _entries(about_origin - _steiner(spread))
    result[23:29] = _entries(spread)
    return result


def base_projection(platform_joints: Array) -> Array:
    """Return K (17, 29) with base parameters K X; ``platform_joints`` (6, 3) m in {p}.

    Two links above the sensor push at the platform's joint centres like a sixth of the platform each, and all
    that resists turning a leg across itself is one: table 3 of the source.
    """
    projection = np.zeros((17, 29))
    projection[np.arange(17), BASE_COLUMNS] = 1.0
    projection[2, [1, 6, 12]] = 1.0  # transverse inertia
    projection[3, 7] = 1.0  # mass above the sensor
    projection[4, 8] = 1.0
    joints = platform_joints
    projection[3, 13] = 1.0 / 6.0
    projection[8:11, 13] = -joints.mean(axis=0)
    mean_square = joints.T @ joints / 6.0
    projection[11:17, 13] = -_entries(_steiner(mean_square))
    for entry, (row, column) in enumerate(zip(_ROWS, _COLUMNS, strict=True)):
        unit = np.zeros((3, 3))
        unit[row, column] = unit[column, row] = 1.0
        projection[11:17, 23 + entry] = _entries(_steiner(unit))
    return projection


def _steiner(spread: Array) -> Array:
    """Return tr(S) E - S, the inertia that a second moment of mass S (3, 3) makes."""
    return np.asarray(np.trace(spread) * np.eye(3) - spread)


def _entries(tensor: Array) -> Array:
    return np.asarray(tensor[_ROWS, _COLUMNS])


def _tensor(entries: Array) -> Array:
    tensor = np.zeros((3, 3))
    tensor[_ROWS, _COLUMNS] = tensor[_COLUMNS, _ROWS] = entries
    return tensor


def _finite(value: ArrayLike, name: str, shape: tuple[int, ...]) -> Array:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the {name} is not an array of numbers: {error}") from error
    if array.shape != shape:
        raise ModelError(f"the {name} has shape {array.shape}, expected {shape}")
    if not np.all(np.isfinite(array)):
        raise ModelError(f"the {name} has entries that are not finite")
    return array
