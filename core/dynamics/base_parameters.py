"""Base parameters: the largest set of parameter combinations that torques can tell apart.

Columns of the regressor that vanish, or depend linearly on others, for every motion make single standard
parameters unidentifiable. QR with column pivoting on random states finds them (Gautier 1991): with
``W = [W1 W2]``, W1 of full rank, ``W2 = W1 beta`` and ``beta = R1^-1 R2``, the torque is
``W1 (phi1 + beta phi2) = W1 phi_b``.

The reduction works on any stacked regressor with named columns; ``reduce_to_base`` feeds it a robot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError, ModelError
from core.models import LegDrives, Mechanism, SerialChain, SixUPRU
from core.models.chain import INERTIAL_NAMES

Array = NDArray[np.float64]

GEOMETRY_ROUNDING = 2e-5
"""Default tolerance: pi/2 written as 1.5708 makes columns that differ by 5e-6 of themselves, out of nothing."""

_GAP = 10.0
"""Least ratio between the last column that counts and the first that does not, for the rank to be certain."""
_CLEAN = 1e-9
"""Regrouping coefficients below this share of the largest are rounding."""
_SHOWN = 1e-5
"""Smallest coefficient that a relation shows."""
_TYPICAL_RATE = 2.0  # rad/s, m/s
_TYPICAL_ACCELERATION = 5.0  # rad/s², m/s²
_WIDEST_TRAVEL = {"revolute": np.pi, "prismatic": 1.0}  # rad, m
_LEAST_TRAVEL = 0.05  # of the widest
_PLATFORM_TRAVEL = 0.1  # of a leg's length, and rad; rates and accelerations likewise, per s and s²
_SAME_REGROUPING = 1e-6


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """How p standard parameters combine into b base parameters.

    Attributes
    ----------
    names : (p,) names of the standard parameters.
    independent : (b,) indices of the columns of W that are kept: those asked for first, the others ascending.
    vanishing : indices of columns that are zero for every motion.
    projection : K (b, p) with ``phi_b = K phi``; ``K[:, independent]`` is the identity.
    left_out : (d, p) rows of K of base parameters that are taken for zero, see ``without``.
    """

    names: tuple[str, ...]
    independent: NDArray[np.intp]
    vanishing: NDArray[np.intp]
    projection: Array
    left_out: Array = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def count(self) -> int:
        """Number of base parameters b."""
        return int(self.independent.size)

    @property
    def base_names(self) -> tuple[str, ...]:
        """Name (b,) of the standard parameter that each base parameter is built around."""
        return tuple(self.names[i] for i in self.independent)

    @property
    def relations(self) -> tuple[str, ...]:
        """Readable sums (b,) such as ``Ixx2 - Iyy2 + 0.376 m3``, lengths in m.

        Coefficients below 1e-5 are left out; ``projection`` has them all.
        """
        return tuple(_relation(row, self.names, i) for row, i in zip(self.projection, self.independent, strict=True))

    def project(self, parameters: ArrayLike) -> Array:
        """Return base parameters (b,) of standard parameters (p,)."""
        values = np.asarray(parameters, dtype=np.float64)
        if values.shape != (len(self.names),):
            raise InputError(f"parameters have shape {values.shape}, expected ({len(self.names)},)")
        return np.asarray(self.projection @ values)

    def columns(self, regressor: Array) -> Array:
        """Return the base regressor (..., b) of a regressor (..., p)."""
        if regressor.shape[-1] != len(self.names):
            raise InputError(f"the regressor has {regressor.shape[-1]} columns, expected {len(self.names)}")
        return np.ascontiguousarray(regressor[..., self.independent])

    def without(self, names: Sequence[str]) -> Self:
        """Return the reduction with some base parameters taken for zero, since data do not tell them.

        Raises
        ------
        InputError
            A name is none of ``base_names``, or none would be left (code ``parameter-not-base``).
        """
        unknown = [name for name in names if name not in self.base_names]
        kept = [i for i, name in enumerate(self.base_names) if name not in names]
        if unknown or not kept:
            raise InputError(
                f"{', '.join(unknown or names)} cannot be left out; base parameters are {', '.join(self.base_names)}, "
                "and some have to remain",
                code="parameter-not-base",
                parameters=list(unknown or names),
            )
        gone = np.delete(self.projection, kept, axis=0)
        left_out = np.vstack([self.left_out.reshape(-1, len(self.names)), gone])
        return replace(self, independent=self.independent[kept], projection=self.projection[kept], left_out=left_out)

    def standard(self, base: ArrayLike, near: ArrayLike) -> Array:
        """Return the standard parameters (p,) closest to ``near`` (p,) with base parameters ``base`` (b,)."""
        prior = np.asarray(near, dtype=np.float64)
        zeros = self.left_out.reshape(-1, len(self.names))
        rows = np.vstack([self.projection, zeros])
        missing = np.concatenate([np.asarray(base, dtype=np.float64), np.zeros(len(zeros))]) - rows @ prior
        return np.asarray(prior + np.linalg.lstsq(rows, missing, rcond=None)[0])

    def to_document(self) -> dict[str, Any]:
        """Return JSON-serialisable data; ``from_document`` gives the same reduction back."""
        return {
            "names": list(self.names),
            "independent": self.independent.tolist(),
            "vanishing": self.vanishing.tolist(),
            "projection": self.projection.tolist(),
            "relations": list(self.relations),
            "left_out": self.left_out.tolist(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        return cls(
            names=tuple(document["names"]),
            independent=np.array(document["independent"], dtype=np.intp),
            vanishing=np.array(document["vanishing"], dtype=np.intp),
            projection=np.array(document["projection"], dtype=np.float64),
            left_out=np.array(document.get("left_out", []), dtype=np.float64),
        )


def reduce_to_base(
    model: Mechanism,
    *,
    samples: int | None = None,
    seed: int = 0,
    preferred: Sequence[str] = (),
    tolerance: float = GEOMETRY_ROUNDING,
) -> BaseParameters:
    """Return the base parameters of a robot.

    Parameters
    ----------
    model : the robot; its gravity counts, so a tilted base may have more base parameters.
    samples : random states; by default enough for four rows per column.
    seed : of the random states, see ``random_states``: the result is a property of the structure alone.
    preferred : names of parameters to build base parameters around; these come first, in this order. After them
        come those of the usual regrouping towards the base (Khalil and Dombre 2002), so that relations stay short;
        for a 6-UPRU robot the 17 of its closed form, whose exact coefficients are taken where the numbers agree.
    tolerance : see ``reduce_columns``.

    Raises
    ------
    ModelError
        The rank is not clear-cut.
    InputError
        A preferred name is unknown, named twice, acts in no torque, or depends on those named before it.
    """
    count = samples if samples is not None else max(50, -(-4 * model.n_parameters // model.n_joints))
    regressor = model.regressor(*random_states(model, count, seed))
    stacked = regressor.reshape(-1, model.n_parameters)
    found = reduce_columns(
        stacked, model.parameter_names, leading=preferred, preferred=(usual_parameters(model),), tolerance=tolerance
    )
    if isinstance(model, SixUPRU) and found.base_names == model.base_parameter_names:
        off = np.abs(found.projection - model.base_projection).max()
        if off < _SAME_REGROUPING * np.abs(model.base_projection).max():
            return replace(found, projection=model.base_projection)
    return found


def usual_parameters(model: Mechanism) -> tuple[str, ...]:
    """Return the parameters that the usual regrouping keeps (Khalil and Dombre 2002).

    What link j of a serial chain does in common with link j-1 is counted into link j-1: for a revolute joint its
    mass, its first moment along the axis and one of the two inertias across it; for a prismatic joint all inertias.
    """
    if isinstance(model, SixUPRU):
        return model.base_parameter_names
    if not isinstance(model, SerialChain):
        return ()
    kept: list[str] = []
    for j, (kind, axis) in enumerate(zip(model.joint_types, model.axis, strict=True), start=1):
        if kind == "prismatic":
            left_out: set[str] = {name for name in INERTIAL_NAMES if name.startswith("I")}
        else:
            along = int(np.argmax(np.abs(axis)))
            across = "yxy"[along]
            left_out = {"m", f"m{'xyz'[along]}", f"I{across}{across}"}
        kept += [f"{name}{j}" for name in INERTIAL_NAMES if name not in left_out]
    return tuple(kept)


def random_states(model: Mechanism, samples: int, seed: int) -> tuple[Array, Array, Array]:
    """Return q, qd, qdd (samples, n), uniform in moderate ranges.

    Joints of a serial chain fill their travel (at most a turn, or 2 m); a platform stays around its home pose.
    """
    if isinstance(model, LegDrives):
        return random_states(model.robot, samples, seed)
    random = np.random.default_rng(seed)
    if isinstance(model, SixUPRU):
        length = float(model.leg_lengths(model.home).mean())
        size = _PLATFORM_TRAVEL * np.array([length, length, length, 1.0, 1.0, 1.0])
        q, qd, qdd = random.uniform(-size, size, (3, samples, 6))
        return model.home + q, 10.0 * qd, 10.0 * qdd
    widest = np.array([_WIDEST_TRAVEL[kind] for kind in model.joint_types])
    lower = np.maximum(model.limits.position_lower, -widest)
    upper = np.minimum(model.limits.position_upper, widest)
    confined = upper - lower < _LEAST_TRAVEL * widest  # limits left at zero, as exporters do, or beyond a turn
    lower, upper = np.where(confined, -widest, lower), np.where(confined, widest, upper)
    shape = (samples, model.n_joints)
    q = random.uniform(lower, upper, shape)
    qd = random.uniform(-_TYPICAL_RATE, _TYPICAL_RATE, shape)
    qdd = random.uniform(-_TYPICAL_ACCELERATION, _TYPICAL_ACCELERATION, shape)
    return q, qd, qdd


def reduce_columns(
    stacked: Array,
    names: Sequence[str],
    *,
    leading: Sequence[str] = (),
    preferred: Sequence[Sequence[str]] = (),
    tolerance: float = GEOMETRY_ROUNDING,
) -> BaseParameters:
    """Return the base parameters of a regressor stacked over random states.

    Parameters
    ----------
    stacked : (rows, p), rows well above p, from states that excite everything.
    names : (p,) of the columns.
    leading : columns that have to be kept; they come first, in this order.
    preferred : groups of columns to keep wherever the rank then allows, the first group before the second, and
        all of them before any other column. Within a group pivoting decides.
    tolerance : a column counts as dependent when what the kept columns cannot explain of it is smaller than
        this share of itself. The default tells geometry from its rounding. A calibrated robot, whose axes are
        not quite parallel, has more base parameters, some of them hardly visible; 0.01 leaves those out.

    Raises
    ------
    ModelError
        Columns lie close to both sides of the tolerance, so that the rank is not clear-cut.
    InputError
        Too few rows, or a preferred name is none of ``names``; a leading one is named twice (``preferred-repeated``),
        zero (``preferred-vanishing``), or depends on those before it (``preferred-dependent``).
    """
    rows, p = stacked.shape
    if rows < p or len(names) != p:
        raise InputError(f"{rows} rows and {len(names)} names for {p} columns; give more random states")
    norms = np.linalg.norm(stacked, axis=0)
    present = norms > tolerance * norms.max()
    scaled = stacked / np.where(present, norms, 1.0)
    order = {name: i for i, name in enumerate(names)}
    first, *groups = ([_index(name, order) for name in group] for group in (leading, *preferred))
    _check_leading(first, scaled, present, names, tolerance)
    waiting = {i for i in range(p) if present[i]}.difference(first)
    kept: list[int] = []
    basis = np.linalg.qr(scaled[:, first])[0]
    for group in (*groups, range(p)):
        stage = sorted(waiting.intersection(group))
        waiting.difference_update(group)
        remainder = scaled[:, stage] - basis @ (basis.T @ scaled[:, stage])
        q, chosen = _independent(remainder, tolerance)
        basis = np.hstack([basis, q])
        kept += [stage[i] for i in chosen]
    independent = np.array([*first, *sorted(kept)], dtype=np.intp)
    dependent = np.setdiff1d(np.flatnonzero(present), independent)
    projection = np.zeros((independent.size, p))
    projection[np.arange(independent.size), independent] = 1.0
    beta = np.linalg.lstsq(scaled[:, independent], scaled[:, dependent], rcond=None)[0]
    beta *= norms[dependent] / norms[independent, None]
    beta[np.abs(beta) < _CLEAN * np.abs(beta).max(initial=0.0)] = 0.0
    projection[:, dependent] = beta
    return BaseParameters(tuple(names), independent, np.flatnonzero(~present), projection)


def _index(name: str, order: Mapping[str, int]) -> int:
    if name not in order:
        raise InputError(f"there is no parameter {name!r}; there are {', '.join(order)}")
    return order[name]


def _check_leading(
    leading: Sequence[int], scaled: Array, present: NDArray[np.bool_], names: Sequence[str], tolerance: float
) -> None:
    """Refuse leading columns that base parameters cannot all be built around, and name them."""
    repeated = [names[i] for k, i in enumerate(leading) if i in leading[:k]]
    if repeated:
        raise InputError(f"preferred parameters are named twice: {', '.join(repeated)}", code="preferred-repeated")
    unseen = [names[i] for i in leading if not present[i]]
    if unseen:
        raise InputError(
            f"no motion of this robot shows {', '.join(unseen)} in any torque, so no base parameter can be built "
            "around them; leave them out of the preferred ones",
            code="preferred-vanishing",
            parameters=unseen,
        )
    for k in range(1, len(leading)):
        before, own = scaled[:, leading[:k]], scaled[:, leading[k]]
        shares = np.linalg.lstsq(before, own, rcond=None)[0]
        if np.linalg.norm(own - before @ shares) <= tolerance:
            others = [names[leading[i]] for i in np.flatnonzero(np.abs(shares) > tolerance).tolist()]
            raise InputError(
                f"preferred {names[leading[k]]} depends on preferred {', '.join(others)}: they act on torque in the "
                "same way, so only their sum is identifiable; prefer fewer of them",
                code="preferred-dependent",
                parameters=[names[leading[k]], *others],
            )


def _independent(columns: Array, tolerance: float) -> tuple[Array, list[int]]:
    """Return an orthonormal basis of the columns (each at most of length 1), and which of them span it."""
    if columns.shape[1] == 0:
        return columns, []
    q, r, order = scipy.linalg.qr(columns, mode="economic", pivoting=True)
    size = np.abs(np.diag(r))
    rank = int(np.count_nonzero(size > tolerance))
    if 0 < rank < size.size and size[rank - 1] < _GAP * size[rank]:
        raise ModelError(
            f"the number of base parameters is not clear-cut: column {rank} counts {size[rank - 1]:.2g}, the "
            f"next {size[rank]:.2g}, at tolerance {tolerance:.2g}; choose a tolerance away from both",
            code="rank-not-clear",
        )
    return np.asarray(q[:, :rank], dtype=np.float64), [int(i) for i in order[:rank]]


def _relation(row: Array, names: Sequence[str], leading: int) -> str:
    text = names[leading]
    for i in np.flatnonzero(np.abs(row) >= _SHOWN).tolist():
        if i != leading:
            size = f"{abs(row[i]):.5g}"
            text += (" - " if row[i] < 0 else " + ") + ("" if size == "1" else f"{size} ") + names[i]
    return text
