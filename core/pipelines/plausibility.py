"""Whether the numbers of a recording can be what they are taken for, or are in another unit.

A file tells numbers, not units. Judged are the controller's own targets, the derivative of the position and the
limits of the model: what exceeds them many times over is refused, what exceeds them is worth a look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from core.dynamics.physical_consistency import inconsistent_links
from core.errors import RecordingError
from core.models import Mechanism, SerialChain
from core.pipelines.effort import Effort
from core.recordings.recording import Recording
from core.recordings.row_checks import LARGEST_CURRENT

Array = NDArray[np.float64]

_SUSPICIOUS, _IMPOSSIBLE, _IMPOSSIBLE_EFFORT = 1.5, 5.0, 10.0
"""How many times a limit has to be exceeded; those of torque are often rated ones, and say what a joint may do."""
_OUTSIDE = 1.01
"""How many times a position has to exceed its limit to be suspicious."""
_OFTEN = 0.99
"""Share of the samples that stays below what is compared with a limit: single outliers are no matter of units."""
_OFF_TARGET, _FAR_OFF_TARGET = 5.0, 100.0
"""Ratio of measured to target effort, either way: friction is not in every controller's target."""
_RATES = {
    180.0 / np.pi: "velocity looks like deg/s beside positions in rad",
    np.pi / 180.0: "positions look like degrees beside a velocity in rad/s",
    30.0 / np.pi: "velocity looks like rpm, not rad/s",
    1e3: "time stamps look like ms, not s",
    1e6: "time stamps look like us, not s",
    1e9: "time stamps look like ns, not s",
    180e3 / np.pi: "time stamps look like ms, not s, and velocity like deg/s",
}
"""What a velocity that is so many times the derivative of the position is a sign of."""
_SAME_RATE = 0.05
"""Relative width of those factors."""
_ALIKE = 0.8
"""Squared correlation from which velocity and derivative of the position are the same signal."""
_FOLLOWS = 0.5
"""The same for an effort and its target, which friction may be missing from."""
_APART = 10
"""Samples between the positions compared: noise of single ones is no matter of units."""
_MOVES = 0.02
"""rad/s (m/s); a joint faster than this at some time moves."""


class Finding(NamedTuple):
    """What is wrong, and whether it is impossible rather than suspicious."""

    what: str
    impossible: bool


class _Unit(NamedTuple):
    """A unit, and a smaller one that is often taken for it: by what factor, and in words."""

    name: str
    factor: float
    smaller: str


class _Quantity(NamedTuple):
    name: str
    units: Mapping[str, _Unit]  # by the type of the joint


_POSITION_UNITS = {
    "revolute": _Unit("rad", 180.0 / np.pi, "it looks like degrees"),
    "prismatic": _Unit("m", 1e3, "it looks like mm"),
}
_SPEED_UNITS = {
    "revolute": _Unit("rad/s", 180.0 / np.pi, "it looks like deg/s"),
    "prismatic": _Unit("m/s", 1e3, "it looks like mm/s"),
}
_EFFORT_UNITS = {"revolute": "N·m", "prismatic": "N"}


def check_plausible(model: Mechanism, recording: Recording, effort: Effort) -> tuple[str, ...]:
    """Return what looks suspicious in a recording whose joints are in the model's order.

    Raises
    ------
    RecordingError
        Code ``recording-units``: something is impossible for this robot in the units it is taken for; or
        ``signal-dead``: the effort of a joint never changes, though the joint moves.
    """
    _check_alive(model, recording, effort)
    found = [*_kinematics(model, recording), *_effort(model, recording, effort)]
    for finding in found:
        if finding.impossible:
            raise RecordingError(
                f"{recording.name}: {finding.what}. State the unit of that signal in a column map, or convert it",
                code="recording-units",
                recording=recording.name,
            )
    return tuple(f"{recording.name}: {finding.what}" for finding in found)


def _check_alive(model: Mechanism, recording: Recording, effort: Effort) -> None:
    values = effort.of(recording)
    moves = np.abs(recording.rates()).max(axis=0) > _MOVES
    dead = np.flatnonzero(moves & (values.max(axis=0) == values.min(axis=0)))
    if dead.size:
        names = ", ".join(model.joint_names[j] for j in dead)
        stuck = "always zero" if not np.any(values[:, dead]) else "the same from the first sample to the last"
        raise RecordingError(
            f"{recording.name}: the {effort.signal} of {names} is {stuck} while the robot moves: it was not recorded, "
            "or is in other columns",
            code="signal-dead",
            recording=recording.name,
            joints=[int(j) + 1 for j in dead],
        )


def _kinematics(model: Mechanism, recording: Recording) -> Iterator[Finding]:
    factor = _rate_factor(recording)
    for expected, meaning in _RATES.items():
        if abs(factor / expected - 1.0) < _SAME_RATE:
            yield Finding(f"velocity is {factor:.4g} times the derivative of the position: {meaning}", impossible=True)
    limits = model.limits
    speed = np.quantile(np.abs(recording.rates()), _OFTEN, axis=0)
    yield from _beyond(_Quantity("velocity", _SPEED_UNITS), speed, limits.velocity, model, _SUSPICIOUS, _IMPOSSIBLE)
    widest = np.maximum(np.abs(limits.position_lower), np.abs(limits.position_upper))
    reach = np.abs(recording.q).max(axis=0)
    yield from _beyond(_Quantity("position", _POSITION_UNITS), reach, widest, model, _OUTSIDE, _IMPOSSIBLE)


def _effort(model: Mechanism, recording: Recording, effort: Effort) -> Iterator[Finding]:
    values = effort.of(recording)
    small = "mA, not A" if effort.signal == "current" else "mN·m, not N·m"
    if effort.signal == "current" and recording.current is not None:
        if recording.target_current is not None:
            yield from _off_target("current", recording.current, recording.target_current, small, model.joint_names)
        largest = float(np.quantile(np.abs(recording.current), _OFTEN, axis=0).max())
        if largest > LARGEST_CURRENT:
            yield Finding(f"current reaches {largest:.4g}, which looks like mA, not A", impossible=True)
    if effort.unit != "A":
        name = "torque" if effort.signal == "torque" else "current times the drive gain"
        if recording.target_torque is not None:
            yield from _off_target(name, values, recording.target_torque, small, model.joint_names)
        units = {kind: _Unit(unit, 1e3, f"{effort.signal} looks like {small}") for kind, unit in _EFFORT_UNITS.items()}
        size = np.quantile(np.abs(values), _OFTEN, axis=0)
        yield from _beyond(_Quantity(name, units), size, model.limits.torque, model, _SUSPICIOUS, _IMPOSSIBLE_EFFORT)


def _rate_factor(recording: Recording) -> float:
    """Return how many times the velocity is the derivative of the position; 1 where that cannot be told."""
    if recording.qd is None or recording.t.size <= _APART:
        return 1.0
    told = sliding_window_view(0.5 * (recording.qd[1:] + recording.qd[:-1]) * np.diff(recording.t)[:, None], _APART, 0)
    told, way = told.sum(axis=-1), recording.q[_APART:] - recording.q[:-_APART]
    product, way_squared = np.sum(told * way, axis=0), np.sum(way**2, axis=0)
    alike = (product > 0.0) & (product**2 > _ALIKE * way_squared * np.sum(told**2, axis=0))
    return float(np.median(product[alike] / way_squared[alike])) if np.any(alike) else 1.0


def _beyond(
    quantity: _Quantity, size: Array, limit: Array, model: Mechanism, suspicious: float, impossible: float
) -> Iterator[Finding]:
    """Say which joint exceeds its limit the most, if one does; limits of zero, as exporters leave them, are none."""
    times = np.divide(size, limit, out=np.zeros_like(size), where=(limit > 0.0) & np.isfinite(limit))
    joint = int(np.argmax(times))
    if times[joint] <= suspicious:
        return
    unit = quantity.units[model.joint_types[joint]]
    hint = f": {unit.smaller}" if suspicious < times[joint] <= suspicious * unit.factor else ""
    yield Finding(
        f"{quantity.name} of {model.joint_names[joint]} reaches {size[joint]:.4g} {unit.name}, {times[joint]:.3g} "
        f"times the {limit[joint]:.4g} {unit.name} of the model{hint}",
        impossible=bool(times[joint] > impossible),
    )


def _off_target(name: str, values: Array, target: Array, smaller: str, joint_names: Sequence[str]) -> Iterator[Finding]:
    """Compare a signal (N, n) with the controller's own target of it."""
    own = float(np.linalg.norm(target))
    if own == 0.0:
        return
    ratio = float(np.linalg.norm(values)) / own
    if not 1.0 / _OFF_TARGET < ratio < _OFF_TARGET:
        far = not 1.0 / _FAR_OFF_TARGET < ratio < _FAR_OFF_TARGET
        hint = f": it looks like {smaller}" if _FAR_OFF_TARGET < ratio < _FAR_OFF_TARGET**2 else ""
        yield Finding(f"{name} is {ratio:.3g} times the controller's own target{hint}", impossible=far)
        return
    for joint, slope in enumerate(_slopes(values, target)):
        if slope < 0.0:
            yield Finding(
                f"{name} of {joint_names[joint]} runs against the controller's own target: its sign is the other one, "
                "or it belongs to another joint",
                impossible=True,
            )
        elif not 1.0 / _OFF_TARGET < slope < _OFF_TARGET:
            yield Finding(
                f"{name} of {joint_names[joint]} is {slope:.3g} times the controller's own target", impossible=False
            )


def _slopes(values: Array, target: Array) -> Array:
    """Return how many times its target each signal (N, n) is; one where they are not alike, so that nobody can say."""
    a, b = values - values.mean(axis=0), target - target.mean(axis=0)
    product, sizes = np.sum(a * b, axis=0), np.sum(a**2, axis=0) * np.sum(b**2, axis=0)
    alike = product**2 > _FOLLOWS * sizes
    one = np.ones_like(product)
    return np.asarray(np.divide(product, np.sum(b**2, axis=0), out=one, where=alike & (sizes > 0.0)))


def suspicious_links(model: Mechanism) -> tuple[str, ...]:
    """Return what is odd about the inertia that a model's file gives its links; none of it is used but as a prior."""
    if not isinstance(model, SerialChain):
        return ()
    given = model.inertial_parameters[:, 0] > 0.0
    names = [model.joint_names[j] for j in inconsistent_links(model.inertial_parameters) if given[j]]
    if not names:
        return ()
    return (
        f"no body has the inertia that the model gives the link{'s' if len(names) > 1 else ''} at {', '.join(names)} "
        "(it is not positive, or one moment exceeds the sum of the others): as a prior, one of the same mass takes its "
        "place",
    )
