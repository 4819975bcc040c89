"""Figures of merit against their definitions, and the verdict drawn from them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from core.estimators import JointFactors
from core.estimators.identifiability import Conditioning
from core.validation import (
    PredictedMotion,
    TorqueErrors,
    ValidationReport,
    judge,
    torque_sensitivity,
    validation_report,
)


def motion(name: str = "run", seed: int = 0, noise: float = 0.1, samples: int = 1000) -> PredictedMotion:
    random = np.random.default_rng(seed)
    times = 10.0 + np.arange(samples) / 100.0
    measured = np.column_stack([5.0 * np.sin(times), 2.0 + np.cos(times)])
    moving = np.column_stack([np.abs(np.cos(times)) > 0.5, np.ones(samples, bool)])
    return PredictedMotion(name, times, measured, measured + noise * random.normal(size=measured.shape), moving)


def test_figures_are_what_their_names_say():
    m = motion()
    report = validation_report([m])
    residual = m.measured - m.predicted
    moving = m.moving[:, 0]
    everything, own = report.pooled["all"], report.pooled["moving"]
    assert everything.rms == pytest.approx(np.sqrt(np.mean(residual**2, axis=0)))
    assert everything.mae == pytest.approx(np.mean(np.abs(residual), axis=0))
    assert everything.max == pytest.approx(np.abs(residual).max(axis=0))
    assert own.rms[0] == pytest.approx(np.sqrt(np.mean(residual[moving, 0] ** 2)))
    assert own.relative[0] == pytest.approx(own.rms[0] / np.sqrt(np.mean(m.measured[moving, 0] ** 2)))
    assert everything.r2 == pytest.approx(1.0 - np.mean(residual**2, axis=0) / m.measured.var(axis=0))
    assert list(own.samples + report.pooled["standing"].samples) == [1000, 1000]


def test_a_joint_that_never_stands_has_no_standing_figures():
    document = validation_report([motion()]).to_document()
    assert document["rms_standing"][1] is None
    assert document["samples_standing"][1] == 0


def test_recordings_are_pooled_and_kept_apart():
    parts = [motion("a", 1), motion("a", 2), motion("b", 3, noise=1.0, samples=500)]
    report = validation_report(parts)
    assert list(report.recordings) == ["a", "b"]
    squares = [(r["all"].rms ** 2, r["all"].samples) for r in report.recordings.values()]
    pooled = sum(s * n for s, n in squares) / sum(n for _, n in squares)
    assert report.pooled["all"].rms == pytest.approx(np.sqrt(pooled))


def test_documents_round_trip():
    report = validation_report([motion("a", 1), motion("b", 2)])
    document = json.loads(json.dumps(report.to_document(), allow_nan=False))
    assert ValidationReport.from_document(document).to_document() == document


def test_a_jolt_is_found_and_said():
    m = motion()
    m.predicted[600:606, 1] += 8.0
    (jolt,) = validation_report([m]).jolts
    assert (jolt.joint, jolt.recording) == (2, "run")
    assert jolt.start == pytest.approx(16.0)
    assert jolt.stop == pytest.approx(16.05)
    assert jolt.share > 0.9
    assert "a jolt of joint 2 at t = 16.00..16.05 s holds 9" in str(jolt)


def test_a_long_error_is_not_a_jolt():
    m = motion()
    m.predicted[200:400, 1] += 8.0
    assert validation_report([m]).jolts == ()


WELL = Conditioning(100.0, 20.0, ())
NO_TERMS = [(), ()]


def test_verdicts():
    fine, rough = validation_report([motion()]), validation_report([motion(noise=2.0)])
    assert judge(fine, fine, WELL, NO_TERMS).grade == "good"
    assert judge(fine, rough, WELL, NO_TERMS).grade == "poor"
    unproven = judge(fine, None, WELL, NO_TERMS)
    assert "is noise, which no model explains" in judge(fine, rough, WELL, NO_TERMS).advice[0]
    assert unproven.grade == "usable"
    assert "validate on a different motion" in unproven.advice
    standing = motion()
    standing.moving[:] = False
    assert judge(fine, validation_report([standing]), WELL, NO_TERMS).advice == unproven.advice
    weak = judge(fine, fine, Conditioning(3e6, 2e5, ("Ixx2", "m3")), NO_TERMS)
    assert weak.grade == "usable"
    assert "Ixx2, m3 are hardly determined" in str(weak)
    assert str(weak).startswith("usable, because on held-out motion the residual of the worst joint")


def test_a_constant_torque_has_no_r2():
    chosen = np.ones((10, 1), bool)
    errors = TorqueErrors.of(np.full((10, 1), 3.0), np.full((10, 1), 2.0), chosen)
    assert errors.rms == pytest.approx(1.0)
    assert errors.to_document()["r2"] == [None]


def test_energy_that_is_missing_shows():
    m = motion(noise=0.0)
    velocity = np.column_stack([np.cos(m.times), np.full(m.times.size, 0.5)])
    predicted = np.column_stack([m.measured[:, 0], 0.8 * m.measured[:, 1]])
    energy = validation_report([replace(m, predicted=predicted, velocity=velocity)]).energy
    assert energy.relative == pytest.approx([0.0, -0.2], abs=1e-9)
    assert energy.measured[1] == pytest.approx(np.trapezoid(m.measured[:, 1] * 0.5, m.times))
    assert validation_report([m]).energy is None


def test_residuals_with_a_memory_are_told_from_noise():
    random = np.random.default_rng(0)
    noise = random.normal(size=(4000, 2))
    noise[:, 1] = np.convolve(noise[:, 1], np.ones(30), mode="same")
    m = motion(samples=4000)
    report = validation_report([replace(m, predicted=m.measured + 0.1 * noise)])
    assert report.whiteness.white.tolist() == [True, False]
    assert report.whiteness.correlation_time[0] == pytest.approx(0.01, abs=0.01)
    assert report.whiteness.correlation_time[1] == pytest.approx(0.3, abs=0.15)
    band = validation_report([replace(m, bandwidth=5.0)]).whiteness
    assert band.spacing == pytest.approx(0.1)
    assert validation_report([motion(samples=20)]).whiteness is None


def test_verdicts_name_energy_and_memory():
    m = motion(samples=2000, noise=0.0)
    slow = 1.5 * np.sin(0.5 * m.times)[:, None]
    velocity = np.tile(np.cos(m.times)[:, None], (1, 2))
    wrong = validation_report([replace(m, predicted=0.7 * m.measured + slow, velocity=velocity)])
    verdict = judge(wrong, wrong, WELL, NO_TERMS)
    assert verdict.grade != "good"
    assert "the residuals of joints 1, 2 are not noise, they stay alike for up to" in str(verdict)
    work = 0.8 * m.measured * np.sign(m.measured * velocity)
    spent = validation_report([replace(m, predicted=m.measured - 0.1 * work, velocity=velocity)])
    assert "the work of joints 1, 2 is off by" in str(judge(spent, spent, WELL, NO_TERMS))


def test_a_good_result_does_not_hide_coloured_residuals():
    m = motion(samples=4000, noise=0.0)
    slow = 0.1 * np.column_stack([np.sin(0.5 * m.times), np.random.default_rng(0).normal(size=m.times.size)])
    report = validation_report([replace(m, predicted=m.measured + slow)])
    verdict = judge(report, report, WELL, NO_TERMS)
    assert verdict.grade == "good"
    assert "the residuals of joint 1 are not noise" in str(verdict)
    assert verdict.advice == ("try friction with load or hysteresis or warmup (joint 1)",)


@pytest.mark.parametrize(
    ("terms", "advice"),
    [
        ([("load",), ("load", "hysteresis")], "try friction with hysteresis (joint 1) or warmup (joints 1, 2)"),
        ([("load", "hysteresis", "warmup")] * 2, "the friction of joints 1, 2 has all terms that remember"),
    ],
)
def test_no_term_is_advised_that_friction_has(terms, advice):
    m = motion(samples=4000, noise=0.0)
    report = validation_report([replace(m, predicted=m.measured + 0.1 * np.sin(0.5 * m.times)[:, None])])
    (given,) = judge(report, report, WELL, terms).advice
    assert given.startswith(advice)


def test_sensitivity_is_what_a_perturbed_parameter_does():
    random = np.random.default_rng(0)
    X, phi = random.normal(size=(200, 2, 3)), np.array([5.0, 1.0, 0.0])
    y = X @ phi
    found = torque_sensitivity(JointFactors.of(X, y), phi)
    for i, share in enumerate(found):
        changed = phi.copy()
        changed[i] *= 1.01
        assert share == pytest.approx(np.linalg.norm(X @ changed - y) / np.linalg.norm(y), abs=1e-12)
