"""This project's own model files: TOML.

``kind = "six-upru"`` is a parallel robot, see ``core.models.upru_file``. ``kind = "serial-chain"``, which may be
left out, is a serial chain with joint tables in one of three conventions:

``convention = "urdf"``   each joint has ``origin = { xyz, rpy }`` in the previous link frame and an ``axis``;
                          link frame j is joint frame j.
``convention = "dh"``     each joint has ``dh = { a, alpha, d, theta }``; standard Denavit-Hartenberg,
                          Rz(theta) Tz(d) Tx(a) Rx(alpha); joint j moves about z of link frame j-1.
``convention = "mdh"``    each joint has ``mdh = { a, alpha, d, theta }``; modified (Craig's), Rx(alpha) Tx(a)
                          Rz(theta) Tz(d) with the a and alpha before the joint; joint j moves about z of j.

The variable adds to theta (revolute) or d (prismatic). Inertials are given in the link frames of the
convention and are moved to the joint frames of ``SerialChain``. Lengths in m, angles in rad, kg, kg·m², N·m.
Keys that mean nothing are refused, so that a misspelt limit is not a missing one.
"""

from __future__ import annotations

import math
import tomllib

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError
from core.models.chain import JOINT_TYPES, STANDARD_GRAVITY, SerialChain
from core.models.frames import inertial_from_com, moved_inertial, pose_from_xyz_rpy, screw_x, screw_z
from core.models.limits import JointLimits
from core.models.mechanism import Mechanism
from core.models.six_upru import SixUPRU
from core.models.tables import Table, all_or_none
from core.models.units import angle_problem, length_problem
from core.models.upru_file import read_six_upru

Array = NDArray[np.float64]

FORMAT = "dynid-model"
VERSION = 1
_KINDS = (SerialChain.KIND, SixUPRU.KIND)
CONVENTIONS = ("urdf", "dh", "mdh")
_Z = (0.0, 0.0, 1.0)
_ZERO = (0.0, 0.0, 0.0)


def parse_model_file(text: bytes, source: str) -> Mechanism:
    """Return the robot that a model file describes; ``source`` is its path, for messages.

    Raises
    ------
    ModelError
        Malformed TOML, another format, an unknown key, a missing or non-finite number; the message names file
        and element.
    """
    try:
        values = tomllib.loads(text.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ModelError(f"{source}: neither URDF nor TOML: {error}", path=source) from error
    file = Table(values, source, "")
    if file.get("format") != FORMAT or file.get("version") != VERSION:
        raise file.error(f'is no model file; it should begin with format = "{FORMAT}", version = {VERSION}')
    if file.text("kind", among=_KINDS, default=SerialChain.KIND) == SixUPRU.KIND:
        return read_six_upru(file)
    return _read_serial_chain(file)


def _read_serial_chain(file: Table) -> SerialChain:
    convention = file.text("convention", among=CONVENTIONS)
    joints = _joints(file)
    gravity = file.vector("gravity", 3, default=STANDARD_GRAVITY)
    before = _pose(file.table("base"))  # from the previous link frame, or the root, to where the joint begins
    placements, axes, inertials = [], [], []
    for joint, kind in joints:
        placement, axis, after = _geometry(joint, kind, convention)
        placements.append(before @ placement)
        axes.append(axis)
        inertials.append(moved_inertial(after, _inertial(joint)))
        before = after
    poses = np.array(placements)
    chain = SerialChain(
        name=file.text("name"),
        joint_names=tuple(joint.text("name") for joint, _ in joints),
        joint_types=tuple(kind for _, kind in joints),
        placement_rotation=poses[:, :3, :3],
        placement_translation=poses[:, :3, 3],
        axis=np.array(axes),
        inertial_parameters=np.array(inertials),
        limits=_limits(joints),
        rotor_inertia=all_or_none([joint for joint, _ in joints], "rotor_inertia"),
        gravity=gravity,
        drive_gains=all_or_none([joint for joint, _ in joints], "drive_gain"),
        tool=before @ _pose(file.table("tool")),
    )
    for joint, _ in joints:
        joint.finish()
    file.finish()
    return chain


def _joints(file: Table) -> list[tuple[Table, str]]:
    return [(joint, joint.text("type", among=JOINT_TYPES, default="revolute")) for joint in file.tables("joints")]


def _geometry(joint: Table, kind: str, convention: str) -> tuple[Array, Array, Array]:
    """Return the joint frame after what went before, the axis in it, and the link frame in it."""
    if convention == "urdf":
        axis = joint.vector("axis", 3, default=_Z)
        if not np.linalg.norm(axis) > 1e-9:
            raise joint.error("has no length", "axis")
        return _pose(joint.table("origin")), axis, np.eye(4)
    table = joint.table(convention)
    if table is None:
        raise joint.error("the table { a, alpha, d, theta } is missing", convention)
    constant = {"revolute": "d", "prismatic": "theta"}[kind]
    defaults = {key: None if key == constant else 0.0 for key in ("d", "theta")}
    a, alpha = table.number("a", problem=length_problem), table.number("alpha", problem=angle_problem)
    d = table.number("d", default=defaults["d"], problem=length_problem)
    theta = table.number("theta", default=defaults["theta"], problem=angle_problem)
    table.finish()
    turn, step = screw_z(d, theta), screw_x(a, alpha)
    if convention == "dh":
        return turn, np.array(_Z), step
    return step @ turn, np.array(_Z), np.eye(4)


def _pose(table: Table | None) -> Array:
    if table is None:
        return np.eye(4)
    xyz = table.vector("xyz", 3, default=_ZERO, problem=length_problem)
    result = pose_from_xyz_rpy(xyz, table.vector("rpy", 3, default=_ZERO, problem=angle_problem))
    table.finish()
    return result


def _inertial(joint: Table) -> Array:
    """Return the link's inertial parameters in its own frame; zeros where the file gives none."""
    table = joint.table("inertial")
    if table is None:
        return np.zeros(10)
    mass, com = table.number("mass"), table.vector("com", 3, problem=length_problem)
    if mass < 0:
        raise table.error("is negative", "mass")
    tensor = table.tensor("inertia")
    table.finish()
    return inertial_from_com(mass, com, np.zeros((3, 3)) if tensor is None else tensor)


def _limits(joints: list[tuple[Table, str]]) -> JointLimits:
    """Return the limits; whatever the file leaves out is unlimited."""
    rows = []
    for joint, _ in joints:
        table = joint.table("limits")
        if table is None:
            rows.append([-math.inf, *[math.inf] * 5])
            continue
        sizes = [table.bound(key) for key in ("velocity", "acceleration", "jerk", "torque")]
        rows.append([*table.bounds("position"), *sizes])
        table.finish()
    return JointLimits(*np.array(rows, dtype=np.float64).T)
