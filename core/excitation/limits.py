"""What a designed motion has to keep to: end poses, joint limits, workspace; and the TOML file that states it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, ModelError
from core.excitation.workspace import Workspace
from core.models import JointLimits, Mechanism, SixUPRU

Array = NDArray[np.float64]

_JOINT_KEYS = ("position_lower", "position_upper", "velocity", "acceleration", "jerk", "torque")
_ANGLE_KEYS = ("position_lower", "position_upper", "start", "end")
_ARM_KEYS = ("box", "floor", "self_collision", "radii")
_MOST_ANGLE = 8.0 * np.pi  # rad: four turns
_PARALLEL_KEYS = ("joint_angle", "joint_angle_deg", "condition")


@dataclass(frozen=True)
class DesignLimits:
    """Limits of one design; all of them are checked on a 1 ms grid before a design is returned.

    Attributes
    ----------
    joints : limits of the actuated joints; infinite = unlimited.
    start, end : (n,) poses, in the robot's generalised coordinates: rad and m.
    workspace : where the arm may be.
    joint_angle : rad, of the universal joints of a parallel robot, from home to either side.
    condition : largest condition number of a parallel robot's Jacobian.
    in_motion : whether the ends may be passed in motion, as those of the family "fourier_free" are.
    """

    joints: JointLimits
    start: Array
    end: Array
    workspace: Workspace = Workspace()  # noqa: RUF009 - frozen
    joint_angle: float = np.inf
    condition: float = np.inf
    in_motion: bool = False

    def __post_init__(self) -> None:
        shape = self.joints.velocity.shape
        for name in ("start", "end"):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.shape != shape or not np.all(np.isfinite(value)):
                raise InputError(f"{name}: expected {shape[0]} finite numbers, got {value.tolist()}")
            object.__setattr__(self, name, value)
        stuck = self.joints.position_lower >= self.joints.position_upper
        if np.any(stuck):
            raise InputError(
                f"joint {int(np.argmax(stuck)) + 1} may not move: position_lower and position_upper are equal; give "
                "it some room, or design for a model in which it is fixed"
            )


def read_limits(path: str | Path, model: Mechanism) -> DesignLimits:
    """Return the limits that a TOML file states for a robot.

    Keys, each with one number per joint: ``position_lower``, ``position_upper``, ``start`` and ``end`` (rad, or
    with the suffix ``_deg`` where all joints turn; m where they slide), ``velocity``, ``acceleration``, ``jerk``,
    ``torque`` (SI). What is absent is unlimited; ``start`` is needed, and ``end`` is ``start`` unless given.
    ``floor`` (m) and ``self_collision`` (m between surfaces) are numbers, ``box`` is ``[[x, y, z], [x, y, z]]``,
    least and largest, of the tool; ``radii`` (m) of the base and every link replace the default capsules.

    For a 6-UPRU robot joints are its legs (m, m/s, m/s², N), ``start`` and ``end`` poses of the platform, by default
    its home, and there are ``joint_angle`` (rad, or ``joint_angle_deg``) and ``condition`` instead of the workspace.

    Raises
    ------
    InputError
        The file cannot be read or is no TOML, a key is unknown, a value has the wrong shape, or limits
        contradict each other.
    """
    file = Path(path)
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}", code="limits-unreadable") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not a TOML file: {error}", code="limits-invalid") from error
    return limits_from_document(document, model, str(file))


def limits_from_document(document: Mapping[str, Any], model: Mechanism, source: str = "limits") -> DesignLimits:
    """Return the limits that a mapping with the keys of ``read_limits`` states."""
    try:
        return _parse(document, model)
    except (InputError, ModelError) as error:
        raise InputError(f"{source}: {error.detail}", code="limits-invalid") from error


def _parse(document: Mapping[str, Any], model: Mechanism) -> DesignLimits:
    n = model.n_joints
    degrees = {f"{key}_deg" for key in _ANGLE_KEYS}
    parallel = isinstance(model, SixUPRU)
    others = _PARALLEL_KEYS if parallel else _ARM_KEYS
    known = {*_JOINT_KEYS, *_ANGLE_KEYS, *degrees, *others}
    unknown = set(document) - known
    if unknown:
        raise InputError(f"unknown keys {sorted(unknown)}; known are {sorted(known)}")
    values = {key: _numbers(document, key, n) for key in (*_JOINT_KEYS, *_ANGLE_KEYS, *degrees) if key in document}
    for key in _ANGLE_KEYS:
        if f"{key}_deg" in values:
            if key in values:
                raise InputError(f"{key} is given in rad and in degrees; give one of them")
            if "prismatic" in model.joint_types:
                slide = model.joint_types.index("prismatic")
                raise InputError(
                    f"{key}_deg: joint {slide + 1} ({model.joint_names[slide]}) slides; give {key}, in rad and m"
                )
            values[key] = np.deg2rad(values.pop(f"{key}_deg"))
    if isinstance(model, SixUPRU):
        values.setdefault("start", model.home)
    if "start" not in values:
        raise InputError("start is missing: the pose, one angle per joint, that the motion begins in")
    for key, value in values.items():
        _refuse_degrees(key, value, model)
    start = values.pop("start")
    end = values.pop("end", start)
    unlimited = JointLimits.unlimited(n)
    joints = JointLimits(**{key: values.get(key, getattr(unlimited, key)) for key in _JOINT_KEYS})
    workspace = Workspace(
        box=_optional(document, "box", _box),
        floor=_optional(document, "floor", _number),
        self_collision=_optional(document, "self_collision", _number),
        radii=_optional(document, "radii", lambda key, value: _array(key, value, (n + 1,))),
    )
    return DesignLimits(joints, start, end, workspace, *_posture(document))


def _refuse_degrees(key: str, value: Array, model: Mechanism) -> None:
    """Refuse angles of turning joints that only make sense in degrees."""
    turns = np.array([kind != "prismatic" for kind in model.joint_types])
    doubtful = turns & np.isfinite(value) & (np.abs(value) > _MOST_ANGLE)
    if key in _ANGLE_KEYS and np.any(doubtful):
        joint = int(np.argmax(doubtful))
        raise InputError(
            f"{key}: {value[joint]:g} rad of joint {joint + 1} ({model.joint_names[joint]}) is more than four turns; "
            f"if these are degrees, write {key}_deg"
        )


def _posture(document: Mapping[str, Any]) -> tuple[float, float]:
    """Return the largest joint angle (rad) and condition number."""
    if "joint_angle" in document and "joint_angle_deg" in document:
        raise InputError("joint_angle is given in rad and in degrees; give one of them")
    angle = _optional(document, "joint_angle", _number)
    degrees = _optional(document, "joint_angle_deg", _number)
    condition = _optional(document, "condition", _number)
    found = np.inf if angle is None and degrees is None else angle if degrees is None else float(np.deg2rad(degrees))
    if not found > 0.0:
        raise InputError(f"joint_angle: expected an angle above zero, got {found:g} rad")
    if condition is not None and not condition > 1.0:
        raise InputError(f"condition: a condition number is above 1, got {condition:g}")
    return found, np.inf if condition is None else condition


def _optional(document: Mapping[str, Any], key: str, read: Callable[[str, Any], Any]) -> Any:
    return read(key, document[key]) if key in document else None


def _numbers(document: Mapping[str, Any], key: str, n: int) -> Array:
    value = _array(key, document[key], (n,))
    if key in ("velocity", "acceleration", "jerk", "torque") and np.any(value <= 0.0):
        raise InputError(f"{key}: every joint needs a positive limit, got {value.tolist()}")
    return value


def _array(key: str, value: Any, shape: tuple[int, ...]) -> Array:
    """Return numbers, and nothing that NumPy would take for some: no true, no "1"."""
    items = np.array(value, dtype=object)
    numeric = all(isinstance(item, int | float) and not isinstance(item, bool) for item in items.flat)
    if items.shape != shape or not numeric or any(item != item for item in items.flat):  # noqa: PLR0124 - NaN
        raise InputError(f"{key}: expected {' x '.join(map(str, shape))} numbers, got {value!r}")
    return np.array([_number(key, item) for item in items.flat]).reshape(shape)


def _box(key: str, value: Any) -> Array:
    return _array(key, value, (2, 3))


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        raise InputError(f"{key}: expected a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"{key}: a number of {len(str(value))} digits is beyond every robot") from None
