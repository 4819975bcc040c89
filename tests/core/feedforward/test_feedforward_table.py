"""Feedforward tables of a robot whose torque is known."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import numpy as np
import pytest

from core.errors import InputError
from core.excitation.trajectory import TrajectorySamples
from core.feedforward import build_table
from core.pipelines.identify import identify

PERIOD = 0.002


@pytest.fixture(scope="module")
def identification(robot):
    return identify(robot.model, [robot.record(1), robot.record(2)], gains=robot.gains)


@pytest.fixture(scope="module")
def samples(robot) -> TrajectorySamples:
    t = np.arange(2001) * PERIOD
    return TrajectorySamples(PERIOD, t, *robot.motion(t, seed=9))


def test_the_table_is_the_robots_torque(robot, identification, samples):
    table = build_table(identification, samples)
    truth = robot.torque(samples.q, samples.qd, samples.qdd)
    fast = np.abs(samples.qd) > 0.1
    assert table.torque[fast] == pytest.approx(truth[fast], abs=0.1)
    assert table.current == pytest.approx(table.torque / robot.gains, rel=1e-5)
    assert (table.samples, table.n_joints, table.cycle_time) == (2001, 6, PERIOD)


def test_the_torque_does_not_step_at_reversals(robot, identification, samples):
    table = build_table(identification, samples)
    jump = np.abs(np.diff(robot.torque(samples.q, samples.qd, samples.qdd), axis=0)).max(axis=0)
    reversing = np.any(np.diff(np.sign(samples.qd), axis=0) != 0, axis=0)
    assert reversing.any()
    assert np.all(table.largest_step[reversing] < 0.3 * jump[reversing])


def test_bytes_checksum_and_document(identification, samples):
    table = build_table(identification, samples)
    content = np.frombuffer(table.torque_bytes, "<f4").reshape(table.samples, table.n_joints)
    assert np.array_equal(content, table.torque)
    assert len(table.current_bytes) == len(table.torque_bytes) == 2001 * 6 * 4
    assert table.crc32 == zlib.crc32(table.torque_bytes)
    document = json.loads(json.dumps(table.to_document(), allow_nan=False))
    assert document["crc32"] == table.crc32
    assert document["digest"] == build_table(identification, samples).digest
    other = build_table(identification, replace(samples, period=0.004))
    assert other.digest != table.digest


def test_torque_beyond_the_limit_is_reported_and_not_clipped(identification, samples):
    weak = replace(identification, model=identification.model.with_limits(torque=[1e3, 60.0, 1e3, 1e3, 1e3, 1e3]))
    table = build_table(weak, samples)
    (saturation,) = table.saturations
    beyond = np.abs(table.torque[:, 1]) > 60.0
    assert (saturation.joint, saturation.limit) == (2, 60.0)
    assert saturation.samples == beyond.sum()
    assert saturation.time == pytest.approx(PERIOD * np.argmax(beyond))
    assert saturation.peak == pytest.approx(np.abs(table.torque[:, 1]).max(), rel=1e-6)
    assert saturation.peak > 60.0


def test_current_needs_gains(robot, samples):
    in_current = identify(robot.model, [robot.record(1)])
    assert in_current.unit == "A"
    with pytest.raises(InputError, match="no drive gains are known"):
        build_table(in_current, samples)
    table = build_table(in_current, samples, gains=robot.gains)
    assert table.torque == pytest.approx(table.current * robot.gains, rel=1e-5, abs=1e-4)
    with pytest.raises(InputError, match="6 positive numbers"):
        build_table(in_current, samples, gains=[1.0])


def test_torque_without_gains_has_no_current(robot, samples):
    recording = robot.record(1)
    measured = replace(recording, torque=recording.current * robot.gains)
    table = build_table(identify(robot.model, [measured]), samples)
    assert table.current is None
    assert table.current_bytes is None


def test_joints_have_to_fit(identification, samples):
    short = TrajectorySamples(PERIOD, samples.t, samples.q[:, :2], samples.qd[:, :2], samples.qdd[:, :2])
    with pytest.raises(InputError, match="the trajectory has 2 joints"):
        build_table(identification, short)
