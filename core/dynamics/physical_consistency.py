"""Which inertial parameters a real body can have.

The ten parameters of a link, m, h = (mx, my, mz) and the inertia I about the origin of its frame, belong to
some distribution of positive mass if and only if its pseudo-inertia matrix

    J = [[Sigma, h], [h^T, m]],   Sigma = trace(I) / 2 * 1 - I

is positive definite (Wensing, Kim and Slotine 2018). J is the second moment of mass in homogeneous
coordinates, and linear in the parameters; a change of frame or unit is a congruence of J.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError
from core.models import SerialChain

Array = NDArray[np.float64]

_INERTIA_AT = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
"""Where Ixx, Ixy, Iyy, Ixz, Iyz, Izz stand."""
_LEAST_SHARE = 1e-9
"""A pseudo-inertia whose smallest eigenvalue is a smaller share of the largest is no body's."""
_GYRATION = 0.05
"""m; radius of gyration that is made up at least for a link without any."""
_MADE_UP_MASS = 1.0
"""kg; of a link of a chain without any valid mass."""


def pseudo_inertia(parameters: ArrayLike) -> Array:
    """Return J (..., 4, 4) in kg m², kg m, kg of parameters (..., 10) in the order m mx my mz Ixx ... Izz."""
    values = np.asarray(parameters, dtype=np.float64)
    if values.shape[-1:] != (10,):
        raise InputError(f"inertial parameters have shape {values.shape}, expected (..., 10)")
    result = np.zeros((*values.shape[:-1], 4, 4))
    half_trace = 0.5 * (values[..., 4] + values[..., 6] + values[..., 9])
    for k, (row, column) in enumerate(_INERTIA_AT):
        second = (half_trace if row == column else 0.0) - values[..., 4 + k]
        result[..., row, column] = result[..., column, row] = second
    result[..., :3, 3] = result[..., 3, :3] = values[..., 1:4]
    result[..., 3, 3] = values[..., 0]
    return result


def inertial_parameters(pseudo: ArrayLike) -> Array:
    """Return the parameters (..., 10) of pseudo-inertia matrices (..., 4, 4)."""
    matrix = np.asarray(pseudo, dtype=np.float64)
    result = np.empty((*matrix.shape[:-2], 10))
    result[..., 0] = matrix[..., 3, 3]
    result[..., 1:4] = matrix[..., :3, 3]
    trace = np.trace(matrix[..., :3, :3], axis1=-2, axis2=-1)
    for k, (row, column) in enumerate(_INERTIA_AT):
        result[..., 4 + k] = (trace if row == column else 0.0) - matrix[..., row, column]
    return result


def inconsistent_links(parameters: ArrayLike) -> list[int]:
    """Return the indices, from 0, of the links (n, 10) that no distribution of mass can have."""
    values = np.linalg.eigvalsh(pseudo_inertia(parameters))
    return np.flatnonzero(values[:, 0] <= _LEAST_SHARE * np.abs(values).max(axis=1)).tolist()


def completed_prior(chain: SerialChain) -> tuple[Array, Sequence[int]]:
    """Return inertial parameters (n, 10) that bodies can have, and the indices of the links that had none.

    Models often leave links without inertia, or give them one that no body has. Such a link keeps its mass
    and centre of mass if it has any; otherwise it weighs what the others do on average, half-way to the next
    joint. Its inertia becomes that of an equally thick body of that length.
    """
    parameters = chain.inertial_parameters.copy()
    missing = inconsistent_links(parameters)
    valid = np.setdiff1d(np.arange(chain.n_joints), missing)
    typical = float(parameters[valid, 0].mean()) if valid.size else _MADE_UP_MASS
    ends = np.concatenate([chain.placement_translation[1:], chain.tool[None, :3, 3]])
    for link in missing:
        mass = parameters[link, 0] if parameters[link, 0] > 0.0 else typical
        centre = parameters[link, 1:4] / mass if np.any(parameters[link, 1:4]) else 0.5 * ends[link]
        radius = max(_GYRATION, float(np.linalg.norm(ends[link])) / 12.0**0.5)
        place = np.append(centre, 1.0)
        spread = np.diag([radius**2] * 3 + [0.0])
        parameters[link] = inertial_parameters(mass * (np.outer(place, place) + spread))
    return parameters, missing
