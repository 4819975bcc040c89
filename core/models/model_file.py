"""This project's own model files: TOML with joint tables in one of three conventions.

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
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError
from core.models.chain import JOINT_TYPES, STANDARD_GRAVITY, SerialChain
from core.models.frames import inertial_from_com, moved_inertial, pose_from_xyz_rpy, screw_x, screw_z
from core.models.limits import JointLimits

Array = NDArray[np.float64]

FORMAT = "dynid-model"
VERSION = 1
CONVENTIONS = ("urdf", "dh", "mdh")
_Z = (0.0, 0.0, 1.0)
_ZERO = (0.0, 0.0, 0.0)


class _Table:
    """A TOML table that knows where it stands, and which of its keys nobody has asked for."""

    def __init__(self, values: Mapping[str, Any], source: str, where: str) -> None:
        self.values = values
        self.source = source
        self.where = where
        self.known: set[str] = set()

    def error(self, problem: str, key: str | None = None) -> ModelError:
        element = ".".join(part for part in (self.where, key) if part)
        place = f"{self.source}: {element}" if element else self.source
        return ModelError(f"{place}: {problem}", path=self.source, element=element)

    def get(self, key: str) -> Any:
        self.known.add(key)
        return self.values.get(key)

    def text(self, key: str, *, among: Sequence[str] = (), default: str | None = None) -> str:
        value = self.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value:
            raise self.error("a text is missing", key)
        if among and value not in among:
            raise self.error(f"{value!r} is none of {', '.join(among)}", key)
        return value

    def number(self, key: str, *, default: float | None = None) -> float:
        value = self.get(key)
        if value is None and default is not None:
            return default
        return self._finite(value, key)

    def vector(self, key: str, size: int, *, default: Sequence[float] | None = None) -> Array:
        value = self.get(key)
        if value is None and default is not None:
            return np.array(default, dtype=np.float64)
        if not isinstance(value, list) or len(value) != size:
            raise self.error(f"needs {size} numbers", key)
        return np.array([self._finite(number, key) for number in value])

    def _finite(self, value: object, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            problem = "a number is missing" if value is None else f"{value!r} is not a finite number"
            raise self.error(problem, key)
        return float(value)

    def table(self, key: str) -> _Table | None:
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error("is not a table", key)
        return _Table(value, self.source, f"{self.where}.{key}" if self.where else key)

    def finish(self) -> None:
        unknown = sorted(set(self.values) - self.known)
        if unknown:
            raise self.error(f"unknown key {unknown[0]!r}; there are {', '.join(sorted(self.known))}")


def parse_model_file(text: bytes, source: str) -> SerialChain:
    """Return the chain that a model file describes; ``source`` is its path, for messages.

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
    file = _Table(values, source, "")
    if file.get("format") != FORMAT or file.get("version") != VERSION:
        raise file.error(f'is no model file; it should begin with format = "{FORMAT}", version = {VERSION}')
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
        rotor_inertia=_all_or_none(joints, "rotor_inertia"),
        gravity=gravity,
        drive_gains=_all_or_none(joints, "drive_gain"),
        tool=before @ _pose(file.table("tool")),
    )
    for joint, _ in joints:
        joint.finish()
    file.finish()
    return chain


def _joints(file: _Table) -> list[tuple[_Table, str]]:
    tables = file.get("joints")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise file.error("needs at least one [[joints]] table", "joints")
    joints = [_Table(table, file.source, f"joints[{j}]") for j, table in enumerate(tables, start=1)]
    return [(joint, joint.text("type", among=JOINT_TYPES, default="revolute")) for joint in joints]


def _geometry(joint: _Table, kind: str, convention: str) -> tuple[Array, Array, Array]:
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
    a, alpha = table.number("a"), table.number("alpha")
    d, theta = (table.number(key, default=None if key == constant else 0.0) for key in ("d", "theta"))
    table.finish()
    turn, step = screw_z(d, theta), screw_x(a, alpha)
    if convention == "dh":
        return turn, np.array(_Z), step
    return step @ turn, np.array(_Z), np.eye(4)


def _pose(table: _Table | None) -> Array:
    if table is None:
        return np.eye(4)
    result = pose_from_xyz_rpy(table.vector("xyz", 3, default=_ZERO), table.vector("rpy", 3, default=_ZERO))
    table.finish()
    return result


def _inertial(joint: _Table) -> Array:
    """Return the link's inertial parameters in its own frame; zeros where the file gives none."""
    table = joint.table("inertial")
    if table is None:
        return np.zeros(10)
    mass, com = table.number("mass"), table.vector("com", 3)
    if mass < 0:
        raise table.error("is negative", "mass")
    inertia = table.table("inertia")
    tensor = np.zeros((3, 3))
    if inertia is not None:
        for row, column in ("xx", "yy", "zz", "xy", "xz", "yz"):
            i, j = "xyz".index(row), "xyz".index(column)
            default = 0.0 if i != j else None
            tensor[i, j] = tensor[j, i] = inertia.number(row + column, default=default)
        inertia.finish()
    table.finish()
    return inertial_from_com(mass, com, tensor)


def _limits(joints: list[tuple[_Table, str]]) -> JointLimits:
    """Return the limits; whatever the file leaves out is unlimited."""
    rows = []
    for joint, _ in joints:
        table = joint.table("limits")
        if table is None:
            rows.append([-math.inf, *[math.inf] * 5])
            continue
        lower, upper = table.vector("position", 2) if "position" in table.values else (-math.inf, math.inf)
        if lower > upper:
            raise table.error(f"the lower limit, {lower:g}, is above the upper one, {upper:g}", "position")
        others = ("velocity", "acceleration", "jerk", "torque")
        sizes = [table.number(key, default=math.inf) for key in others]
        for key, size in zip(others, sizes, strict=True):
            if size < 0:
                raise table.error("is negative", key)
        rows.append([lower, upper, *sizes])
        table.known.add("position")
        table.finish()
    return JointLimits(*np.array(rows, dtype=np.float64).T)


def _all_or_none(joints: list[tuple[_Table, str]], key: str) -> Array | None:
    given = [joint.get(key) is not None for joint, _ in joints]
    if not any(given):
        return None
    if not all(given):
        missing, _ = joints[given.index(False)]
        raise missing.error("is missing, though other joints have it; give it for all or for none", key)
    return np.array([joint.number(key) for joint, _ in joints])
