"""Recordings in memory: optional velocity, named joints; what is no file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from core.errors import RecordingError
from core.pipelines.identify import identify
from core.recordings import Recording, read
from core.signals import SignalSettings, prepare

T = np.arange(600) / 100.0
Q = np.column_stack([0.3 * np.sin(4.0 * T), 0.5 * np.cos(3.0 * T)])
NAMED = Recording("named", T, Q, current=2.0 * Q, joint_names=("b", "a"))


def test_a_recording_without_velocity_is_differentiated_and_the_account_says_so():
    preparation = prepare(NAMED, Q, SignalSettings())
    (segment,) = preparation.segments
    assert preparation.account["velocity"] == "differentiated: the recording has none"
    assert segment.motion.qd[segment.rows, 0] == pytest.approx(1.2 * np.cos(4.0 * segment.times), abs=1e-3)
    assert NAMED.rates()[100, 1] == pytest.approx(-1.5 * np.sin(3.0), abs=2e-3)
    with_velocity = replace(NAMED, qd=NAMED.rates())
    assert prepare(with_velocity, Q, SignalSettings()).account["velocity"] == "measured"


def test_joints_are_put_in_the_models_order_by_name():
    ordered = NAMED.for_joints(("a", "b"))
    assert np.array_equal(ordered.q, Q[:, ::-1])
    assert ordered.qd is None
    assert ordered.joint_names == ("a", "b")
    assert NAMED.for_joints(("a",)).n_joints == 1
    nameless = replace(NAMED, joint_names=None)
    assert nameless.for_joints(("x", "y")) is nameless
    with pytest.raises(RecordingError, match="it has no joint c; it is of b, a") as refusal:
        NAMED.for_joints(("a", "c"))
    assert refusal.value.code == "joint-names-differ"
    with pytest.raises(RecordingError, match="2 joints need as many different names"):
        replace(NAMED, joint_names=("a", "a"))


def test_shapes_have_a_code_of_their_own():
    for wrong in ({"q": Q[:, 0]}, {"current": Q[:-1]}):
        with pytest.raises(RecordingError) as refusal:
            replace(NAMED, **wrong)
        assert refusal.value.code == "recording-shape"


def test_shuffled_joints_give_the_same_identification(robot):
    recording = robot.record(1, seconds=10.0)
    order = [2, 0, 1, 5, 4, 3]  # as ROS does, by the alphabet
    shuffled = replace(
        recording,
        q=recording.q[:, order],
        qd=recording.qd[:, order],
        current=recording.current[:, order],
        joint_names=tuple(robot.model.joint_names[j] for j in order),
    )
    first, second = (identify(robot.model, [r], [r], gains=robot.gains) for r in (recording, shuffled))
    assert np.array_equal(first.parameters_, second.parameters_)
    assert second.validation is not None


@pytest.mark.timeout(20)
def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(RecordingError, match="neither a file nor a folder"):
        read(pipe, "ur-log")
