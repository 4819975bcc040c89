"""The recorded UR10e: published figures are bounds, never targets that anything was tuned on."""

from __future__ import annotations

import numpy as np
import pytest

from core.dynamics.physical_consistency import inconsistent_links
from core.models import load
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.signals import SignalSettings, cut_before_stop

GAINS = (11.976, 11.976, 9.839, 10.763, 10.76, 11.33)
EXCITATIONS = ("5harm", "10harm", "30sec", "40sec", "50sec")


@pytest.fixture(scope="module")
def model(ur10e_data):
    return load(ur10e_data / "ur10e.urdf", rotor_inertia=True)


@pytest.fixture(scope="module")
def baseline(model, ur10e_window) -> Identification:
    return identify(model, [ur10e_window("30sec")], [ur10e_window("ptp")], gains=GAINS)


def test_estimation_is_no_worse_than_the_published_baseline(baseline):
    assert np.all(baseline.train.pooled["all"].rms <= [2.80, 3.98, 1.72, 0.529, 0.603, 0.470])


def test_validation_is_no_worse_than_the_published_baseline(baseline):
    assert np.all(baseline.validation.pooled["all"].rms <= [2.22, 3.15, 1.48, 0.367, 0.516, 1.53])
    assert np.all(baseline.validation.pooled["moving"].rms <= baseline.validation.pooled["all"].rms)
    assert baseline.validation.pooled["standing"].samples[5] > 1000


def test_the_parameters_are_those_of_the_baseline(baseline):
    assert baseline.base.count == 40
    assert len(baseline.names) == 58
    assert baseline.condition_number_ < 120.9
    assert baseline.verdict.grade == "good"


def test_all_excitations_reach_the_published_accuracy(model, ur10e_window):
    """Row "Coulomb + viscous, sign": training mean 1.106, point to point 1.060, both while moving."""
    train = [cut_before_stop(ur10e_window(name), 0.25) for name in EXCITATIONS]
    result = identify(model, train, [cut_before_stop(ur10e_window("ptp"), 0.25)], gains=GAINS)
    moving = result.validation.pooled["moving"].rms
    assert result.train.pooled["moving"].rms.mean() <= 1.106
    assert moving.mean() <= 1.060
    assert np.all(moving <= 1.01 * np.array([1.85, 2.60, 1.22, 0.186, 0.288, 0.211]))


def test_position_alone_will_do(model, ur10e_window):
    """Without the controller's own velocity moving samples fare nearly as well, standing ones worse."""
    settings = SignalSettings(velocity="differentiated")
    result = identify(model, [ur10e_window("30sec")], [ur10e_window("ptp")], gains=GAINS, signals=settings)
    assert np.all(result.train.pooled["all"].rms <= [2.80, 3.98, 1.72, 0.529, 0.603, 0.470])
    assert result.validation.pooled["moving"].rms.mean() < 1.07


def test_a_run_into_the_stop_is_left_out_and_said(model, ur10e_window):
    result = identify(model, [ur10e_window("10harm")], gains=GAINS)
    (said,) = [warning for warning in result.warnings if "it runs into its stop" in warning]
    assert "samples are left out of the estimate" in said
    (jolted,) = result.provenance["jolted_stops"]
    assert jolted["left_out"] < 120
    kept = identify(model, [ur10e_window("10harm")], gains=GAINS, stop_margin=0.0)
    assert any("a jolt of joint 6 at t = 386." in warning for warning in kept.warnings)
    assert np.all(result.train.pooled["all"].rms < kept.train.pooled["all"].rms)


def test_load_and_hysteresis_halve_the_error_on_what_was_left_out(model, ur10e_window):
    """Bounds of the protocol for all five recordings, 0.66 and 0.65; with fewer they are as wide as they have to be."""
    train = [ur10e_window(name) for name in ("30sec", "40sec", "50sec")]
    result = identify(
        model,
        train,
        [ur10e_window("ptp")],
        gains=GAINS,
        friction="arctan+load+hysteresis",
        cross_validate=True,
    )
    assert result.summary()["cross_validation"]["mean_rms_moving"] <= 0.66
    assert result.validation.pooled["moving"].rms.mean() <= 0.65
    assert result.undetermined_ == ()
    standing = result.validation.standing_within_friction
    assert standing[5] > 0.9
    document = result.to_document()
    assert Identification.from_document(document).friction == result.friction


def test_physically_consistent_parameters_cost_less_than_a_per_cent(model, ur10e_window, baseline):
    found = identify(model, [ur10e_window("30sec")], [ur10e_window("ptp")], gains=GAINS, estimator="consistent")
    moving = [r.validation.pooled["moving"].rms.mean() for r in (found, baseline)]
    assert moving[0] <= 1.01 * moving[1]
    robot = model.with_parameters(list(found.consistent["standard_parameters"].values()))
    assert inconsistent_links(robot.inertial_parameters) == []
    assert {"m1", "m6"} <= set(found.consistent["not_identified"])
