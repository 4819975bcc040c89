"""A stored table of currents made ready for a controller. Runs in a worker process."""

# ruff: noqa: PLC0415

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.motion.preflight import write_trajectory

if TYPE_CHECKING:
    from service.jobs.worker import TaskChannel


@dataclass(frozen=True)
class LoadableTable:
    """A file of currents as device hosts read it; None where there is to be none.

    ``standing_current`` (n,) A is that of the first row, which was taken off all rows.
    """

    path: Path | None
    rows: int
    standing_current: list[float]


def prepare_feedforward(
    channel: TaskChannel,
    *,
    definition: dict[str, Any],
    model: str,
    period: float,
    cycle_time: float,
    current: bytes,
    n_joints: int,
    trajectory: Path,
    table: Path,
) -> LoadableTable:
    """Write the currents, and the very trajectory that will be played with them.

    The controller's position loop holds the robot at the first row before a motion begins. What that takes is in its
    integral action already, so currents are counted from the first row's: added in full they would push it off.

    Parameters
    ----------
    definition : of the trajectory, as ``Trajectory.definition()`` gives it.
    model : catalogue name or path.
    period : of the set-points, s.
    cycle_time : between rows of the table, s.
    current : float32, little endian, row by row of ``n_joints``.
    trajectory, table : where to write.
    """
    import numpy as np

    from core.excitation import trajectory_from_definition
    from core.excitation.motion_check import joint_samples
    from core.models import resolve

    channel.report(0.2, "sampling")
    write_trajectory(trajectory, joint_samples(trajectory_from_definition(definition).sample(period), resolve(model)))
    rows = np.frombuffer(current, "<f4").reshape(-1, n_joints).astype(np.float64)
    np.savez(table, period=cycle_time, current=rows - rows[0])
    return LoadableTable(table, len(rows), rows[0].tolist())
