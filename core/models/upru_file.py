"""Files that describe a 6-UPRU robot: a table of this project's model files, and a JSON layout.

A model file (TOML) with ``kind = "six-upru"``, lengths in m, angles in rad, kg, kg·m², N::

    home = [0.0, 0.0, 0.92, 0.0, 0.0, 0.0]   # x y z alpha beta gamma
    gravity = [0.0, 0.0, -9.81]              # m/s² in {B}; the default

    [limits]                                 # whatever is left out is unlimited
    velocity = 0.5                           # of the legs, m/s; acceleration, jerk likewise
    force = 5000.0
    joint_angle = 0.7                        # of the universal joints, from home
    condition = 20.0                         # of the Jacobian, see SixUPRU.jacobian_condition

    [links]                                  # L1 to L4, see core.models.upru_parameters
    mass = [1.1, 2.3, 3.4, 7.9]
    com = [0.045, 0.13, 0.34, 0.27]
    axial_inertia = [0.0011, 0.0016, 0.0024, 0.0118]
    transverse_inertia = [0.0032, 0.0091, 0.061, 0.192]

    [platform]
    mass = 82.0
    com = [0.021, -0.034, 0.083]
    inertia = { xx = 4.6, yy = 5.3, zz = 8.1, xy = 0.21, xz = -0.33, yz = 0.17 }

    [parameters]                             # instead of links and platform: all 29 as they were identified,
    Ia1 = 0.0011                             # by their names; no body need have them
    "m1*lc1" = 0.0495                        # and so on, see core.models.upru_parameters

    [[legs]]                                 # six of them
    name = "leg1"
    base_joint = [0.4875, -0.4950, 0.0020]   # {B}
    platform_joint = [0.3976, -0.0822, 0.0096]  # {p}
    base_axis = [0.7508, 0.6555, 0.0813]     # unit vectors
    platform_axis = [0.2679, 0.9627, -0.0370]
    length = [0.82, 1.22]                    # limits
    drive_gain = 1200.0                      # N/A, optional; for all legs or for none

The JSON layout has ``geometry`` (B, b_p, rb1, rp1_p, gravity), ``params`` (m, lc, Ia, In, mp, rc_p, Ic_p) and
``home_pose`` with the same meanings; anything else beside them, such as a trajectory, is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError
from core.models.chain import STANDARD_GRAVITY
from core.models.limits import JointLimits
from core.models.six_upru import SixUPRU
from core.models.tables import Table, all_or_none
from core.models.upru_parameters import PARAMETER_NAMES, leg_parameters, platform_parameters

Array = NDArray[np.float64]


def read_six_upru(file: Table) -> SixUPRU:
    """Return the robot of a model file.

    Raises
    ------
    ModelError
        An unknown key, a missing or non-finite number, an impossible body or geometry; the message names file
        and element.
    """
    legs = file.tables("legs")
    if len(legs) != 6:
        raise file.error(f"a 6-UPRU robot has 6 legs, not {len(legs)}", "legs")
    limits = file.table("limits") or Table({}, file.source, "limits")
    with _in_file(file):
        robot = SixUPRU(
            name=file.text("name"),
            joint_names=tuple(leg.text("name") for leg in legs),
            base_joints=np.array([leg.vector("base_joint", 3) for leg in legs]),
            platform_joints=np.array([leg.vector("platform_joint", 3) for leg in legs]),
            base_axes=np.array([leg.vector("base_axis", 3) for leg in legs]),
            platform_axes=np.array([leg.vector("platform_axis", 3) for leg in legs]),
            parameters=_parameters(file),
            home=file.vector("home", 6),
            limits=_limits(limits, legs),
            joint_angle_limit=limits.bound("joint_angle"),
            condition_limit=limits.bound("condition"),
            gravity=file.vector("gravity", 3, default=STANDARD_GRAVITY),
            drive_gains=all_or_none(legs, "drive_gain"),
        )
    for table in (*legs, limits, file):
        table.finish()
    return robot


def _parameters(file: Table) -> Array:
    """Return the standard parameters (29,), which are given as such or by bodies."""
    given = file.table("parameters")
    if given is not None:
        parameters = np.array([given.number(name) for name in PARAMETER_NAMES])
        given.finish()
        return parameters
    links, platform = _needed(file, "links"), _needed(file, "platform")
    inertia = platform.tensor("inertia")
    if inertia is None:
        raise platform.error("the table { xx, yy, zz, xy, xz, yz } is missing", "inertia")
    of_legs = leg_parameters(*(links.vector(key, 4) for key in ("mass", "com", "axial_inertia", "transverse_inertia")))
    of_platform = platform_parameters(platform.number("mass"), platform.vector("com", 3), inertia)
    links.finish()
    platform.finish()
    return np.concatenate([of_legs, of_platform])


def parse_six_upru_json(text: bytes, source: str) -> SixUPRU:
    """Return the robot that a file in the JSON layout describes; its limits are unlimited.

    Raises
    ------
    ModelError
        As ``read_six_upru`` does.
    """
    try:
        values = json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:  # the last: nested too deep
        raise ModelError(f"{source}: not JSON: {error}", path=source) from error
    file = Table(values, source, "")
    geometry, bodies = _needed(file, "geometry"), _needed(file, "params")
    links = [bodies.vector(key, 4) for key in ("m", "lc", "Ia", "In")]
    platform = (bodies.number("mp"), bodies.vector("rc_p", 3), bodies.array("Ic_p", (3, 3)))
    with _in_file(file):
        robot = SixUPRU(
            name=file.text("name"),
            joint_names=tuple(f"leg{i + 1}" for i in range(6)),
            base_joints=geometry.array("B", (6, 3)),
            platform_joints=geometry.array("b_p", (6, 3)),
            base_axes=geometry.array("rb1", (6, 3)),
            platform_axes=geometry.array("rp1_p", (6, 3)),
            parameters=np.concatenate([leg_parameters(*links), platform_parameters(*platform)]),
            home=file.vector("home_pose", 6),
            limits=JointLimits.unlimited(6),
            gravity=geometry.vector("gravity", 3),
        )
    geometry.finish()
    bodies.finish()
    return robot


def _needed(file: Table, key: str) -> Table:
    table = file.table(key)
    if table is None:
        raise file.error("the table is missing", key)
    return table


def _limits(limits: Table, legs: Sequence[Table]) -> JointLimits:
    lengths = np.array([leg.bounds("length") for leg in legs])
    sizes = (np.full(6, limits.bound(key)) for key in ("velocity", "acceleration", "jerk", "force"))
    return JointLimits(lengths[:, 0], lengths[:, 1], *sizes)


@contextmanager
def _in_file(file: Table) -> Iterator[None]:
    """Say in which file an impossible robot stands."""
    try:
        yield
    except ModelError as error:
        if "path" in error.context:
            raise
        raise ModelError(
            f"{file.source}: {error.detail}", code=error.code, path=file.source, **error.context
        ) from error
