"""Reading URDF: a serial chain of revolute, continuous and prismatic joints; fixed joints are merged."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError
from core.models.chain import SerialChain
from core.models.frames import inertial_from_com, moved_inertial, pose_from_xyz_rpy, rotation_from_rpy
from core.models.limits import JointLimits
from core.models.units import angle_problem, length_problem

Array = NDArray[np.float64]

TOOL_LINKS = ("tool0", "tcp", "ee_link", "flange")
"""Links taken for the end of the arm, in this order, where the caller names none (ROS-Industrial's names)."""

_MOVING = ("revolute", "continuous", "prismatic")
_UNSUPPORTED = ("floating", "planar")


@dataclass(frozen=True)
class _Joint:
    name: str
    kind: str
    parent: str
    child: str
    origin: Array
    axis: Array
    limits: tuple[float, float, float, float]  # lower, upper, velocity, torque


@dataclass
class _Body:
    """A moving link with everything fixed to it, in the frame of the joint that moves it."""

    inertial: Array
    frames: dict[str, Array] = field(default_factory=dict)  # pose of every member link
    outgoing: list[tuple[_Joint, Array]] = field(default_factory=list)  # moving joints and their pose


def parse_urdf(text: bytes, source: str, *, tool: str | None = None) -> SerialChain:
    """Return the chain that a URDF document describes.

    Links fixed to a moving link count into it; links fixed to the base play no part in the dynamics and are
    left out. The root frame is the URDF's root link, gravity is 9.81 m/s² along its -z.

    Parameters
    ----------
    text : the document.
    source : its path, for messages.
    tool : link that is the end of the arm, rigidly on the last moving link. By default the first of
        ``TOOL_LINKS`` that is; without one, the last joint frame itself.

    Raises
    ------
    ModelError
        Malformed XML, a document type declaration, a number that is none, or a structure other than a serial
        chain on a fixed base; the message names file and element.
    """
    return _Reader(source).read(text, tool)


class _NoDoctype(ET.TreeBuilder):
    """Refuses document type declarations: entities could expand without bound or read other files."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise ModelError(f"document type declarations are not accepted (<!DOCTYPE {name}>); remove it")


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source

    def error(self, element: str, problem: str) -> ModelError:
        return ModelError(f"{self.source}: {element}: {problem}", path=self.source, element=element)

    # --- elements -------------------------------------------------------------------------------------

    def read(self, text: bytes, tool: str | None) -> SerialChain:
        robot = self.root(text)
        links = self.links(robot)
        joints = [self.joint(element) for element in robot.findall("joint")]
        root = self.root_link(links, joints)
        return self.chain(robot.get("name") or "robot", links, joints, root, tool)

    def root(self, text: bytes) -> ET.Element:
        try:
            # the target refuses DTDs, so none of the attacks on Python's parser applies
            robot = ET.fromstring(text, ET.XMLParser(target=_NoDoctype()))  # noqa: S314
        except ET.ParseError as error:
            raise ModelError(f"{self.source}: not well-formed XML: {error}", path=self.source) from error
        except ModelError as error:
            raise ModelError(f"{self.source}: {error.detail}", path=self.source) from error
        if robot.tag != "robot":
            raise self.error(f"<{robot.tag}>", "a URDF document begins with <robot>")
        for element in robot.iter():
            if isinstance(element.tag, str) and element.tag.startswith("{") and "xacro" in element.tag:
                name = element.tag.partition("}")[2]
                raise self.error(f"<xacro:{name}>", "this is a xacro file; expand it to URDF first")
        return robot

    def links(self, robot: ET.Element) -> dict[str, Array]:
        """Return every link's inertial parameters in its own frame; zeros where the file gives none."""
        links: dict[str, Array] = {}
        for element in robot.findall("link"):
            name = self.attribute(element, "name", "<link>")
            if name in links:
                raise self.error(f"link {name!r}", "is defined twice")
            links[name] = self.inertial(element, f"link {name!r}")
        return links

    def inertial(self, link: ET.Element, where: str) -> Array:
        element = link.find("inertial")
        if element is None:
            return np.zeros(10)
        mass_element, inertia = element.find("mass"), element.find("inertia")
        if mass_element is None or inertia is None:
            raise self.error(where, "<inertial> needs both <mass> and <inertia>")
        mass = self.number(mass_element, "value", f"{where}: <mass>")
        if mass < 0:
            raise self.error(where, f"its mass is negative ({mass:g})")
        xx, xy, xz, yy, yz, zz = (
            self.number(inertia, key, f"{where}: <inertia>") for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        )
        xyz, rpy = self.origin(element, f"{where}: <inertial>")
        turn = rotation_from_rpy(rpy)
        about_com = turn @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ turn.T
        return inertial_from_com(mass, xyz, about_com)

    def joint(self, element: ET.Element) -> _Joint:
        name = self.attribute(element, "name", "<joint>")
        where = f"joint {name!r}"
        kind = self.attribute(element, "type", where)
        if kind in _UNSUPPORTED:
            raise self.error(where, f"{kind} joints are not supported; the base is fixed, joints have one axis")
        if kind not in (*_MOVING, "fixed"):
            raise self.error(where, f"unknown joint type {kind!r}")
        if kind != "fixed" and element.find("mimic") is not None:
            raise self.error(where, "<mimic> joints are not supported; make the joint fixed to leave it out")
        ends = {}
        for end in ("parent", "child"):
            found = element.find(end)
            if found is None:
                raise self.error(where, f"has no <{end}>")
            ends[end] = self.attribute(found, "link", f"{where}: <{end}>")
        axis_element = element.find("axis")
        axis = np.array((1.0, 0.0, 0.0))
        if axis_element is not None:
            axis = self.vector(axis_element, "xyz", f"{where}: <axis>", default=(1.0, 0.0, 0.0))
        if kind != "fixed" and not np.linalg.norm(axis) > 1e-9:
            raise self.error(where, "its <axis> has no length")
        origin = pose_from_xyz_rpy(*self.origin(element, where))
        return _Joint(name, kind, ends["parent"], ends["child"], origin, axis, self.limits(element, kind, where))

    def limits(self, joint: ET.Element, kind: str, where: str) -> tuple[float, float, float, float]:
        """Return lower, upper, velocity, torque; a continuous joint may have no limits at all."""
        element = joint.find("limit")
        if kind == "fixed" or (kind == "continuous" and element is None):
            return (-math.inf, math.inf, math.inf, math.inf)
        if element is None:
            raise self.error(where, f"a {kind} joint needs <limit> (or make it continuous)")
        velocity = self.number(element, "velocity", f"{where}: <limit>")
        effort = self.number(element, "effort", f"{where}: <limit>")
        lower, upper = -math.inf, math.inf
        if kind != "continuous":
            lower = self.number(element, "lower", f"{where}: <limit>", default=0.0)
            upper = self.number(element, "upper", f"{where}: <limit>", default=0.0)
        if lower > upper:
            raise self.error(where, f"lower limit {lower:g} is above the upper one, {upper:g}")
        if velocity < 0 or effort < 0:
            raise self.error(where, "velocity and effort limits cannot be negative")
        return (lower, upper, velocity, effort)

    def origin(self, element: ET.Element, where: str) -> tuple[Array, Array]:
        found = element.find("origin")
        if found is None:
            return np.zeros(3), np.zeros(3)
        zero = (0.0, 0.0, 0.0)
        where = f"{where}: <origin>"
        xyz, rpy = (self.vector(found, key, where, default=zero) for key in ("xyz", "rpy"))
        for key, problem in (("xyz", length_problem(xyz)), ("rpy", angle_problem(rpy))):
            if problem:
                raise self.error(where, f"attribute {key!r}: {problem}")
        return xyz, rpy

    def attribute(self, element: ET.Element, key: str, where: str) -> str:
        value = element.get(key)
        if not value:
            raise self.error(where, f"attribute {key!r} is missing")
        return value

    def number(self, element: ET.Element, key: str, where: str, *, default: float | None = None) -> float:
        if element.get(key) is None and default is not None:
            return default
        text = self.attribute(element, key, where)
        try:
            value = float(text)
        except ValueError:
            raise self.error(where, f"{key}={text!r} is not a number") from None
        if not math.isfinite(value):
            raise self.error(where, f"{key}={text!r} is not a finite number")
        return value

    def vector(self, element: ET.Element, key: str, where: str, *, default: tuple[float, float, float]) -> Array:
        text = element.get(key)
        if text is None:
            return np.array(default)
        try:
            values = np.array([float(word) for word in text.split()])
        except ValueError:
            raise self.error(where, f"{key}={text!r} is not three numbers") from None
        if values.shape != (3,) or not np.all(np.isfinite(values)):
            raise self.error(where, f"{key}={text!r} is not three finite numbers")
        return values

    # --- structure ------------------------------------------------------------------------------------

    def root_link(self, links: Mapping[str, Array], joints: list[_Joint]) -> str:
        parent_joint: dict[str, str] = {}
        names = set()
        for joint in joints:
            where = f"joint {joint.name!r}"
            if joint.name in names:
                raise self.error(where, "is defined twice")
            names.add(joint.name)
            for end, link in (("parent", joint.parent), ("child", joint.child)):
                if link not in links:
                    raise self.error(where, f"its {end} link {link!r} is not defined")
            if joint.child in parent_joint:
                raise self.error(where, f"link {joint.child!r} already hangs on joint {parent_joint[joint.child]!r}")
            parent_joint[joint.child] = joint.name
        roots = [name for name in links if name not in parent_joint]
        if len(roots) != 1:
            found = ", ".join(roots) if roots else "none (the joints form a loop)"
            raise self.error("<robot>", f"needs exactly one root link, has {found}")
        return roots[0]

    def body(self, links: Mapping[str, Array], children: Mapping[str, list[_Joint]], link: str) -> _Body:
        """Gather everything rigidly attached to ``link``, expressed in its frame."""
        body = _Body(np.zeros(10))
        pending = [(link, np.eye(4))]
        while pending:
            name, at = pending.pop()
            body.frames[name] = at
            body.inertial = body.inertial + moved_inertial(at, links[name])
            for joint in children.get(name, []):
                if joint.kind == "fixed":
                    pending.append((joint.child, at @ joint.origin))
                else:
                    body.outgoing.append((joint, at @ joint.origin))
        return body

    def chain(
        self, name: str, links: Mapping[str, Array], joints: list[_Joint], root: str, tool: str | None
    ) -> SerialChain:
        children: dict[str, list[_Joint]] = {}
        for joint in joints:
            children.setdefault(joint.parent, []).append(joint)
        moving: list[_Joint] = []
        placements: list[Array] = []
        inertials: list[Array] = []
        body = self.body(links, children, root)
        reached = set(body.frames)
        while body.outgoing:
            if len(body.outgoing) > 1:
                names = ", ".join(repr(joint.name) for joint, _ in body.outgoing)
                raise self.error(
                    f"joints {names}",
                    "all move on the same body, but only serial chains are supported; make the joints of "
                    "side branches (a gripper's fingers) fixed",
                )
            joint, placement = body.outgoing[0]
            body = self.body(links, children, joint.child)
            reached |= set(body.frames)
            moving.append(joint)
            placements.append(placement)
            inertials.append(body.inertial)
        if not moving:
            raise self.error("<robot>", "has no moving joint")
        if len(reached) != len(links):
            lost = ", ".join(repr(link) for link in links if link not in reached)
            raise self.error("<robot>", f"these links form a loop of their own: {lost}")
        poses = np.array(placements)
        lower, upper, velocity, torque = np.array([joint.limits for joint in moving]).T
        unlimited = np.full(len(moving), np.inf)
        return SerialChain(
            name=name,
            joint_names=tuple(joint.name for joint in moving),
            joint_types=tuple("prismatic" if j.kind == "prismatic" else "revolute" for j in moving),
            placement_rotation=poses[:, :3, :3],
            placement_translation=poses[:, :3, 3],
            axis=np.array([joint.axis for joint in moving]),
            inertial_parameters=np.array(inertials),
            limits=JointLimits(lower, upper, velocity, unlimited, unlimited, torque),
            tool=self.tool(body, tool),
        )

    def tool(self, last: _Body, name: str | None) -> Array:
        if name is None:
            name = next((link for link in TOOL_LINKS if link in last.frames), None)
            return np.eye(4) if name is None else last.frames[name]
        if name not in last.frames:
            there = ", ".join(repr(link) for link in last.frames)
            raise self.error(f"link {name!r}", f"is no part of the last moving link, which consists of {there}")
        return last.frames[name]
