"""Samples that are odd, missing or left out are counted where a user looks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from core.pipelines.identify import identify
from core.pipelines.sample_account import account_of_samples
from core.recordings.recording import Recording
from core.signals import SignalSettings


def with_faults(recording: Recording) -> Recording:
    """Two outlying currents, three samples missing, and a gap of a second."""
    current = recording.current.copy()
    current[[300, 900], 1] += 300.0
    kept = np.ones(recording.t.size, dtype=bool)
    kept[[500, 600, 700]] = False
    kept[1200:1300] = False
    signals = {"q": recording.q, "qd": recording.qd, "current": current}
    return replace(recording, t=recording.t[kept], **{name: value[kept] for name, value in signals.items()})


def test_faults_are_counted_for_training_and_held_out_data(robot):
    train, held_out = with_faults(robot.record(1, noise=0.5)), with_faults(robot.record(2, noise=0.5))
    result = identify(robot.model, [train], [held_out], gains=robot.gains)
    told = [warning for warning in result.warnings if "samples:" in warning]
    groups = (("training data", "preparation"), ("held-out data", "validation_preparation"))
    for sentence, (which, key) in zip(told, groups, strict=True):
        odd = result.provenance[key][0]["marked"]["samples"]
        assert odd >= 2
        assert sentence == (
            f"{which}, 2897 samples: 103 missing; {odd} outlying or frozen, used as they are (signals with "
            "marked=leave_out do without); 1 gap, never filtered across"
        )
    leaving = SignalSettings(marked="leave_out")
    without = identify(robot.model, [train], gains=robot.gains, signals=leaving)
    (told_without,) = [warning for warning in without.warnings if "samples:" in warning]
    left_out = without.provenance["preparation"][0]["marked"]["rows_left_out"]
    assert left_out > 2
    assert f"outlying or frozen, left out with {left_out} rows beside them" in told_without


def test_what_a_repair_dropped_is_counted_and_a_whole_recording_says_nothing():
    account = {"samples": 100, "lost": 0, "marked": {"treatment": "ignore"}, "gaps": []}
    account["samples_in_dropped_segments"] = []
    assert account_of_samples("training data", [{}], [account]) == ""
    repaired = {"repairs": {"rows_dropped": [3, 4, 101]}}
    assert account_of_samples("training data", [repaired], [account | {"samples_in_dropped_segments": [7, 5]}]) == (
        "training data, 100 samples: 3 torn, misordered or not finite, dropped by the repair; 12 left out in pieces "
        "too short to filter"
    )
