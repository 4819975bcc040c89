"""A point inside all limits to design from, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from core.errors import DynidError
from core.excitation.columns import ObservationColumns
from core.excitation.families import LinearFamily
from core.excitation.limits import DesignLimits
from core.excitation.linear_limits import LIMIT_KINDS, LinearLimits
from core.excitation.workspace import WorkspaceCheck

Array = NDArray[np.float64]

UNITS = ("rad", "rad/s", "rad/s²", "rad/s³")
_ENOUGH = 1e-6  # of a limit
_TRIES = 12
_DESCENT = 150


class InfeasibleError(DynidError):
    """No trajectory of the family keeps all limits; the context names the one that binds, and by how much."""

    code = "excitation-infeasible"


def interior_point_of(
    family: LinearFamily, columns: ObservationColumns, limits: DesignLimits, grid: Array, seed: int
) -> Array:
    """Return coefficients (n, m) that keep all limits at the times ``grid``, with room to spare.

    Raises
    ------
    InfeasibleError
        There are none. For position, speed, acceleration and jerk that is proven (a linear programme); for
        torque and workspace it means that a search came no closer.
    """
    basis, offset = family.basis(grid), family.offset(grid)
    _check_ends(columns, limits)
    linear = LinearLimits.of(basis, offset, limits.joints)
    still = np.zeros((family.n_joints, family.size))
    centre = still if linear.feasible(still) else _linear_centre(linear, family, columns, limits, grid)
    measure = _others(columns, limits, basis, offset)
    if measure is None or measure(centre)[0] > 0.0:
        return centre
    return _search(centre, linear, measure, seed)


def _check_ends(columns: ObservationColumns, limits: DesignLimits) -> None:
    """The end poses are given: what they violate, every trajectory violates."""
    names = columns.model.joint_names
    for label, pose in (("start", limits.start), ("end", limits.end)):
        beyond = np.maximum(limits.joints.position_lower - pose, pose - limits.joints.position_upper)
        joint = int(np.argmax(beyond))
        if beyond[joint] > 0.0:
            raise InfeasibleError(
                f"the {label} pose itself is outside the position limits: joint {joint + 1} ({names[joint]}) by "
                f"{beyond[joint]:.4g} rad; change the pose or the limits",
                kind="position",
                joint=joint + 1,
                excess=float(beyond[joint]),
            )
        still = np.zeros((1, pose.size))
        torque = np.abs(columns.model.inverse_dynamics(pose[None], still, still))[0] - limits.joints.torque
        joint = int(np.argmax(torque))
        if torque[joint] > 0.0:
            raise InfeasibleError(
                f"holding the {label} pose needs {torque[joint]:.4g} N·m more at joint {joint + 1} "
                f"({names[joint]}) than its torque limit; change the pose or the limit",
                kind="torque",
                joint=joint + 1,
                excess=float(torque[joint]),
            )
        if limits.workspace.limits_anything:
            check = WorkspaceCheck(limits.workspace, columns.model)
            clearance = check.clearances(pose[None])[0]
            worst = int(np.argmin(clearance))
            if clearance[worst] < 0.0:
                raise InfeasibleError(
                    f"the {label} pose itself is outside the workspace: {check.labels[worst]}, "
                    f"{-1e3 * clearance[worst]:.0f} mm too little; change the pose or the workspace",
                    kind="workspace",
                    between=check.labels[worst],
                    excess=-float(clearance[worst]),
                )


def _linear_centre(
    linear: LinearLimits, family: LinearFamily, columns: ObservationColumns, limits: DesignLimits, grid: Array
) -> Array:
    """Return the coefficients with the largest relative distance from all linear limits."""
    centre = np.zeros((family.n_joints, family.size))
    for joint in range(family.n_joints):
        above = linear.upper[:, joint] - linear.offset[:, joint]
        below = linear.offset[:, joint] - linear.lower[:, joint]
        scale = np.minimum(0.5 * (linear.upper[:, joint] - linear.lower[:, joint]), 1e3)
        rows = np.block([[linear.rows, scale[:, None]], [-linear.rows, scale[:, None]]])
        free = [(None, None)] * family.size
        cost = np.append(np.zeros(family.size), -1.0)
        solution = linprog(cost, A_ub=rows, b_ub=np.concatenate([above, below]), bounds=[*free, (None, 0.5)])
        *coefficients, room = np.asarray(solution.x, dtype=np.float64)
        if room < _ENOUGH:
            raise _binding(joint, np.array(coefficients), family, columns, limits, grid)
        centre[joint] = coefficients
    return centre


def _binding(
    joint: int, x: Array, family: LinearFamily, columns: ObservationColumns, limits: DesignLimits, grid: Array
) -> InfeasibleError:
    """Say which limit is worst at the least bad trajectory of one joint."""
    coefficients = np.zeros((family.n_joints, family.size))
    coefficients[joint] = x
    values = family.offset(grid)[:, :, joint] + family.basis(grid) @ x
    bounds = limits.joints
    symmetric = [(-b[joint], b[joint]) for b in (bounds.velocity, bounds.acceleration, bounds.jerk)]
    pairs = [(bounds.position_lower[joint], bounds.position_upper[joint]), *symmetric]
    worst, kind, reached, allowed = -np.inf, 0, 0.0, 0.0
    for order, (lower, upper) in enumerate(pairs):
        for reach, limit, excess in (
            (values[order].max(), upper, values[order].max() - upper),
            (values[order].min(), lower, lower - values[order].min()),
        ):
            half = 0.5 * (upper - lower)
            if np.isfinite(limit) and excess / half > worst:
                worst, kind, reached, allowed = excess / half, order, float(reach), float(limit)
    name = columns.model.joint_names[joint]
    return InfeasibleError(
        f"no {family.name} trajectory of {family.duration:g} s joins the end poses within the limits: joint "
        f"{joint + 1} ({name}) needs at least {reached:.4g} {UNITS[kind]} of {LIMIT_KINDS[kind]}, allowed are "
        f"{allowed:.4g}; take a longer period or loosen that limit",
        kind=LIMIT_KINDS[kind],
        joint=joint + 1,
        value=reached,
        limit=allowed,
        excess=abs(reached - allowed),
    )


Measure = Callable[[Array], tuple[float, Array, str, float]]
"""Coefficients -> relative margin of the worst limit, its gradient (n, m), its name, its excess in SI units."""


def _others(columns: ObservationColumns, limits: DesignLimits, basis: Array, offset: Array) -> Measure | None:
    """Return how far torque and workspace are kept, or None where neither is limited."""
    torque_limit = limits.joints.torque
    check = WorkspaceCheck(limits.workspace, columns.model) if limits.workspace.limits_anything else None
    room = np.zeros(0) if check is None else 1.2 * check.guard(limits.start, limits.end)
    limited = bool(np.isfinite(torque_limit).any())
    if check is None and not limited:
        return None
    none = np.zeros((basis.shape[1] * columns.n_joints, columns.count))

    def measure(x: Array) -> tuple[float, Array, str, float]:
        q, qd, qdd = (offset[order] + basis[order] @ x.T for order in range(3))
        worst: tuple[float, Array, str, float] = (np.inf, np.zeros_like(x), "", 0.0)
        if check is not None:
            clearance, slope = check.clearances_and_gradients(q)
            row, column = np.unravel_index(int(np.argmin(clearance - room)), clearance.shape)
            value, margin = float(clearance[row, column]), float((clearance - room)[row, column])
            gradient = slope[row, column][:, None] * basis[0, row]
            worst = margin, gradient, check.labels[column], max(-value, 0.0)
        if limited:
            torque = columns.model.inverse_dynamics(q, qd, qdd)
            use = np.abs(torque) / torque_limit
            row, joint = np.unravel_index(int(np.argmax(use)), use.shape)
            if 1.0 - use[row, joint] < worst[0]:
                multipliers = np.zeros_like(torque)
                multipliers[row, joint] = -np.sign(torque[row, joint]) / torque_limit[joint]
                bars = columns.pull_back((q, qd, qdd), none, 1.0, multipliers)
                gradient = np.asarray(sum(bar.T @ basis[order] for order, bar in enumerate(bars)))
                excess = float(np.abs(torque[row, joint]) - torque_limit[joint])
                name = f"predicted torque of joint {joint + 1} ({columns.model.joint_names[joint]})"
                worst = float(1.0 - use[row, joint]), gradient, name, excess
        return worst

    return measure


def _search(centre: Array, linear: LinearLimits, measure: Measure, seed: int) -> Array:
    """Follow the worst limit's gradient inwards, from the centre and from random places."""
    random = np.random.default_rng(seed)
    best = measure(centre)
    for attempt in range(_TRIES):
        x = centre
        if attempt:
            direction = random.normal(size=centre.shape)
            x = centre + random.uniform(0.1, 0.8) * min(linear.largest_step(centre, direction), 10.0) * direction
        here = measure(x)
        length = 1.0
        for _ in range(_DESCENT):
            if here[0] > 0.0:
                return x
            step = here[1] / max(float(np.linalg.norm(here[1])), 1e-12)
            there = x + min(length, 0.9 * linear.largest_step(x, step)) * step
            found = measure(there)
            if found[0] > here[0]:
                x, here, length = there, found, 1.5 * length
            else:
                length *= 0.5
        best = max(best, here, key=lambda found: found[0])
    unit = "N·m" if "torque" in best[2] else "m"
    raise InfeasibleError(
        f"no trajectory was found within the limits; what binds is: {best[2]}, by {best[3]:.4g} {unit} at the "
        "least bad trajectory found. Loosen that limit, or change the end poses or the period",
        kind="torque" if "torque" in best[2] else "workspace",
        between=best[2],
        excess=best[3],
    )
