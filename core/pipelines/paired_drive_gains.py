"""Drive gains from runs with and without a payload that is known, at least by its mass.

Without a load only ratios of gains can be told: twice the gain is twice the arm. A known mass sets the scale
(Gautier and Briot 2014). The current of joint j in units of its nominal gain is

    tau_j = W_j phi_j + F_j f_j + c_j P_j pi,    c_j = nominal gain / gain

with pi the payload's ten parameters, some of them known, which move in the loaded runs only. Every joint has an arm
phi_j and a friction f_j of its own, so that what the model gets wrong about the arm, alike in both runs, cancels, and
no joint's gain rests on how well the arm's links and gears are known. What is left of the payload in the torque of
joint j tells c_j pi, as far as it is visible there, with its covariance; then the c_j and the unknown part of pi are
found that all joints agree on best. How well they agree is a test of it all, friction under load above all: beyond
what noise explains, the standard deviations are enlarged accordingly (Birge 1932).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from core.errors import IdentificationError, InputError
from core.estimators import Block, Observations, OrdinaryLeastSquares, coloured_covariance
from core.models.chain import INERTIAL_NAMES
from core.pipelines.identification import Identification
from core.pipelines.payload import PayloadRuns
from core.recordings.recording import Recording

Array = NDArray[np.float64]

_CERTAIN = 2.0
"""Standard deviations that nominal gain over gain has to be above zero for the gain to be told."""
_SEEN = 1e-6
"""Share of a column of length one from which on a direction of parameters is seen by a joint."""
_LOAD_PASSES = 3
"""How often the load that friction grows with is renewed with the payload found."""
_SINGULAR = 1e8
"""Condition number from which on the joints do not tell what is not known of the payload."""
_REFUTED = 3.0
"""Standard deviations from which on a nominal gain is another one than that of the drive."""
_UNSURE = 0.05
"""A standard deviation that is a larger share of the gain is worth a word."""


@dataclass(frozen=True, eq=False)
class PairedDriveGains:
    """Drive gains of n joints from a known payload.

    Attributes
    ----------
    values, std : (n,) N·m/A (N/A), and their standard deviations; NaN for joints that hardly feel the payload.
        Residuals are coloured, and the disagreement of the joints is in the deviations. A gear that loses a share of
        what it moves takes it from its gain, unless the friction has ``load(drive)``, which tells the two apart as
        far as the motion does.
    payload : (10,) parameters of the payload, the known ones as given.
    disagreement : how many times further the joints are apart, root mean square, than noise explains; 1 is as expected,
        and from 1 on the standard deviations grow with it.
    nominal : (n,) gains that the arm was identified with.
    joint_names : (n,).
    covariance_kind : how the standard deviations were found.
    """

    values: Array
    std: Array
    payload: Array
    disagreement: float
    nominal: Array
    joint_names: tuple[str, ...]
    covariance_kind: str

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know before relying on the result."""
        found = []
        if self.disagreement > 2.0:
            found.append(
                f"the joints disagree about the payload {self.disagreement:.1f} times as much as noise explains, so "
                "what the model gets wrong decides; let friction depend on the load, or give more of the payload"
            )
        untold = [n for n, value in zip(self.joint_names, self.values, strict=True) if np.isnan(value)]
        if untold:
            found.append(f"the payload does not tell the gains of {', '.join(untold)}, which hardly feel it")
        off = np.abs(self.values - self.nominal) / self.std
        refuted = [n for n, deviations in zip(self.joint_names, off, strict=True) if deviations > _REFUTED]
        if refuted:
            found.append(
                f"the nominal gains of {', '.join(refuted)} are wrong, by more than {_REFUTED:g} standard deviations: "
                "take the new ones, and identify the arm again with them"
            )
        unsure = [n for n, share in zip(self.joint_names, self.std / self.values, strict=True) if share > _UNSURE]
        if unsure:
            found.append(
                f"the gains of {', '.join(unsure)} are known to no better than {_UNSURE:.0%}: the payload loads these "
                "joints little; give its centre of mass as well, or move them faster"
            )
        return tuple(found)

    def to_document(self) -> dict[str, Any]:
        """Return JSON-serialisable data."""
        return {
            "joint_names": list(self.joint_names),
            "nominal": self.nominal.tolist(),
            "gains": [_finite(value) for value in self.values],
            "std": [_finite(value) for value in self.std],
            "payload": dict(zip(INERTIAL_NAMES, self.payload.tolist(), strict=True)),
            "disagreement": self.disagreement,
            "covariance_kind": self.covariance_kind,
            "warnings": list(self.warnings),
        }


def known_payload(mass: float, com: Sequence[float] | None = None) -> dict[str, float]:
    """Return the parameters of a payload (kg, m in the last joint frame) as ``from_paired_runs`` takes them.

    Raises
    ------
    InputError
        The mass is not positive, or a value is not finite.
    """
    values = [mass, *(com or ())]
    if not (np.all(np.isfinite(values)) and mass > 0.0):
        raise InputError(f"a payload needs a positive mass in kg and a centre of mass in m, got {values}")
    moments = {} if com is None else {f"m{axis}": mass * x for axis, x in zip("xyz", com, strict=True)}
    return {"m": mass, **moments}


def from_paired_runs(
    arm: Identification, loaded: Sequence[Recording], unloaded: Sequence[Recording], payload: Mapping[str, float]
) -> PairedDriveGains:
    """Estimate drive gains.

    Parameters
    ----------
    arm : identified without the payload with nominal gains, as good as they are known; its friction's shapes
        are kept, and the load that friction grows with.
    loaded, unloaded : runs with and without the payload, best of one motion: what differs between motions is not told
        from the payload.
    payload : what is known of it by name, ``m`` at least, in the last joint frame. With its first moments, each joint's
        gain is known from its own torque; without, joints that hardly feel the mass lean on the others.

    Raises
    ------
    InputError
        The mass is missing, a name is unknown, or there are no runs of both kinds.
    IdentificationError
        The arm is not identified from currents with gains, or the payload shows in no joint.
    """
    unknown = set(payload) - set(INERTIAL_NAMES)
    if unknown or "m" not in payload or not payload["m"] > 0.0:
        raise InputError(f"a known payload needs its mass m, and may have {', '.join(INERTIAL_NAMES[1:])}")
    if not (loaded and unloaded):
        raise InputError("drive gains need runs both with and without the payload", code="recordings-missing")
    if arm.effort.gains is None or arm.effort.signal != "current":
        raise IdentificationError(
            "drive gains need an arm that was identified from currents with nominal gains", code="gains-undetermined"
        )
    runs = PayloadRuns(arm, loaded, unloaded)
    agreement = _Agreement(runs.names, payload, arm.model.joint_names)
    found = agreement.first
    for _ in range(_LOAD_PASSES):
        observations = runs.observations(np.append(arm.parameters_, found.payload))
        views = [_view(observations, j, len(arm.names)) for j in range(arm.model.n_joints)]
        found = agreement.reach(views)
    full = np.zeros(10)
    full[runs.visible.independent] = found.payload
    told = found.factors > _CERTAIN * found.std
    if not told.any():
        raise IdentificationError(
            "the payload tells no drive gain, as no joint feels it; move it so that it loads all joints, or take a "
            "heavier one",
            code="gains-undetermined",
        )
    factors = np.where(told, found.factors, np.nan)
    return PairedDriveGains(
        values=arm.effort.gains / factors,
        std=arm.effort.gains / factors**2 * found.std,
        payload=full,
        disagreement=found.disagreement,
        nominal=arm.effort.gains,
        joint_names=arm.model.joint_names,
        covariance_kind=views[0].kind,
    )


class _View(NamedTuple):
    """What one joint sees of the payload: ``directions @ (c pi)`` (k,) for visible parameters pi, with a root of its
    inverse covariance, (k, k)."""

    directions: Array
    values: Array
    root: Array
    kind: str


class _Agreed(NamedTuple):
    """Factors c (n,), their standard deviations, the visible payload parameters, and how far joints are apart."""

    factors: Array
    std: Array
    payload: Array
    disagreement: float


def _view(observations: Observations, joint: int, known: int) -> _View:
    """Estimate what one joint alone sees of the payload, beside an arm and a friction of its own."""
    rows, _ = observations.factors.of_joint(joint)
    arm, _ = _seen(rows[:, :known])
    basis = np.linalg.qr(rows[:, :known] @ arm)[0]
    rest = rows[:, known:] - basis @ (basis.T @ rows[:, known:])
    payload, directions = _seen(rest, np.linalg.norm(rows[:, known:], axis=0))

    def blocks() -> Iterator[Block]:
        for columns, effort, motion in observations.blocks():
            own = columns[:, joint]
            seen = np.concatenate([own[:, :known] @ arm, own[:, known:] @ payload], axis=1)
            yield Block(seen[:, None], effort[:, joint, None], motion)

    names = [f"direction {i + 1}" for i in range(arm.shape[1] + payload.shape[1])]
    alone = Observations(names, 1, blocks, oversampling=observations.oversampling)
    fitted = OrdinaryLeastSquares().fit_observations(alone)
    covariance = coloured_covariance(fitted, alone)
    part = slice(arm.shape[1], None)
    root: Array = np.linalg.inv(np.linalg.cholesky(covariance.matrix[part, part]))
    return _View(directions, fitted.coef_[part], root, covariance.kind)


def _seen(rows: Array, size: Array | None = None) -> tuple[Array, Array]:
    """Return combinations (p, k) of the columns (r, p) that are independent, and what parameters are in them (k, p).

    Columns count by their size (p,), by default their length.
    """
    length = np.linalg.norm(rows, axis=0) if size is None else size
    scale = np.where(length > 0.0, length, 1.0)
    _, values, directions = np.linalg.svd(rows / scale, full_matrices=False)
    seen = directions[values > _SEEN]
    return np.asarray(seen.T / scale[:, None]), np.asarray(seen * scale)


class _Agreement:
    """What all joints agree on best.

    Attributes
    ----------
    first : gains as they are nominally, and the payload as far as it is known.
    """

    def __init__(self, names: Sequence[str], payload: Mapping[str, float], joint_names: Sequence[str]) -> None:
        self._joint_names = joint_names
        self._given = np.array([payload.get(name, 0.0) for name in names])
        self._free = np.array([i for i, name in enumerate(names) if name not in payload], dtype=np.intp)
        n = len(joint_names)
        self.first = _Agreed(np.ones(n), np.zeros(n), self._given, 1.0)

    def reach(self, views: Sequence[_View]) -> _Agreed:
        """Return the factors and the payload that are nearest to what the joints see.

        Raises
        ------
        IdentificationError
            A joint sees nothing of the payload, or all of them too little of what is not known of it.
        """
        n = len(views)

        def apart(unknowns: Array) -> Array:
            payload = self._payload(unknowns[n:])
            parts = zip(views, unknowns[:n], strict=True)
            return np.concatenate([v.root @ (v.values - c * (v.directions @ payload)) for v, c in parts])

        found = scipy.optimize.least_squares(apart, np.append(np.ones(n), np.zeros(self._free.size)), x_scale="jac")
        slopes = np.asarray(found.jac)
        size = np.linalg.norm(slopes, axis=0)
        blind = [self._joint_names[j] for j in np.flatnonzero(size[:n] == 0.0).tolist()]
        if blind or len(slopes) < size.size or np.linalg.cond(slopes / size) > _SINGULAR:
            raise IdentificationError(
                f"the payload does not tell the drive gains of {', '.join(blind or self._joint_names)}; move it so "
                "that it loads all joints, or give its first moments as well",
                code="gains-undetermined",
                joints=blind or list(self._joint_names),
            )
        freedom = len(slopes) - size.size
        disagreement = float(np.sqrt(found.fun @ found.fun / freedom)) if freedom > 0 else 1.0
        spread = np.diag(np.linalg.inv(slopes.T @ slopes))[:n]
        std = np.sqrt(spread) * max(disagreement, 1.0)
        return _Agreed(found.x[:n], std, self._payload(found.x[n:]), disagreement)

    def _payload(self, free: Array) -> Array:
        payload = self._given.copy()
        payload[self._free] = free
        return payload


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
