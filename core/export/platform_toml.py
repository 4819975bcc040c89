"""A 6-UPRU robot with identified parameters as a model file of this project, see ``core.models.upru_file``."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError
from core.models import SixUPRU
from core.models.model_file import FORMAT, VERSION

Array = NDArray[np.float64]

_LIMITS = {"velocity": "velocity", "acceleration": "acceleration", "jerk": "jerk", "force": "torque"}
"""Name in the file -> in ``JointLimits``."""


def platform_toml(robot: SixUPRU, notes: Sequence[str] = ()) -> str:
    """Return the model file of a platform, with ``notes`` as comments; loading it gives the same robot.

    Its 29 standard parameters are written as such, since no bodies need have those that were identified.

    Raises
    ------
    ModelError
        Legs have different limits of one kind, or a length is limited to one side only.
    """
    lines = [
        *(f"# {note}" for note in notes),
        f'format = "{FORMAT}"',
        f"version = {VERSION}",
        f'kind = "{SixUPRU.KIND}"',
        f"name = {json.dumps(robot.name)}",
        f"gravity = {_list(robot.gravity)}",
        f"home = {_list(robot.home)}",
        "",
        "[limits]",
        *_limits(robot),
        "",
        "[parameters]",
        *(
            f"{json.dumps(name)} = {value!r}"
            for name, value in zip(robot.parameter_names, robot.parameters.tolist(), strict=True)
        ),
    ]
    for leg in range(6):
        lines += ["", "[[legs]]", *_leg(robot, leg)]
    return "\n".join([*lines, ""])


def _limits(robot: SixUPRU) -> list[str]:
    found = {"joint_angle": robot.joint_angle_limit, "condition": robot.condition_limit}
    for key, name in _LIMITS.items():
        values = getattr(robot.limits, name)
        if np.any(values != values[0]):
            raise ModelError(f"{robot.name}: legs differ in their limit of {key}, of which a model file knows one")
        found[key] = values[0].item()
    return [f"{key} = {value!r}" for key, value in found.items() if np.isfinite(value)]


def _leg(robot: SixUPRU, leg: int) -> list[str]:
    lines = [
        f"name = {json.dumps(robot.joint_names[leg])}",
        f"base_joint = {_list(robot.base_joints[leg])}",
        f"platform_joint = {_list(robot.platform_joints[leg])}",
        f"base_axis = {_list(robot.base_axes[leg])}",
        f"platform_axis = {_list(robot.platform_axes[leg])}",
    ]
    lengths = np.array([robot.limits.position_lower[leg], robot.limits.position_upper[leg]])
    if np.all(np.isfinite(lengths)):
        lines.append(f"length = {_list(lengths)}")
    elif np.any(np.isfinite(lengths)):
        raise ModelError(
            f"{robot.name}: {robot.joint_names[leg]} has a limit of length on one side only, which a model file does "
            "not know; give both",
            joint=robot.joint_names[leg],
        )
    if robot.drive_gains is not None:
        lines.append(f"drive_gain = {robot.drive_gains[leg].item()!r}")
    return lines


def _list(values: Array) -> str:
    return repr(values.tolist())
