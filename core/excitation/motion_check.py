"""The check that a whole trajectory passes before a robot is asked to follow it.

Nothing is clamped: the first violation, in time, is refused with its joint, its time, the value and the
limit. Torque is predicted from the nominal model; jerk is checked inside and as the acceleration step
that an end with non-zero acceleration would be. Floor, box and self-collision are checked where a workspace is
given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, MotionLimitError
from core.excitation.trajectory import TrajectorySamples
from core.excitation.workspace import Workspace, WorkspaceCheck
from core.models import Mechanism, SerialChain

Array = NDArray[np.float64]

END_SPEED = 1e-6
"""Largest speed, rad/s, that still counts as standing at a trajectory's ends."""

END_ACCELERATION = 1e-3
"""Largest acceleration, rad/s², at an end: beyond it the start or stop is a jerk."""


@dataclass(frozen=True)
class LimitMargin:
    """How close one kind of limit is approached, per joint.

    Attributes
    ----------
    use : worst share of the limit that is used, 1 = at the limit; 0 where there is none.
    least : least distance to the limit in ``units``; infinite where there is none.
    """

    kind: str
    use: tuple[float, ...]
    least: tuple[float, ...]
    units: tuple[str, ...]

    def to_document(self) -> dict[str, Any]:
        """Return JSON-serialisable data: the least distances, null where there is no limit, and their units."""
        return {"least": [least if np.isfinite(least) else None for least in self.least], "units": list(self.units)}


@dataclass(frozen=True)
class Clearance:
    """Least distance that is left to one limit of the workspace, and when.

    Attributes
    ----------
    between : such as "wrist_3_joint above the floor".
    least : m beyond what is asked for; negative = violated.
    time : s.
    """

    between: str
    least: float
    time: float


@dataclass(frozen=True)
class MotionReport:
    """What a trajectory uses of each limit, what it leaves of the workspace, and how long it takes (s)."""

    duration: float
    margins: tuple[LimitMargin, ...]
    clearances: tuple[Clearance, ...] = ()


@dataclass(frozen=True)
class _Violation:
    kind: str
    row: int
    joint: int
    value: float
    limit: float
    units: tuple[str, ...]


def check_motion(
    samples: TrajectorySamples, model: Mechanism, workspace: Workspace | None = None, *, in_motion: bool = False
) -> MotionReport:
    """Check a sampled trajectory against the model's limits.

    Parameters
    ----------
    samples : of the model's generalised coordinates, on the grid the controller will be given (or finer).
    model : its ``limits`` bound position, speed, acceleration, jerk and predicted torque of the actuated joints;
        joint angles and conditioning of a parallel robot are checked as well.
    workspace : floor, box and self-collision of an arm, if they are to be checked too.
    in_motion : whether it may begin and end in motion; no robot can play it like that.

    Raises
    ------
    InputError
        The trajectory has another number of joints than the model, or the model no workspace to check.
    KinematicsError
        A pose of a parallel robot is singular.
    MotionLimitError
        A limit is left. The context holds kind, joint (1-based), joint name, time, value, limit; for the
        workspace kind, between, time and value (m, negative).
    """
    if samples.n_joints != model.n_joints:
        raise InputError(
            f"the trajectory moves {samples.n_joints} joints, {model.name} has {model.n_joints}",
            code="trajectory-joints-mismatch",
        )
    joints = joint_samples(samples, model)
    if not in_motion:
        _check_rest_at_ends(joints, model)
    violations: list[_Violation] = []
    margins: list[LimitMargin] = []
    for kind, value, lower, upper, units in _limited_signals(samples, joints, model):
        margins.append(LimitMargin(kind, *_margins(value, lower, upper), units))
        first = _first_violation(kind, value, lower, upper, units)
        if first is not None:
            violations.append(first)
    if violations:
        worst = min(violations, key=lambda v: (v.row, v.joint))
        raise _limit_error(worst, samples, model)
    return MotionReport(samples.duration, tuple(margins), _check_workspace(samples, model, workspace))


def joint_samples(samples: TrajectorySamples, model: Mechanism) -> TrajectorySamples:
    """Return the motion of the actuated joints for a motion of the model's generalised coordinates."""
    return TrajectorySamples(samples.period, samples.t, *model.joint_motion(samples.q, samples.qd, samples.qdd))


def _check_workspace(
    samples: TrajectorySamples, model: Mechanism, workspace: Workspace | None
) -> tuple[Clearance, ...]:
    if workspace is None or not workspace.limits_anything:
        return ()
    if not isinstance(model, SerialChain):
        raise InputError(f"{model.name}: floor, box and self-collision can be checked for an arm only")
    check = WorkspaceCheck(workspace, model)
    clearance = check.clearances(samples.q)
    rows, columns = np.nonzero(clearance < 0.0)
    if rows.size:
        row, column = int(rows[0]), int(columns[0])
        time, value = float(samples.t[row]), float(clearance[row, column])
        raise MotionLimitError(
            f"{check.labels[column]}: {-1e3 * value:.0f} mm too little at t = {time:.3f} s. Nothing was moved; "
            "change the trajectory or the workspace",
            kind="workspace",
            between=check.labels[column],
            time=time,
            value=value,
        )
    least = clearance.argmin(axis=0)
    return tuple(
        Clearance(label, float(clearance[row, column]), float(samples.t[row]))
        for column, (label, row) in enumerate(zip(check.labels, least, strict=True))
    )


def units_of(model: Mechanism) -> list[tuple[str, str]]:
    """Return the units of position and effort of every joint."""
    return [("rad", "N·m") if kind == "revolute" else ("m", "N") for kind in model.joint_types]


def _units(model: Mechanism, kind: str) -> tuple[str, ...]:
    if kind == "predicted torque":
        return tuple(effort for _, effort in units_of(model))
    per = {"position": "", "speed": "/s", "acceleration": "/s²", "jerk": "/s³"}[kind]
    return tuple(f"{position}{per}" for position, _ in units_of(model))


def _limited_signals(
    samples: TrajectorySamples, joints: TrajectorySamples, model: Mechanism
) -> list[tuple[str, Array, Array, Array, tuple[str, ...]]]:
    """Return kind, values (N, n), lower and upper limits (n,), units."""
    limits = model.limits
    jerk = np.diff(joints.qdd, axis=0, append=joints.qdd[-1:]) / joints.period
    torque = model.inverse_dynamics(samples.q, samples.qd, samples.qdd)
    symmetric = (
        ("speed", joints.qd, limits.velocity),
        ("acceleration", joints.qdd, limits.acceleration),
        ("jerk", jerk, limits.jerk),
        ("predicted torque", torque, limits.torque),
    )
    signals = [
        ("position", joints.q, limits.position_lower, limits.position_upper),
        *((kind, value, -bound, bound) for kind, value, bound in symmetric),
    ]
    found = [(kind, value, lower, upper, _units(model, kind)) for kind, value, lower, upper in signals]
    for posture in model.posture(samples.q):
        least = np.full_like(posture.limit, -np.inf)  # what is counted is how large it gets
        found.append((posture.kind, posture.values, least, posture.limit, (posture.unit,) * model.n_joints))
    return found


def _margins(value: Array, lower: Array, upper: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the worst share of each joint's range that is used, and the least distance to a limit.

    A range that is open to one side counts from zero, or from the limit if that is zero.
    """
    above, below = (upper - value).min(axis=0), (value - lower).min(axis=0)
    use = []
    for low, high, up, down in zip(lower, upper, above, below, strict=True):
        if np.isfinite(low) and np.isfinite(high):
            half = 0.5 * (high - low)
            use.append(1.0 - min(up, down) / half if half > 0.0 else 1.0)
        elif np.isfinite(high) or np.isfinite(low):
            limit, left = (high, up) if np.isfinite(high) else (low, down)
            use.append(max(0.0, 1.0 - left / (abs(limit) or 1.0)))
        else:
            use.append(0.0)
    return tuple(map(float, use)), tuple(map(float, np.minimum(above, below)))


def _first_violation(kind: str, value: Array, lower: Array, upper: Array, units: tuple[str, ...]) -> _Violation | None:
    rows, joints = np.nonzero((value < lower) | (value > upper))
    if rows.size == 0:
        return None
    row, joint = int(rows[0]), int(joints[0])
    limit = lower[joint] if value[row, joint] < lower[joint] else upper[joint]
    return _Violation(kind, row, joint, float(value[row, joint]), float(limit), units)


def _check_rest_at_ends(samples: TrajectorySamples, model: Mechanism) -> None:
    for row, end in ((0, "start"), (-1, "end")):
        for kind, value, tolerance in (
            ("speed", samples.qd, END_SPEED),
            ("acceleration", samples.qdd, END_ACCELERATION),
        ):
            joint = int(np.argmax(np.abs(value[row])))
            if abs(value[row, joint]) > tolerance:
                violation = _Violation(
                    f"{kind} at the {end}",
                    row % samples.t.size,
                    joint,
                    float(value[row, joint]),
                    tolerance,
                    _units(model, kind),
                )
                raise _limit_error(violation, samples, model)


def _limit_error(violation: _Violation, samples: TrajectorySamples, model: Mechanism) -> MotionLimitError:
    v, time = violation, float(samples.t[violation.row])
    return MotionLimitError(
        f"joint {v.joint + 1} ({model.joint_names[v.joint]}) leaves its {v.kind} limit at t = {time:.3f} s: "
        f"{v.value:.4g} {v.units[v.joint]}, allowed {v.limit:.4g} {v.units[v.joint]}. Nothing was moved; "
        "change the trajectory or the robot's limits",
        kind=v.kind,
        joint=v.joint + 1,
        joint_name=model.joint_names[v.joint],
        time=time,
        value=v.value,
        limit=v.limit,
    )
