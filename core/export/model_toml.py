"""A serial chain as a model file of this project, see ``core.models.model_file``."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError
from core.models import SerialChain
from core.models.frames import com_from_inertial, rpy_from_rotation
from core.models.model_file import FORMAT, VERSION

Array = NDArray[np.float64]


def model_toml(chain: SerialChain, notes: Sequence[str] = ()) -> str:
    """Return the model file of a chain, with ``notes`` as comments.

    Loading it gives the same dynamics, limits, rotors and drive gains.

    Raises
    ------
    ModelError
        A link has first moments or inertia but no mass (code ``not-consistent``).
    """
    lines = [
        *(f"# {note}" for note in notes),
        f'format = "{FORMAT}"',
        f"version = {VERSION}",
        f"name = {json.dumps(chain.name)}",
        'convention = "urdf"',
        f"gravity = {_list(chain.gravity)}",
        "",
        "[tool]",
        *_pose(chain.tool[:3, :3], chain.tool[:3, 3]),
    ]
    for j in range(chain.n_joints):
        lines += ["", "[[joints]]", *_joint(chain, j)]
    return "\n".join([*lines, ""])


def _joint(chain: SerialChain, j: int) -> list[str]:
    origin = ", ".join(_pose(chain.placement_rotation[j], chain.placement_translation[j]))
    lines = [
        f"name = {json.dumps(chain.joint_names[j])}",
        f'type = "{chain.joint_types[j]}"',
        f"origin = {{ {origin} }}",
        f"axis = {_list(chain.axis[j])}",
    ]
    if limits := _limits(chain, j):
        lines.append(f"limits = {{ {', '.join(limits)} }}")
    if chain.rotor_inertia is not None:
        lines.append(f"rotor_inertia = {chain.rotor_inertia[j].item()!r}")
    if chain.drive_gains is not None:
        lines.append(f"drive_gain = {chain.drive_gains[j].item()!r}")
    return lines + _inertial(chain, j)


def _limits(chain: SerialChain, j: int) -> list[str]:
    limits = chain.limits
    found = []
    position = [limits.position_lower[j].item(), limits.position_upper[j].item()]
    if np.all(np.isfinite(position)):
        found.append(f"position = {position}")
    elif np.any(np.isfinite(position)):
        raise ModelError(
            f"{chain.name}: joint {chain.joint_names[j]!r} has a limit of position on one side only, which a model "
            "file does not know; give both",
            joint=chain.joint_names[j],
        )
    for name in ("velocity", "acceleration", "jerk", "torque"):
        value = getattr(limits, name)[j].item()
        if np.isfinite(value):
            found.append(f"{name} = {value!r}")
    return found


def _inertial(chain: SerialChain, j: int) -> list[str]:
    parameters = chain.inertial_parameters[j]
    if not parameters.any():
        return []
    if parameters[0] <= 0.0:
        raise ModelError(
            f"{chain.name}: the link moved by {chain.joint_names[j]!r} has inertia but no mass, so it has no centre of "
            "mass to write",
            code="not-consistent",
            joint=chain.joint_names[j],
        )
    mass, com, inertia = com_from_inertial(parameters)
    pairs = ("xx", "yy", "zz", "xy", "xz", "yz")
    tensor = ", ".join(f"{p} = {inertia['xyz'.index(p[0]), 'xyz'.index(p[1])].item()!r}" for p in pairs)
    return ["", "[joints.inertial]", f"mass = {mass!r}", f"com = {_list(com)}", f"inertia = {{ {tensor} }}"]


def _pose(rotation: Array, translation: Array) -> list[str]:
    return [f"xyz = {_list(translation)}", f"rpy = {_list(rpy_from_rotation(rotation))}"]


def _list(values: Array) -> str:
    return repr(values.tolist())
