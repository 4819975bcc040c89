"""What has changed about a robot since it was identified is told from what has not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.errors import InputError
from core.pipelines.drift import DriftTest, drift
from core.pipelines.identification import Identification
from core.pipelines.identify import identify

NOISE = 1.0


@pytest.fixture(scope="module")
def identified(robot) -> Identification:
    recordings = [robot.record(seed, seconds=20.0, noise=NOISE) for seed in (1, 2)]
    return identify(robot.model, recordings, [robot.record(3, seconds=20.0, noise=NOISE)], gains=robot.gains)


def compared(robot, identified: Identification, seed: int = 21) -> DriftTest:
    return drift(identified, [robot.record(seed, seconds=15.0, noise=NOISE)])


def test_a_robot_that_is_as_it_was_is_not_said_to_have_changed(robot, identified):
    tests = [compared(robot, identified, seed) for seed in range(20, 32)]
    assert [test.changes for test in tests] == [()] * len(tests)
    assert str(tests[0]) == "the robot is as it was identified"
    assert tests[0].unexplained == pytest.approx(tests[0].rms)


def test_the_joint_whose_friction_has_changed_is_named(robot, identified):
    worn = replace(robot, viscous=robot.viscous * [1, 1.5, 1, 1, 1, 1], coulomb=robot.coulomb * [1, 1, 1, 1.6, 1, 1])
    test = compared(worn, identified)
    assert test.drifted == (1, 3)
    assert {change.cause for change in test.changes} == {"friction"}
    values = {name: value for change in test.changes for name, value in change.values.items()}
    assert values["fv2"] == pytest.approx(0.5 * robot.viscous[1], rel=0.2)
    assert values["fc4"] == pytest.approx(0.6 * robot.coulomb[3], rel=0.2)
    assert np.all(test.unexplained < 0.8 * np.maximum(test.rms, 2.0 * test.usual))
    assert "friction of shoulder_lift_joint has changed" in str(test)


def test_a_payload_is_not_taken_for_friction(robot, identified):
    loaded = replace(robot, model=robot.model.with_payload(3.0, (0.05, 0.0, 0.1)))
    test = compared(loaded, identified)
    assert [change.cause for change in test.changes] == ["payload"]
    assert test.changes[0].values["m"] == pytest.approx(3.0, rel=0.1)
    assert {1, 2} <= set(test.drifted)


def test_a_sensor_of_another_gain_is_named(robot, identified):
    recording = robot.record(21, seconds=15.0, noise=NOISE)
    test = drift(identified, [replace(recording, current=recording.current * [1, 1, 1.2, 1, 1, 1])])
    assert [(change.cause, change.joints) for change in test.changes] == [("sensor", (2,))]
    assert test.changes[0].values["gain3"] == pytest.approx(0.2, abs=0.03)


def test_two_things_at_once_are_both_found(robot, identified):
    both = replace(
        robot,
        model=robot.model.with_payload(3.0, (0.0, 0.0, 0.1)),
        viscous=robot.viscous * [1.6, 1, 1, 1, 1, 1],
    )
    test = compared(both, identified)
    assert {(change.cause, change.joints[:1]) for change in test.changes} >= {("friction", (0,))}
    assert "payload" in {change.cause for change in test.changes}


def test_a_test_is_a_document_and_needs_a_recording(robot, identified):
    document = compared(robot, identified).to_document()
    assert document["changes"] == []
    assert document["joint_names"] == list(robot.model.joint_names)
    with pytest.raises(InputError, match="no recording"):
        drift(identified, [])
