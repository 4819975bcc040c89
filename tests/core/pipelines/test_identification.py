"""Identification of a robot whose parameters are known."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.dynamics.physical_consistency import inconsistent_links
from core.errors import IdentificationError, InputError, RecordingError
from core.estimators import OrdinaryLeastSquares
from core.excitation import catalogue
from core.export.c_header import c_header
from core.feedforward import build_table
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.pipelines.torque_model import TorqueModel
from core.signals import SignalSettings, prepare

FRESH = np.linspace(100.0, 110.0, 500)
"""Times of a motion that no recording holds."""


@pytest.fixture(scope="module")
def result(robot) -> Identification:
    train = [robot.record(1, noise=0.5, jitter=0.4), robot.record(2, noise=0.5, jitter=0.4)]
    return identify(robot.model, train, [robot.record(3, noise=0.5, jitter=0.4)], gains=robot.gains)


def error(robot, identification: Identification, seed: int = 77) -> float:
    """RMS of predicted minus true torque on a fresh motion, relative to the torque's."""
    states = robot.motion(FRESH, seed)
    truth = robot.torque(*states)
    return float(np.sqrt(np.mean((identification.predict(*states) - truth) ** 2) / np.mean(truth**2)))


def test_the_robot_is_recovered(robot, result):
    assert result.base.count == 40
    assert len(result.names) == 58
    assert error(robot, result) < 0.01
    assert result.unit == "N·m"
    assert result.warnings == ()
    assert result.verdict.grade == "good"
    assert "not noise" not in str(result.verdict)
    assert result.validation is not None
    assert result.validation.pooled["moving"].relative.max() < 0.15
    friction = dict(zip(result.names, result.parameters_, strict=True))
    assert friction["fc1"] == pytest.approx(robot.coulomb[0], abs=0.1)
    assert friction["fv6"] == pytest.approx(robot.viscous[5], abs=0.05)
    truth = np.concatenate(
        [
            result.base.project(robot.model.parameters),
            np.column_stack([robot.coulomb, robot.viscous, robot.offset]).ravel(),
        ]
    )
    assert result.parameters_ == pytest.approx(truth, abs=0.3)


@given(exponent=st.integers(-4, 0), seed=st.integers(0, 50))
@settings(max_examples=5, deadline=None)
def test_the_error_vanishes_with_the_noise(robot, exponent, seed):
    noise = 10.0**exponent
    train = [robot.record(seed, noise=noise, seconds=20.0)]
    assert error(robot, identify(robot.model, train, gains=robot.gains)) < 0.02 * noise + 3e-4


def test_units_scale(robot):
    """Gains of 1 N·m/A give the parameters of current, in A."""
    recording = robot.record(1, noise=0.1)
    unit = robot.gains[0]
    alike = replace(recording, current=recording.current * robot.gains / unit)
    in_torque = identify(robot.model, [alike], gains=np.full(6, unit))
    in_current = identify(robot.model, [alike])
    assert (in_torque.unit, in_current.unit) == ("N·m", "A")
    assert in_torque.parameters_ == pytest.approx(unit * in_current.parameters_, rel=1e-6, abs=1e-9)
    measured = replace(recording, torque=recording.current * robot.gains)
    from_torque = identify(robot.model, [measured])
    assert from_torque.unit == "N·m"
    assert from_torque.effort.signal == "torque"
    of_model = identify(robot.model.with_drive_gains(robot.gains), [recording])
    assert of_model.parameters_ == pytest.approx(from_torque.parameters_, rel=1e-6, abs=1e-9)


def test_recordings_are_pooled_without_differences_across_their_borders(robot):
    """Halves of two motions that start anywhere: noise-free, so any jump at the border would show."""
    pieces = [robot.record(seed, seconds=12.0) for seed in (4, 5, 6)]
    pooled = identify(robot.model, pieces, gains=robot.gains)
    assert list(pooled.train.recordings) == ["motion 4", "motion 5", "motion 6"]
    assert pooled.train.pooled["all"].max.max() < 0.35  # what the filtered sign leaves at reversals
    assert error(robot, pooled) < 1e-3


def test_fast_recordings_take_the_same_way(robot):
    fast = identify(robot.model, [robot.record(1, rate=500.0, seconds=20.0, noise=0.5)], gains=robot.gains)
    assert error(robot, fast) < 0.01
    assert fast.provenance["preparation"][0]["decimation"] == 5


def test_more_rows_of_the_same_filtered_signal_are_no_more_certain(robot):
    recording = robot.record(1, rate=500.0, seconds=20.0, noise=0.5)
    coarse, fine = (
        identify(robot.model, [recording], gains=robot.gains, signals=SignalSettings(rate=rate))
        for rate in (100.0, 500.0)
    )
    ratio = np.sqrt(np.diag(fine.covariance_) / np.diag(coarse.covariance_))
    assert 0.9 < np.median(ratio) < 1.1


def test_estimators_and_settings_are_the_callers_choice(robot):
    chosen = SignalSettings(torque_cutoff=8.0)
    result = identify(
        robot.model, [robot.record(1)], gains=robot.gains, estimator=OrdinaryLeastSquares(), signals=chosen
    )
    document = result.to_document()
    assert document["estimator"] == {"name": "OrdinaryLeastSquares", "params": {}}
    assert document["signals"]["torque_cutoff"] == 8.0


def test_documents_stand_alone(robot, result):
    text = json.dumps(result.to_document(), allow_nan=False)
    again = Identification.from_document(json.loads(text))
    assert json.dumps(again.to_document(), allow_nan=False) == text
    states = robot.motion(FRESH, 5)
    assert np.array_equal(again.predict(*states), result.predict(*states))
    recording = robot.record(8, noise=0.5)
    assert again.validate([recording]).to_document() == result.validate([recording]).to_document()


def test_documents_of_another_kind_are_refused(result):
    with pytest.raises(InputError, match="not an identification"):
        Identification.from_document({"kind": "serial-chain", "version": 1})
    document = result.to_document()
    del document["covariance"]
    with pytest.raises(InputError, match="'covariance' is missing"):
        Identification.from_document(document)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("parameters", 0), float("nan"), "parameters holds a value that is no finite number"),
        (("parameters", 0), None, "parameters holds a value that is no finite number"),
        (("parameters", 0), "heavy", "could not convert"),
        (("parameters",), [1.0, 2.0], "parameters has shape (2,), expected (58,)"),
        (("covariance", 3, 3), -1.0, "covariance has a negative variance"),
        (("residual_std",), 3, "residual_std has shape (), expected (6,)"),
        (("base", "independent", 0), 999, "damaged identification"),
        (("base",), None, "damaged identification"),
        (("friction",), 7, "damaged identification"),
        (("train",), None, "damaged identification"),
        (("model",), "ur10e", "damaged identification"),
        (("model",), None, "damaged identification"),
        (("provenance",), None, "damaged identification"),
        (("provenance", "model_digest"), "0123", "the model is not the one that was identified"),
    ],
)
def test_damaged_documents_are_refused(result, where, value, message):
    document = json.loads(json.dumps(result.to_document()))
    place = document
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        Identification.from_document(document)
    assert refused.value.code == "document-damaged"


def test_friction_that_drives_makes_a_result_poor_and_of_no_use_for_control(robot):
    """Position and velocity with the wrong sign: as good a fit as any, and a feedforward that feeds energy in."""
    mirrored = [
        replace(recording, q=-recording.q, qd=-recording.qd) for recording in (robot.record(1), robot.record(2))
    ]
    wrong = identify(robot.model, mirrored[:1], mirrored[1:], gains=robot.gains)
    assert wrong.driven_by_friction == tuple(range(6))
    assert wrong.verdict.grade == "poor"
    assert "the friction of joints 1, 2, 3, 4, 5, 6 drives instead of braking" in wrong.verdict.because
    assert "check the signs" in wrong.verdict.advice[0]
    for use in (c_header, lambda result: build_table(result, catalogue("ur10e_validation").sample(0.01))):
        with pytest.raises(IdentificationError, match="drives it instead of braking") as refused:
            use(wrong)
        assert refused.value.code == "friction-drives"


def test_the_summary_has_what_programs_look_for(result):
    summary = result.summary()
    assert len(summary["base_parameters"]) == 40
    assert set(summary["base_parameters"][0]) == {"name", "value", "relative_std", "relation"}
    assert len(summary["friction_parameters"]) == 18
    assert summary["condition_number"] > 1.0
    assert len(summary["train"]["rms"]) == len(summary["train"]["relative"]) == 6
    assert len(summary["validate"]["rms_all"]) == len(summary["validate"]["rms_moving"]) == 6


def test_provenance_says_where_a_result_comes_from(robot, result):
    provenance = result.provenance
    assert [entry["name"] for entry in provenance["train"]] == ["motion 1", "motion 2"]
    assert provenance["model_digest"] == robot.model.digest()
    assert set(provenance["software"]) == {"python", "dynid", "numpy", "scipy", "numba"}
    assert provenance["rows"] == sum(s["rows"] for a in provenance["preparation"] for s in a["segments"])


def test_progress_is_told_and_may_stop_the_computation(robot):
    told: list[tuple[str, float]] = []
    recordings = [robot.record(1, seconds=10.0)]
    identify(robot.model, recordings, recordings, gains=robot.gains, progress=lambda phase, f: told.append((phase, f)))
    phases = list(dict.fromkeys(phase for phase, _ in told))
    assert phases == ["preparing signals", "reading motion", "estimating", "validating"]
    for phase in phases:
        fractions = [f for p, f in told if p == phase]
        assert fractions == sorted(fractions)
        assert fractions[-1] == 1.0

    def stop(phase: str, fraction: float) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        identify(robot.model, recordings, gains=robot.gains, progress=stop)


def test_smooth_prediction_does_not_jump_at_reversals(robot, result):
    t = np.linspace(0.0, 1.0, 501)
    q = 0.3 * np.cos(2 * np.pi * t)[:, None] * np.ones(6)
    qd = -0.6 * np.pi * np.sin(2 * np.pi * t)[:, None] * np.ones(6)
    qdd = -1.2 * np.pi**2 * np.cos(2 * np.pi * t)[:, None] * np.ones(6)
    steps = [np.abs(np.diff(result.predict(q, qd, qdd, smooth=s)[:, 0])).max() for s in (False, True)]
    assert steps[1] < 0.5 * steps[0]


def test_a_joint_that_stands_is_named(robot):
    recording = robot.record(1)
    still = replace(
        recording,
        q=recording.q * [1, 1, 0, 1, 1, 1],
        qd=recording.qd * [1, 1, 0, 1, 1, 1],
    )
    with pytest.raises(IdentificationError, match=f"{robot.model.joint_names[2]} never move faster") as refusal:
        identify(robot.model, [still], gains=robot.gains)
    assert refusal.value.code == "too-little-motion"


def test_parameters_that_the_motion_does_not_excite_are_named(robot):
    """All joints moving alike on one line of their space: many parameters act the same way."""
    recording = robot.record(1)
    t = recording.t
    q = np.sin(0.5 * t)[:, None] * np.ones(6)
    poor = replace(recording, q=q, qd=0.5 * np.cos(0.5 * t)[:, None] * np.ones(6))
    with pytest.raises(IdentificationError, match="cannot be told apart by these data") as refusal:
        identify(robot.model, [poor], gains=robot.gains)
    assert refusal.value.code == "rank-deficient"
    assert "Izz2" in refusal.value.context["parameters"]


def test_a_high_condition_number_is_a_warning_with_names(robot):
    recording = robot.record(1, seconds=4.0, noise=0.5)
    slow = SignalSettings(torque_cutoff=3.0, kinematic_cutoff=3.0)
    result = identify(robot.model, [recording], gains=robot.gains, signals=slow)
    assert result.condition_number_ > 1e4
    assert result.undetermined_
    assert f"{', '.join(result.undetermined_)} are hardly determined" in result.warnings[0]
    assert result.verdict.grade != "good"


def test_what_does_not_fit_is_refused(robot):
    recording = robot.record(1, seconds=5.0)
    with pytest.raises(InputError, match="no recording to estimate from"):
        identify(robot.model, [], gains=robot.gains)
    with pytest.raises(InputError, match="6 positive numbers"):
        identify(robot.model, [recording], gains=[1.0, 2.0])
    with pytest.raises(InputError, match="random_state must be a number from 0 on, got -1"):
        identify(robot.model, [recording], gains=robot.gains, random_state=-1)
    with pytest.raises(InputError, match="gains must be numbers"):
        identify(robot.model, [recording], gains="guess")
    with pytest.raises(IdentificationError, match="target torque or target current is missing"):
        identify(robot.model, [recording], gains="from-recording")
    with pytest.raises(IdentificationError, match="there is no current in it"):
        identify(robot.model, [replace(recording, current=None)], gains=robot.gains)
    two = replace(recording, q=recording.q[:, :2], qd=recording.qd[:, :2], current=recording.current[:, :2])
    with pytest.raises(InputError, match=r"it is of 2 joints, .* has 6"):
        identify(robot.model, [two], gains=robot.gains)
    with pytest.raises(RecordingError, match="no uninterrupted part"):
        identify(robot.model, [recording.rows(1, 40)], gains=robot.gains)


def test_shapes_of_predictions_are_checked(result):
    with pytest.raises(InputError, match=r"qdd has shape \(3, 6\), expected \(4, 6\)"):
        result.predict(np.zeros((4, 6)), np.zeros((4, 6)), np.zeros((3, 6)))


def test_blocks_of_a_regressor_are_filtered_as_if_it_were_whole(robot, result):
    recording = robot.record(1, seconds=50.0)
    (segment,) = prepare(recording, recording.current, SignalSettings()).segments
    model = TorqueModel(robot.model, result.base, result.friction)
    blocks = list(model.observations(segment))
    assert len(blocks) > 1
    motion = segment.motion
    whole = model.base.columns(robot.model.regressor(motion.q, motion.qd, motion.qdd))
    whole = segment.low_pass.apply(whole)[segment.rows]
    columns = np.concatenate([block for block, _ in blocks])
    np.testing.assert_allclose(columns[..., : model.base.count], whole, rtol=0.0, atol=1e-8)
    predicted = model.predict(segment, result.parameters_)
    np.testing.assert_allclose(predicted, columns @ result.parameters_, rtol=0.0, atol=1e-7)


def test_what_the_data_call_for_is_kept(robot, result):
    essential = result.essential_parameters()
    assert {"fc1", "fv1", "fc6", "mx2", "mx3"} <= set(essential.kept)
    assert 0 < len(essential.dropped) < 30
    weak = [result.sensitivity_[result.names.index(name)] for name in essential.dropped]
    assert np.median(weak) < 0.1 * np.median(result.sensitivity_)


@pytest.mark.parametrize("name", ["ols", "irls", "huber", "tls", "iv", "recursive", "sequential", "consistent"])
def test_every_estimator_identifies_the_robot(robot, name):
    recording = robot.record(1, noise=0.2, seconds=20.0)
    found = identify(robot.model, [recording], gains=robot.gains, estimator=name)
    assert error(robot, found) < 0.02
    if name == "consistent":
        chain = robot.model.with_parameters(list(found.consistent["standard_parameters"].values()))
        assert chain.rotor_inertia.min() >= 0.0
        assert inconsistent_links(chain.inertial_parameters) == []
        assert found.base.project(chain.parameters) == pytest.approx(found.parameters_[: found.base.count])
        assert "m1" in found.consistent["not_identified"]
        assert any("follow the prior" in warning for warning in found.warnings)
        again = Identification.from_document(json.loads(json.dumps(found.to_document())))
        assert again.consistent == found.consistent


def test_the_confidence_band_of_a_report_averages_that_of_its_motion(robot, result):
    for report, seeds in ((result.train, (1, 2)), (result.validation, (3,))):
        recordings = [robot.record(seed, noise=0.5, jitter=0.4) for seed in seeds]
        segments = [s for r in recordings for s in prepare(r, r.current * robot.gains, result.signals).segments]
        squares = [result.predict_std(s.motion.q, s.motion.qd, s.motion.qdd)[s.rows] ** 2 for s in segments]
        expected = 1.96 * np.sqrt(np.mean(np.concatenate(squares), axis=0))
        assert report.confidence_band == pytest.approx(expected, rel=0.05)
        assert report.to_document()["confidence_band"] == report.confidence_band.tolist()
        assert np.all(report.confidence_band < 1.96 * result.residual_std_)


def test_preferred_parameters_come_first(robot):
    found = identify(robot.model, [robot.record(1, seconds=10.0)], gains=robot.gains, preferred=("Izz3", "mx6"))
    assert found.names[:2] == ("Izz3", "mx6")
    assert found.base.relations[0].startswith("Izz3")
    with pytest.raises(InputError, match="there is no parameter 'Ixx9'"):
        identify(robot.model, [robot.record(1, seconds=10.0)], gains=robot.gains, preferred=("Ixx9",))


def test_a_delay_of_the_torque_shows_in_the_provenance(robot):
    recording = robot.record(1, noise=0.1)
    late = replace(recording, current=robot.torque(*robot.motion(recording.t - 0.008, 1)) / robot.gains)
    found = identify(robot.model, [late], gains=robot.gains).provenance["effort_delay"]
    assert np.median(found["seconds"]) == pytest.approx(0.008, abs=0.004)


def test_the_random_state_is_that_of_the_search_for_shapes(robot, monkeypatch):
    """One seed gives the same digits; robot and base parameters are drawn with seeds of their own."""
    seeds: list[int] = []
    generator = np.random.default_rng

    def spy(seed: int) -> np.random.Generator:
        seeds.append(seed)
        return generator(seed)

    recording = robot.record(1, seconds=10.0, noise=0.5)
    monkeypatch.setattr("core.pipelines.friction_shapes.np.random.default_rng", spy)
    found = [
        identify(robot.model, [recording], gains=robot.gains, friction="arctan", random_state=seed)
        for seed in (31, 31, 41)
    ]
    assert [seed for seed in seeds if seed in (31, 41)] == [31, 31, 41]
    assert np.array_equal(found[0].parameters_, found[1].parameters_)
    assert [one.provenance["random_state"] for one in found] == [31, 31, 41]


def test_a_parameter_that_is_zero_and_known_to_be_is_not_called_unknown(robot, result):
    """Of a model whose links are symmetric: no product of inertia has a size of its own to compare with."""
    diagonal = robot.model.inertial_parameters * [1, 1, 1, 1, 1, 0, 1, 0, 0, 1]
    symmetric = replace(robot.model, inertial_parameters=diagonal)
    assert replace(result, model=symmetric).not_identifiable == {}
    vague = replace(result, covariance_=1e8 * result.covariance_)
    assert "Izz6" in vague.not_identifiable
    assert any("leave them out by without (--without " in warning for warning in vague.warnings)
    massless = replace(robot.model, inertial_parameters=np.zeros((6, 10)), rotor_inertia=np.zeros(6))
    assert replace(vague, model=massless).not_identifiable == {}
