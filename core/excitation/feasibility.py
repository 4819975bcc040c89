"""A point inside all limits to design from, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from core.errors import DynidError, MotionLimitError
from core.excitation.columns import ObservationColumns
from core.excitation.families import LinearFamily
from core.excitation.limits import DesignLimits
from core.excitation.linear_limits import LIMIT_KINDS, LinearLimits
from core.excitation.nonlinear_limits import NonlinearLimits
from core.excitation.trajectory import Motion
from core.excitation.verification import verify

Array = NDArray[np.float64]

PER_TIME = ("", "/s", "/s²", "/s³")
_ENOUGH = 1e-6  # of a limit
_ROOM = 1.2
"""A place to start from keeps off by more than the guards."""
_TRIES = 12
_DESCENT = 150
_STUCK = 1e-6


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
    linear = LinearLimits.of(basis, offset, columns.robot.coordinate_limits(limits))
    still = np.zeros((family.n_joints, family.size))
    centre = still if linear.feasible(still) else _linear_centre(linear, family, columns, limits, grid)
    others = _Others(columns.robot.nonlinear_limits(limits), basis, offset)
    if others.worst(centre).room > 0.0:
        return centre
    return _search(centre, linear, others, seed)


def nothing_found(
    family: LinearFamily, columns: ObservationColumns, limits: DesignLimits, centre: Array, usual: Array
) -> InfeasibleError:
    """Say why a search has found nothing.

    Parameters
    ----------
    centre, usual : coefficients (n, m) of the trajectory with the most room, and of another within the limits.
    """
    try:
        verify(family.trajectory(centre), columns, limits)
        report = verify(family.trajectory(usual), columns, limits)
    except MotionLimitError as error:
        return InfeasibleError(
            "no trajectory was found that keeps the limits on the 1 ms grid; they leave hardly any room. The one with "
            f"most of it: {error.detail.partition(' Nothing was moved')[0]} {_ends_on_limits(columns, limits)}"
            "Loosen that limit a little, or take a longer period",
            **error.context,
            excess=abs(error.context["value"] - error.context.get("limit", 0.0)),
        )
    margin = max(report.margins, key=lambda margin: max(margin.use))
    joint = int(np.argmax(margin.use))
    return InfeasibleError(
        f"what was found within the limits moves too little to tell all {columns.count} columns apart: their "
        f"condition number is infinite. What leaves least room is the {margin.kind} of joint {joint + 1} "
        f"({columns.robot.coordinate_names[joint]}); take a longer period or more harmonics, or give more time",
        kind=margin.kind,
        joint=joint + 1,
    )


def _ends_on_limits(columns: ObservationColumns, limits: DesignLimits) -> str:
    """Name the joints that begin or end on a limit itself: all their motion near there is next to it."""
    bounds = columns.robot.coordinate_limits(limits)
    said = ""
    for label, pose in (("start", limits.start), ("end", limits.end)):
        room = np.minimum(bounds.position_upper - pose, pose - bounds.position_lower)
        on = [f"{j + 1} ({columns.robot.coordinate_names[j]})" for j in np.flatnonzero(room < _ENOUGH)]
        if on:
            said += f"The {label} pose lies on the position limit of joint {', '.join(on)}: give it some room. "
    return said


def _check_ends(columns: ObservationColumns, limits: DesignLimits) -> None:
    """The end poses are given: what they violate, every trajectory violates."""
    robot = columns.robot
    for label, pose in (("start", limits.start), ("end", limits.end)):
        bounds = robot.coordinate_limits(limits)
        beyond = np.maximum(bounds.position_lower - pose, pose - bounds.position_upper)
        joint = int(np.argmax(beyond))
        if beyond[joint] > 0.0:
            raise InfeasibleError(
                f"the {label} pose itself is outside the position limits: joint {joint + 1} "
                f"({robot.coordinate_names[joint]}) by {beyond[joint]:.4g} {robot.coordinate_units[joint]}; "
                "change the pose or the limits",
                kind="position",
                joint=joint + 1,
                excess=float(beyond[joint]),
            )
        still = np.zeros((1, pose.size))
        for limit in robot.nonlinear_limits(limits):
            margins = limit.margins((pose[None], still, still))[0]
            worst = int(np.argmin(margins))
            if margins[worst] < 0.0:
                missing = limit.shortfall(worst, float(margins[worst]))
                raise InfeasibleError(
                    f"the {label} pose itself is not allowed: {missing.text}; change the pose or the limit",
                    kind=limit.kind,
                    excess=missing.excess,
                    **missing.context,
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
        solution = scipy.optimize.linprog(
            cost, A_ub=rows, b_ub=np.concatenate([above, below]), bounds=[*free, (None, 0.5)]
        )
        *coefficients, room = np.asarray(solution.x, dtype=np.float64)
        if room < _ENOUGH:
            raise _binding(joint, np.array(coefficients), family, columns, limits, grid)
        centre[joint] = coefficients
    return centre


def _binding(
    joint: int, x: Array, family: LinearFamily, columns: ObservationColumns, limits: DesignLimits, grid: Array
) -> InfeasibleError:
    """Say which limits are left by the least bad trajectory of one joint, the worst first."""
    coefficients = np.zeros((family.n_joints, family.size))
    coefficients[joint] = x
    values = family.offset(grid)[:, :, joint] + family.basis(grid) @ x
    bounds = columns.robot.coordinate_limits(limits)
    symmetric = [(-b[joint], b[joint]) for b in (bounds.velocity, bounds.acceleration, bounds.jerk)]
    pairs = [(bounds.position_lower[joint], bounds.position_upper[joint]), *symmetric]
    found: list[tuple[float, int, float, float]] = []
    for order, (lower, upper) in enumerate(pairs):
        half = 0.5 * (upper - lower)
        sides = ((values[order].max(), upper, 1.0), (values[order].min(), lower, -1.0))
        bound = [(side * (reach - limit) / half, reach, limit) for reach, limit, side in sides if np.isfinite(limit)]
        if bound:
            excess, reach, limit = max(bound)
            found.append((float(excess), order, float(reach), float(limit)))
    found.sort(reverse=True)
    name = columns.robot.coordinate_names[joint]
    needs = [
        f"{reach:.4g} {columns.robot.coordinate_units[joint]}{PER_TIME[order]} of {LIMIT_KINDS[order]}, "
        f"allowed are {limit:.4g}"
        for excess, order, reach, limit in found
        if excess > _ENOUGH or order == found[0][1]
    ]
    # with one limit alone it is a bound; several make room for each other
    what = f"needs at least {needs[0]}" if len(needs) == 1 else f"comes closest with {', and '.join(needs)}"
    _, kind, reached, allowed = found[0]
    return InfeasibleError(
        f"no {family.name} trajectory of {family.duration:g} s joins the end poses within the limits: joint "
        f"{joint + 1} ({name}) {what}; take a longer period or loosen {'that limit' if len(needs) == 1 else 'them'}",
        kind=LIMIT_KINDS[kind],
        joint=joint + 1,
        value=reached,
        limit=allowed,
        excess=abs(reached - allowed),
    )


@dataclass(frozen=True)
class _Place:
    """The worst of all nonlinear margins of a trajectory: what it has beyond its guard, and which one it is."""

    room: float
    limit: NonlinearLimits | None = None
    row: int = 0
    column: int = 0
    margin: float = 0.0


class _Others:
    """How far limits that are not linear in the coefficients are kept."""

    def __init__(self, limits: Sequence[NonlinearLimits], basis: Array, offset: Array) -> None:
        self._limits, self._basis, self._offset = limits, basis[:3], offset[:3]

    def worst(self, x: Array) -> _Place:
        """Return the worst margin of the trajectory with coefficients x (n, m)."""
        motion = self._motion(x, slice(None))
        worst = _Place(np.inf)
        for limit in self._limits:
            margins = limit.margins(motion)
            room = margins - _ROOM * limit.guard
            row, column = (int(i) for i in np.unravel_index(int(np.argmin(room)), room.shape))
            if room[row, column] < worst.room:
                worst = _Place(float(room[row, column]), limit, row, column, float(margins[row, column]))
        return worst

    def slope(self, x: Array, place: _Place) -> Array:
        """Return the gradient (n, m) of a place's margin."""
        assert place.limit is not None  # noqa: S101 - without limits nothing is searched for
        row = slice(place.row, place.row + 1)
        chosen = np.zeros((1, len(place.limit.labels)))
        chosen[0, place.column] = 1.0
        bars = place.limit.pull_back(self._motion(x, row), chosen)
        return np.asarray(sum(bar.T @ basis[row] for bar, basis in zip(bars, self._basis, strict=True)))

    def _motion(self, x: Array, rows: slice) -> Motion:
        q, qd, qdd = (self._offset[order, rows] + self._basis[order, rows] @ x.T for order in range(3))
        return q, qd, qdd


def _search(centre: Array, linear: LinearLimits, others: _Others, seed: int) -> Array:
    """Follow the worst limit's gradient inwards, from the centre and from random places."""
    random = np.random.default_rng(seed)
    best = others.worst(centre)
    for attempt in range(_TRIES):
        x = centre
        if attempt:
            direction = random.normal(size=centre.shape)
            x = centre + random.uniform(0.1, 0.8) * min(linear.largest_step(centre, direction), 10.0) * direction
        here = others.worst(x)
        length = 1.0
        for _ in range(_DESCENT):
            if here.room > 0.0:
                return x
            slope = others.slope(x, here)
            step = slope / max(float(np.linalg.norm(slope)), 1e-12)
            there = x + min(length, 0.9 * linear.largest_step(x, step)) * step
            found = others.worst(there)
            if found.room > here.room:
                x, here, length = there, found, 1.5 * length
            else:
                length *= 0.5
                if length < _STUCK:
                    break
        best = max(best, here, key=lambda place: place.room)
    assert best.limit is not None  # noqa: S101 - something was worst
    missing = best.limit.shortfall(best.column, best.margin)
    raise InfeasibleError(
        f"no trajectory was found within the limits; what binds is {missing.text} at the least bad trajectory found. "
        "Loosen that limit, or change the end poses or the period",
        kind=best.limit.kind,
        excess=missing.excess,
        **missing.context,
    )
