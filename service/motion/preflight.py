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
    from core.models import SerialChain
    from service.jobs.worker import TaskChannel


_PATH_STEP = 0.01
"""rad between the poses at which an approach is looked at: a centimetre or so at the tool."""


@dataclass(frozen=True)
class PreparedMotion:
    """A motion that has passed.

    Attributes
    ----------
    trajectory : .npz with t (N,), q and qd (N, n), as device hosts read it.
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
    approach : rad/s and rad/s² of the move to the first pose, None without one. It is a straight line in
        joint space, checked for its speed, its ends and the workspace all along it.
    workspace : floor, box and self_collision as ``core.excitation.Workspace`` takes them.
    ring : the robot's live samples, which tell where it stands.
    n_joints : of the connected robot.
    trajectory : where to write.

    Raises
    ------
    MotionLimitError
        First offending joint and time.
    InputError
        The definition is not one, the period does not divide its duration, or it moves another number of
        joints than the robot or its model has.
    ModelError
        The model cannot be loaded.
    RingError
        No sample tells where the robot stands.
    """
    import numpy as np  # noqa: PLC0415 - the web process imports this module to name its function

    from core.excitation import Workspace, check_motion, trajectory_from_definition  # noqa: PLC0415
    from core.models import resolve, serial_chain  # noqa: PLC0415

    chain = serial_chain(resolve(model), "the check before a motion")
    channel.report(0.2, "sampling")
    samples = trajectory_from_definition(definition).sample(period)
    if samples.n_joints != n_joints:
        raise InputError(
            f"the trajectory moves {samples.n_joints} joints, the robot has {n_joints}",
            code="trajectory-joints-mismatch",
        )
    channel.report(0.4, "checking limits")
    room = Workspace(**workspace)
    report = check_motion(samples, chain, room)
    if approach is not None:
        pose = _pose(ring)
        _check_speed(chain, *approach)
        _check_start(chain, pose)
        _check_path(chain, room, pose, samples.q[0])
    channel.report(0.9, "writing")
    np.savez(trajectory, t=samples.t, q=samples.q, qd=samples.qd)
    return PreparedMotion(
        trajectory=trajectory,
        duration=samples.duration,
        n_joints=samples.n_joints,
        limit_use={margin.kind: list(margin.use) for margin in report.margins},
        model_digest=chain.digest(),
    )


def _pose(ring: Path) -> NDArray[np.float64]:
    """Return where the robot stands, q (n,) rad."""
    from core.streaming.ring import RingError, RingReader  # noqa: PLC0415

    with RingReader.open(ring) as reader:
        newest = reader.latest(1)
    if newest.size == 0:
        raise RingError(f"{ring}: no sample yet tells where the robot stands", code="pose-unknown")
    pose: NDArray[np.float64] = newest["q"][0]
    return pose


def _check_start(chain: SerialChain, pose: NDArray[np.float64]) -> None:
    """The approach ends at the trajectory's first pose, which is checked with it; here is where it begins."""
    lower, upper = chain.limits.position_lower, chain.limits.position_upper
    for joint, (value, low, high) in enumerate(zip(pose, lower, upper, strict=True)):
        if not low <= value <= high:
            limit = low if value < low else high
            raise MotionLimitError(
                f"joint {joint + 1} ({chain.joint_names[joint]}) stands at {value:.4g} rad, beyond its position limit "
                f"of {limit:.4g} rad, so no approach can begin there. Nothing was moved; bring it back by hand",
                kind="approach start",
                joint=joint + 1,
                joint_name=chain.joint_names[joint],
                value=float(value),
                limit=float(limit),
            )


def _check_path(
    chain: SerialChain, workspace: Workspace, pose: NDArray[np.float64], first: NDArray[np.float64]
) -> None:
    """Walk the approach's line in joint space and look at the workspace all along it."""
    import numpy as np  # noqa: PLC0415

    from core.excitation.workspace import WorkspaceCheck  # noqa: PLC0415

    if not workspace.limits_anything:
        return
    steps = max(2, int(np.ceil(np.abs(first - pose).max() / _PATH_STEP)) + 1)
    check = WorkspaceCheck(workspace, chain)
    clearance = check.clearances(pose + np.linspace(0.0, 1.0, steps)[:, None] * (first - pose))
    rows, columns = np.nonzero(clearance < 0.0)
    if rows.size:
        row, column = int(rows[0]), int(columns[0])
        raise MotionLimitError(
            f"the approach leaves the workspace {100 * row / (steps - 1):.0f} % along its way: {check.labels[column]} "
            f"has {-1e3 * clearance[row, column]:.0f} mm too little. Nothing was moved; bring the robot to where the "
            "way to the first pose is free",
            kind="approach workspace",
            between=check.labels[column],
            value=float(clearance[row, column]),
        )


def _check_speed(chain: SerialChain, speed: float, acceleration: float) -> None:
    """Any joint may be the leading one, so the approach has to respect the slowest."""
    for kind, value, bounds, unit in (
        ("speed", speed, chain.limits.velocity, "rad/s"),
        ("acceleration", acceleration, chain.limits.acceleration, "rad/s²"),
    ):
        joint = int(bounds.argmin())
        if value > bounds[joint]:
            raise MotionLimitError(
                f"the approach's {kind} of {value:g} {unit} exceeds the {bounds[joint]:g} {unit} of joint "
                f"{joint + 1} ({chain.joint_names[joint]}). Nothing was moved; ask for a slower approach",
                kind=f"approach {kind}",
                joint=joint + 1,
                joint_name=chain.joint_names[joint],
                value=value,
                limit=float(bounds[joint]),
            )
