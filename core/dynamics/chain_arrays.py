"""The plain arrays that dynamics kernels work on; Numba takes the named tuple as it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class ChainArrays(NamedTuple):
    """A serial chain of n joints, prepared so that no kernel asks what type a joint has.

    Joint frame j moves with link j. In its parent's frame (the root frame for the first joint) it stands at

        rotation    rotation_constant[j] + sin(q) rotation_sin[j] + cos(q) rotation_cos[j]
        translation offset[j] + q slide[j]

    (Rodrigues' formula around a fixed axis, multiplied out). A revolute joint has ``slide`` and
    ``axis_linear`` zero; a prismatic joint has ``rotation_sin``, ``rotation_cos`` and ``axis_angular`` zero.

    All arrays are float64, C-contiguous and writable, because Numba compiles once per array type; kernels
    never write to them.
    """

    rotation_constant: Array  # (n, 3, 3)
    rotation_sin: Array  # (n, 3, 3)
    rotation_cos: Array  # (n, 3, 3)
    offset: Array  # (n, 3) m
    slide: Array  # (n, 3) displacement per unit of q, parent frame
    axis_angular: Array  # (n, 3) joint frame
    axis_linear: Array  # (n, 3) joint frame
    inertial_parameters: Array  # (n, 10) m mx my mz Ixx Ixy Iyy Ixz Iyz Izz, joint frame, about its origin
    rotor_inertia: Array  # (n,) kg·m² seen at the joint; zeros where the model has none
    gravity: Array  # (3,) m/s², root frame
    tool: Array  # (4, 4) end of the last link in the last joint frame


class Workspace(NamedTuple):
    """Scratch memory of the single-sample kernels, so that they allocate nothing at run time."""

    links: Array  # (n, LINK_WORK)
    mass: Array  # (n, n)
    zeros: Array  # (n,)


LINK_WORK = 28
"""Numbers kept per link: R 0-8, p 9-11, f 12-14, moment 15-17, composite inertial parameters 18-27."""


def make_workspace(n_joints: int) -> Workspace:
    """Return scratch memory for one chain of ``n_joints``; not to be shared between threads."""
    return Workspace(np.zeros((n_joints, LINK_WORK)), np.zeros((n_joints, n_joints)), np.zeros(n_joints))
