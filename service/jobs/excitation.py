"""What a worker computes for an ``excite`` job: from a robot's model and limits to a verified trajectory.

The web process imports this module to name its function, so the numerical packages are imported inside.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.excitation.limits import DesignLimits
    from core.excitation.search import Progress
    from core.models import Mechanism
    from service.jobs.worker import TaskChannel


@dataclass(frozen=True)
class DesignedMotion:
    """A verified trajectory and its figures."""

    definition: dict[str, Any]
    n_joints: int
    duration: float
    value: float
    condition_number: float
    condition_number_normalised: float
    limit_use: dict[str, list[float]]
    least_clearance: float | None
    candidates: int


def design_motion(
    channel: TaskChannel,
    *,
    model: str,
    rotor_inertia: bool,
    limits: dict[str, Any],
    settings: dict[str, Any],
    warm_start: dict[str, Any] | None,
) -> DesignedMotion:
    """Design a trajectory for a robot; ``limits`` as in a limits file, what is absent is the model's own.

    Asked to stop, it returns the best so far.

    Raises
    ------
    InputError, ModelError
        The request or the model is wrong.
    InfeasibleError
        Nothing keeps the limits.
    """
    from core.excitation import trajectory_from_definition
    from core.excitation.design import DesignSettings, design
    from core.models import resolve

    robot = resolve(model, rotor_inertia=rotor_inertia)
    wanted = DesignSettings(**settings)

    def report(progress: Progress) -> None:
        best = "nothing feasible yet" if progress.best is None else f"best {wanted.criterion} {progress.best:.4g}"
        beyond = f", last candidate beyond limits by {progress.violation:.2g}" if progress.violation > 0.0 else ""
        channel.tell(min(progress.elapsed / progress.budget, 1.0), f"{best}{beyond}")

    found = design(
        robot,
        _within_model(limits, robot),
        wanted,
        warm_start=None if warm_start is None else trajectory_from_definition(warm_start),
        on_progress=report,
        stop=channel.stop_requested,
    )
    return DesignedMotion(
        definition=found.trajectory.definition(),
        n_joints=found.trajectory.n_joints,
        duration=found.trajectory.duration,
        value=found.value,
        condition_number=found.condition_number,
        condition_number_normalised=found.condition_number_normalised,
        limit_use={margin.kind: list(margin.use) for margin in found.report.margins},
        least_clearance=min((clearance.least for clearance in found.report.clearances), default=None),
        candidates=found.candidates,
    )


def _within_model(limits: dict[str, Any], robot: Mechanism) -> DesignLimits:
    """Tighten the model's limits by those that are stated: what is designed has to pass the check before a motion."""
    import numpy as np

    from core.excitation.limits import limits_from_document
    from core.models import JointLimits, SixUPRU

    stated = limits_from_document(limits, robot)
    both = {
        name: (np.maximum if name == "position_lower" else np.minimum)(
            getattr(stated.joints, name), getattr(robot.limits, name)
        )
        for name in JointLimits.names()
    }
    tightened = replace(stated, joints=JointLimits(**both))
    if isinstance(robot, SixUPRU):
        tightened = replace(
            tightened,
            joint_angle=min(stated.joint_angle, robot.joint_angle_limit),
            condition=min(stated.condition, robot.condition_limit),
        )
    return tightened
