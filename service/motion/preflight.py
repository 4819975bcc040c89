"""The check of a whole motion before a robot is asked for it. Runs in a worker process.

What passes is written as the file that the device host plays, so that what was checked is what moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError, MotionLimitError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from core.excitation import Workspace
    from core.excitation.trajectory import TrajectorySamples
    from core.models import Mechanism
    from service.jobs.worker import TaskChannel


_PATH_STEP = 0.01
"""rad (m) between the poses at which an approach is looked at: a centimetre or so at the tool."""

_SAME_POSE = 1e-3
"""m or rad that a platform at the end of an approach may be off the trajectory's first pose: the same six leg lengths
belong to several poses, far apart."""


@dataclass(frozen=True)
class PreparedMotion:
    """A motion that has passed.

    Attributes
    ----------
    trajectory : .npz with t (N,), q and qd (N, n) of the actuated joints, as device hosts read it.
    duration : s.
    limit_use : worst share of each kind of limit that it uses, per joint; 1 = at the limit.
    model_digest : of the model it was checked against.
    """

    trajectory: Path
    duration: float
    n_joints: int
    limit_use: dict[str, list[float]]
    model_digest: str


def prepare_motion(
    channel: TaskChannel,
    *,
    definition: dict[str, Any],
    model: str,
    period: float,
    approach: tuple[float, float] | None,
    workspace: dict[str, Any],
    ring: Path,
    n_joints: int,
    trajectory: Path,
) -> PreparedMotion:
    """Sample the trajectory, check all of it against the robot's limits, write it for the host.

    Parameters
    ----------
    definition : as ``Trajectory.definition()`` gives it.
    model : catalogue name or path.
    period : of the set-points, s.
    approach : rad/s and rad/s² (m/s, m/s²) of the move to the first pose, None without one. It is a straight line
        of the actuated joints, checked for its speed, its ends, and the workspace or the platform's postures all
        along it.
    workspace : floor, box and self_collision as ``core.excitation.Workspace`` takes them.
    ring : the robot's live samples, which tell where it stands.
    n_joints : of the connected robot.
    trajectory : where to write.

    Raises
    ------
    MotionLimitError
        First offending joint and time.
    InputError
        The definition is not one, the period does not divide its duration, it moves another number of
        joints than the robot or its model has, or a workspace is stated for a robot that is no arm.
    KinematicsError
        A parallel robot would pass a singular pose, or one that its legs cannot reach.
    ModelError
        The model cannot be loaded.
    RingError
        No sample tells where the robot stands.
    """
    # the web process imports this module to name its function
    from core.excitation import Workspace, check_motion, trajectory_from_definition  # noqa: PLC0415
    from core.excitation.motion_check import joint_samples  # noqa: PLC0415
    from core.models import resolve  # noqa: PLC0415

    robot = resolve(model)
    channel.report(0.2, "sampling")
    samples = trajectory_from_definition(definition).sample(period)
    if samples.n_joints != n_joints:
        raise InputError(
            f"the trajectory moves {samples.n_joints} joints, the robot has {n_joints}",
            code="trajectory-joints-mismatch",
        )
    channel.report(0.4, "checking limits")
    room = Workspace(**workspace)
    report = check_motion(samples, robot, room)
    joints = joint_samples(samples, robot)
    if approach is not None:
        standing = _pose(ring)
        _check_speed(robot, *approach)
        _check_start(robot, standing)
        _check_path(robot, room, standing, joints.q[0], samples.q[0])
    channel.report(0.9, "writing")
    write_trajectory(trajectory, joints)
    return PreparedMotion(
        trajectory=trajectory,
        duration=samples.duration,
        n_joints=samples.n_joints,
        limit_use={margin.kind: list(margin.use) for margin in report.margins},
        model_digest=robot.digest(),
    )


def write_trajectory(path: Path, joints: TrajectorySamples) -> None:
    """Write the motion of the actuated joints as the file that device hosts read: the same motion, the same bytes."""
    import numpy as np  # noqa: PLC0415

    np.savez(path, t=joints.t, q=joints.q, qd=joints.qd)


def _pose(ring: Path) -> NDArray[np.float64]:
    """Return where the robot stands, q (n,) rad (m) of its actuated joints."""
    from core.streaming.ring import RingError, RingReader  # noqa: PLC0415

    with RingReader.open(ring) as reader:
        newest = reader.latest(1)
    if newest.size == 0:
        raise RingError(f"{ring}: no sample yet tells where the robot stands", code="pose-unknown")
    pose: NDArray[np.float64] = newest["q"][0]
    return pose


def _check_start(robot: Mechanism, pose: NDArray[np.float64]) -> None:
    """The approach ends at the trajectory's first pose, which is checked with it; here is where it begins."""
    lower, upper = robot.limits.position_lower, robot.limits.position_upper
    for joint, (value, low, high) in enumerate(zip(pose, lower, upper, strict=True)):
        if not low <= value <= high:
            limit, unit = low if value < low else high, _unit(robot, joint)
            raise MotionLimitError(
                f"joint {joint + 1} ({robot.joint_names[joint]}) stands at {value:.4g} {unit}, beyond its position "
                f"limit of {limit:.4g} {unit}, so no approach can begin there. Nothing was moved; take it back by hand",
                kind="approach start",
                joint=joint + 1,
                joint_name=robot.joint_names[joint],
                value=float(value),
                limit=float(limit),
            )


def _check_path(
    robot: Mechanism,
    workspace: Workspace,
    standing: NDArray[np.float64],
    first: NDArray[np.float64],
    first_pose: NDArray[np.float64],
) -> None:
    """Walk the approach's line of the actuated joints, from ``standing`` to ``first``, and look at every pose on it.

    ``first_pose`` is the first one in generalised coordinates: a parallel robot has to arrive at that.
    """
    import numpy as np  # noqa: PLC0415

    steps = max(2, int(np.ceil(np.abs(first - standing).max() / _PATH_STEP)) + 1)
    line = standing + np.linspace(0.0, 1.0, steps)[:, None] * (first - standing)
    poses, _, _ = robot.from_joints(line, np.zeros_like(line), np.zeros_like(line))
    off = float(np.abs(poses[-1] - first_pose).max())
    if off > _SAME_POSE:
        raise MotionLimitError(
            f"an approach from here would end in another pose of the platform with the same leg lengths, {off:.2g} m "
            "or rad off the trajectory's first. Nothing was moved; bring the platform back to where it is seen to be",
            kind="approach pose",
            value=off,
            limit=_SAME_POSE,
        )
    _check_postures(robot, poses)
    _check_room(robot, workspace, poses)


def _check_postures(robot: Mechanism, poses: NDArray[np.float64]) -> None:
    import numpy as np  # noqa: PLC0415

    for posture in robot.posture(poses):
        rows, joints = np.nonzero(posture.values > posture.limit)
        if rows.size:
            row, joint = int(rows[0]), int(joints[0])
            value, limit = float(posture.values[row, joint]), float(posture.limit[joint])
            raise MotionLimitError(
                f"the approach leaves the limit of {posture.kind} {100 * row / (len(poses) - 1):.0f} % along its way: "
                f"{value:.4g} {posture.unit} at joint {joint + 1} ({robot.joint_names[joint]}), allowed {limit:.4g}. "
                "Nothing was moved; begin nearer to the trajectory's first pose",
                kind=f"approach {posture.kind}",
                joint=joint + 1,
                joint_name=robot.joint_names[joint],
                value=value,
                limit=limit,
            )


def _check_room(robot: Mechanism, workspace: Workspace, poses: NDArray[np.float64]) -> None:
    import numpy as np  # noqa: PLC0415

    from core.excitation.workspace import WorkspaceCheck  # noqa: PLC0415
    from core.models import serial_chain  # noqa: PLC0415

    if not workspace.limits_anything:
        return
    check = WorkspaceCheck(workspace, serial_chain(robot, "a workspace"))
    clearance = check.clearances(poses)
    rows, columns = np.nonzero(clearance < 0.0)
    if rows.size:
        row, column = int(rows[0]), int(columns[0])
        raise MotionLimitError(
            f"the approach leaves the workspace {100 * row / (len(poses) - 1):.0f} % along its way: "
            f"{check.labels[column]} has {-1e3 * clearance[row, column]:.0f} mm too little. Nothing was moved; bring "
            "the robot to where the way to the first pose is free",
            kind="approach workspace",
            between=check.labels[column],
            value=float(clearance[row, column]),
        )


def _check_speed(robot: Mechanism, speed: float, acceleration: float) -> None:
    """Any joint may be the leading one, so the approach has to respect the slowest."""
    for kind, value, bounds, per in (
        ("speed", speed, robot.limits.velocity, "/s"),
        ("acceleration", acceleration, robot.limits.acceleration, "/s²"),
    ):
        joint = int(bounds.argmin())
        if value > bounds[joint]:
            unit = _unit(robot, joint) + per
            raise MotionLimitError(
                f"the approach's {kind} of {value:g} {unit} exceeds the {bounds[joint]:g} {unit} of joint "
                f"{joint + 1} ({robot.joint_names[joint]}). Nothing was moved; ask for a slower approach",
                kind=f"approach {kind}",
                joint=joint + 1,
                joint_name=robot.joint_names[joint],
                value=value,
                limit=float(bounds[joint]),
            )


def _unit(robot: Mechanism, joint: int) -> str:
    """Return the unit of a joint's position."""
    from core.excitation.motion_check import units_of  # noqa: PLC0415

    return units_of(robot)[joint][0]
