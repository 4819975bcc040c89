"""A stream of samples tells a joint that changes from a robot that stays as it was."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from core.errors import InputError
from core.pipelines.drift_monitor import DriftMonitor, Trip
from core.pipelines.identification import Identification
from core.pipelines.identify import identify

RATE = 100.0
NOISE = 1.0


@pytest.fixture(scope="module")
def identified(robot) -> Identification:
    return identify(robot.model, [robot.record(1, seconds=20.0, noise=NOISE)], gains=robot.gains)


def fed(monitor: DriftMonitor, robot, seconds: float, seed: int, block: int = 37) -> list[Trip]:
    """Feed a motion in blocks; return all that trips."""
    monitor.restart()  # the motion does not go on where the one before ended
    motion = robot.record(seed, seconds=seconds, noise=NOISE, noise_seed=seed)
    torque, trips = motion.current * robot.gains, []
    for start in range(0, len(motion.t), block):
        part = slice(start, start + block)
        trips += monitor.update(motion.q[part], motion.qd[part], torque[part])
    return trips


@pytest.fixture(scope="module")
def taught(robot, identified) -> DriftMonitor:
    """A monitor that knows what is usual; to be copied."""
    monitor = DriftMonitor(identified, RATE)
    assert fed(monitor, robot, 300.0, 6) == []
    assert np.all((monitor.learned > 0.0) & (monitor.learned < 1.0))
    assert fed(monitor, robot, 600.0, 7) == []
    assert np.all(monitor.learned == 1.0)
    return monitor


def test_a_robot_that_stays_as_it_was_never_trips(robot, taught) -> None:
    monitor = deepcopy(taught)
    assert fed(monitor, robot, 1500.0, 8) == []
    assert np.all(monitor.level < 1.0)


def test_a_joint_that_rubs_more_trips_as_friction(robot, taught) -> None:
    worn = replace(robot, coulomb=robot.coulomb * [1, 1, 1.2, 1, 1, 1])
    trips = fed(deepcopy(taught), worn, 150.0, 6)
    assert {(trip.joint, trip.kind) for trip in trips} == {(2, "friction")}
    assert trips[-1].torque == pytest.approx(0.2 * robot.coulomb[2], rel=0.3)


def test_an_offset_trips_as_such(robot, taught) -> None:
    shifted = replace(robot, offset=robot.offset + np.array([0, 1.0, 0, 0, 0, 0]))
    trips = fed(deepcopy(taught), shifted, 150.0, 6)
    assert {(trip.joint, trip.kind) for trip in trips} == {(1, "offset")}
    assert trips[-1].torque == pytest.approx(1.0, rel=0.3)


def test_blocks_of_any_length_are_one_stream(robot, identified) -> None:
    motion = robot.record(7, seconds=20.0, noise=NOISE)
    torque = motion.current * robot.gains
    whole, parts = DriftMonitor(identified, RATE), DriftMonitor(identified, RATE)
    whole.update(motion.q, motion.qd, torque)
    for row in range(len(motion.t)):
        parts.update(motion.q[row], motion.qd[row], torque[row])
    for own, other in zip(whole._usual, parts._usual, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9)
    assert sum(map(len, parts._usual)) > 0
    assert parts.to_document() == {"learned": parts.learned.tolist(), "level": [0.0] * 6}


def test_what_is_no_stream_is_refused(robot, identified) -> None:
    monitor = DriftMonitor(identified, RATE)
    zeros = np.zeros((3, 6))
    with pytest.raises(InputError, match=r"qd has shape \(3, 5\), expected \(3, 6\)"):
        monitor.update(zeros, zeros[:, :5], zeros)
    with pytest.raises(InputError, match="measured holds values that are not finite"):
        monitor.update(zeros, zeros, zeros + np.nan)
    with pytest.raises(InputError, match="more than 20 samples a second"):
        DriftMonitor(identified, 10.0)
