"""Pictures of a designed trajectory: joints with their limits, path in space, criterion over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from core.excitation.design import Design
    from core.excitation.limits import DesignLimits
    from core.models import Mechanism

PERIOD = 0.01


def write_plots(folder: Path, found: Design, robot: Mechanism, limits: DesignLimits) -> list[Path]:
    """Write joints.png, path.png and criterion.png; return their paths."""
    import numpy as np
    from matplotlib.figure import Figure

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--plot: cannot make {folder}: {error.strerror}") from error
    t = np.linspace(0.0, found.trajectory.duration, round(found.trajectory.duration / PERIOD) + 1)
    motion = found.trajectory.evaluate(t)
    q, qd, qdd = robot.joint_motion(*motion)

    joints = Figure(figsize=(11, 2.2 * robot.n_joints), layout="constrained")
    bounds = limits.joints
    rows = joints.subplots(robot.n_joints, 3, sharex=True, squeeze=False)
    unit = {frozenset({"revolute"}): "rad", frozenset({"prismatic"}): "m"}.get(frozenset(robot.joint_types), "rad, m")
    signals = (
        (f"q [{unit}]", q, bounds.position_lower, bounds.position_upper),
        (f"qd [{unit} per s]", qd, -bounds.velocity, bounds.velocity),
        (f"qdd [{unit} per s²]", qdd, -bounds.acceleration, bounds.acceleration),
    )
    for joint, row in enumerate(rows):
        row[0].set_ylabel(robot.joint_names[joint].removesuffix("_joint"))
        for axes, (label, values, lower, upper) in zip(row, signals, strict=True):
            axes.plot(t, values[:, joint], linewidth=1.0)
            for bound in (lower[joint], upper[joint]):
                if np.isfinite(bound):
                    axes.axhline(bound, color="tab:red", linestyle="--", linewidth=0.8)
            if joint == 0:
                axes.set_title(label)
    for axes in rows[-1]:
        axes.set_xlabel("t [s]")

    path = Figure(figsize=(6, 6), layout="constrained")
    space = path.add_subplot(projection="3d")
    _draw_path(space, robot, motion[0])
    space.set_xlabel("x [m]")
    space.set_ylabel("y [m]")
    space.set_zlabel("z [m]")
    space.set_aspect("equal")
    space.legend()

    progress = Figure(figsize=(6, 4), layout="constrained")
    axes = progress.subplots()
    if found.history:
        steps = np.array([*found.history, (found.seconds, found.value)])
        axes.step(steps[:, 0], steps[:, 1], where="post")
    axes.set_xlabel("time of the search [s]")
    axes.set_ylabel(f"best {found.settings.criterion}")
    axes.grid(visible=True)

    files = []
    for name, figure in (("joints", joints), ("path", path), ("criterion", progress)):
        file = folder / f"{name}.png"
        try:
            figure.savefig(file, dpi=120)
        except OSError as error:
            raise InputError(f"--plot: cannot write {file}: {error.strerror}") from error
        files.append(file)
    return files


def _draw_path(space: Any, robot: Mechanism, q: NDArray[np.float64]) -> None:
    """Draw the way of an arm's tool with some of its poses, or that of a platform's origin."""
    import numpy as np

    from core.models import SerialChain

    if not isinstance(robot, SerialChain):
        space.plot(*q[:, :3].T, linewidth=1.0, label="platform")
        return
    frames = robot.joint_frames(q)
    space.plot(*frames[:, -1, :3, 3].T, linewidth=1.0, label="tool")
    for k in np.linspace(0, len(q) - 1, 6).astype(int):
        arm = np.vstack([np.zeros(3), frames[k, :, :3, 3]])
        space.plot(*arm.T, color="gray", linewidth=0.8, marker=".", markersize=3)
