"""Units that a recording cannot be in are recognised, in training and in validation files alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.errors import RecordingError
from core.pipelines.effort import Effort, choose_effort
from core.pipelines.identify import identify
from core.pipelines.plausibility import check_plausible, suspicious_links
from core.recordings.recording import Recording

DEGREES = 180.0 / np.pi


@pytest.fixture(scope="module")
def recording(robot) -> Recording:
    """A motion with the controller's own targets, as those of a UR log."""
    made = robot.record(1, seconds=10.0, noise=0.5)
    target = robot.model.inverse_dynamics(*robot.motion(made.t, 1))
    return replace(made, target_torque=target, target_current=target / robot.gains)


def scaled(recording: Recording, **factors: float) -> Recording:
    return replace(recording, **{name: factor * getattr(recording, name) for name, factor in factors.items()})


def without_targets(recording: Recording) -> Recording:
    return replace(recording, target_torque=None, target_current=None)


@pytest.fixture(scope="module")
def effort(robot) -> Effort:
    return choose_effort(robot.model, [], robot.gains)


def test_a_recording_in_si_units_is_not_suspected(robot, recording, effort):
    assert check_plausible(robot.model, recording, effort) == ()
    assert check_plausible(robot.model, without_targets(recording), effort) == ()


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ({"current": 1e3}, r"current is .* times the controller's own target: it looks like mA, not A"),
        ({"current": 1e3, "target_current": 1e3}, "current reaches .*, which looks like mA, not A"),
        ({"q": DEGREES, "qd": DEGREES}, r"velocity of .* reaches .*: it looks like deg/s"),
        ({"q": DEGREES}, "positions look like degrees beside a velocity in rad/s"),
        ({"qd": DEGREES}, "velocity looks like deg/s beside positions in rad"),
        ({"qd": 30.0 / np.pi}, "velocity looks like rpm"),
        ({"t": 1e3}, "time stamps look like ms"),
        ({"t": 1e6}, "time stamps look like us"),
        ({"t": 1e9}, "time stamps look like ns"),
        ({"t": 1e3, "qd": DEGREES}, "time stamps look like ms, not s, and velocity like deg/s"),
    ],
)
def test_impossible_units_are_refused_by_name(robot, recording, effort, factors, said):
    with pytest.raises(RecordingError, match=said) as refusal:
        check_plausible(robot.model, scaled(recording, **factors), effort)
    assert refusal.value.code == "recording-units"


def test_a_current_whose_sign_is_the_other_one_is_refused_by_joint(robot, recording, effort):
    flipped = replace(recording, current=recording.current * [1, -1, 1, 1, 1, 1], target_current=recording.current)
    with pytest.raises(RecordingError, match="current of shoulder_lift_joint runs against the controller's own target"):
        check_plausible(robot.model, flipped, effort)


def test_a_gain_that_is_off_in_one_joint_is_suspected(robot, recording):
    wrong = Effort("current", robot.gains * [1, 1, 0.1, 1, 1, 1], "N·m")
    followed = replace(recording, target_torque=recording.current * robot.gains)
    (said,) = check_plausible(robot.model, followed, wrong)
    assert "current times the drive gain of elbow_joint is 0.1 times the controller's own target" in said


def test_a_link_that_no_body_is_like_is_suspected(robot, recording):
    parameters = robot.model.inertial_parameters.copy()
    parameters[2, 4:] = (1.0, 0.0, 0.1, 0.0, 0.0, 0.1)
    odd = replace(robot.model, inertial_parameters=parameters)
    assert suspicious_links(robot.model) == ()
    (said,) = suspicious_links(odd)
    assert "the inertia that the model gives the link at elbow_joint" in said
    assert said in identify(odd, [recording], gains=robot.gains).warnings


def test_without_targets_the_limits_of_the_model_tell(robot, recording, effort):
    with pytest.raises(
        RecordingError, match=r"reaches .* N·m, .* times the .* N·m of the model: current looks like mA"
    ):
        check_plausible(robot.model, without_targets(scaled(recording, current=40.0)), effort)
    torque = without_targets(replace(recording, torque=recording.current * robot.gains * 1e3))
    with pytest.raises(RecordingError, match="torque looks like mN·m, not N·m"):
        check_plausible(robot.model, torque, Effort("torque", None, "N·m"))


def test_stamps_in_ms_are_recognised_without_velocities(robot, recording):
    slow = scaled(replace(recording, qd=None), t=1e3)
    with pytest.raises(RecordingError, match="time steps by 10, which looks like ms, not s"):
        identify(robot.model, [slow], gains=robot.gains)


def test_what_is_merely_suspicious_is_a_warning(robot, recording):
    doubtful = robot.model.with_limits(torque=[30.0] * 6, position_upper=[0.2] * 6, position_lower=[-0.2] * 6)
    result = identify(doubtful, [without_targets(recording)], [robot.record(2, seconds=10.0)], gains=robot.gains)
    said = [warning for warning in result.warnings if "of the model" in warning]
    assert [warning.partition(":")[0] for warning in said] == ["motion 1", "motion 1", "motion 2", "motion 2"]
    assert "position of" in said[0]
    assert "current times the drive gain of" in said[1]


def test_validation_files_are_looked_at_as_well(robot, recording):
    for wrong in (scaled(recording, current=1e3), scaled(recording, q=DEGREES), scaled(recording, t=1e3)):
        with pytest.raises(RecordingError, match=r"looks? like") as refusal:
            identify(robot.model, [robot.record(2, seconds=10.0)], [replace(wrong, name="held out")], gains=robot.gains)
        assert str(refusal.value).startswith("held out")


def test_a_signal_that_was_not_recorded_is_named(robot, recording, effort):
    with pytest.raises(RecordingError, match=r"the current of .*wrist_3_joint is always zero while the robot moves"):
        check_plausible(robot.model, scaled(recording, current=0.0), effort)
    stuck = recording.current * [1, 1, 0, 1, 1, 1] + [0, 0, 2, 0, 0, 0]
    with pytest.raises(RecordingError, match="elbow_joint is the same from the first sample to the last") as refusal:
        check_plausible(robot.model, replace(recording, current=stuck), effort)
    assert refusal.value.code == "signal-dead"


def test_a_prismatic_joint_is_given_in_mm(robot, recording, effort):
    sliding = replace(robot.model, joint_types=("prismatic",) * 6)
    with pytest.raises(RecordingError, match=r"velocity of .* reaches .* m/s, .*: it looks like mm/s"):
        check_plausible(sliding, scaled(recording, q=1e3, qd=1e3), effort)
