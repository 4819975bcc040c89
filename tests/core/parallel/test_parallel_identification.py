"""The pipeline of serial arms, on recordings of leg lengths and sensor forces."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from core.errors import InputError
from core.models import SixUPRU
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.recordings import Recording
from core.signals import SignalSettings

FILES = Path(__file__).parents[2] / "data" / "upru"
NOISE = 2.2  # N, one per cent of the forces; neither trajectory was designed to excite anything
AXIAL = ["Ia1", "Ia2+Ia3+Ia4"]


def recorded(name: str, noise: float, periods: int = 1) -> Recording:
    """Forces of the multibody engine, with noise in N."""
    with np.load(FILES / f"{name}.npz") as data:
        if periods == 1:
            t, lengths, rates, force = data["t"], data["l"], data["ld"], data["f_sensor"]
        else:
            lengths, rates, force = (np.tile(data[s][:-1], (periods, 1)) for s in ("l", "ld", "f_sensor"))
            t = 0.01 * np.arange(len(lengths))
        scatter = np.random.default_rng(0).normal(0.0, noise, force.shape)
        return Recording(name, t, lengths, rates, torque=force + scatter)


def error_on_another(result: Identification) -> float:
    """RMS in N of predicted forces along the other trajectory."""
    with np.load(FILES / "A_cos.npz") as data:
        predicted = result.predict(data["l"], data["ld"], data["ldd"], period=0.01)
        return float(np.sqrt(np.mean((predicted - data["f_sensor"]) ** 2)))


def test_forces_on_another_trajectory_are_predicted(upru: SixUPRU) -> None:
    found = identify(upru, [recorded("A_fourier", NOISE)], [recorded("A_cos", 0.0)], friction="none")
    assert found.unit == "N"
    assert found.base.base_names == found.names == upru.base_parameter_names
    assert found.verdict.grade == "good"
    again = Identification.from_document(json.loads(json.dumps(found.to_document())))
    assert again.model == upru
    assert error_on_another(again) < 0.2


def test_what_the_data_do_not_tell_is_named_and_can_be_left_out(upru: SixUPRU) -> None:
    train = [recorded("A_fourier", NOISE)]
    found = identify(upru, train, friction="offset")
    assert list(found.not_identifiable) == AXIAL
    assert min(found.not_identifiable.values()) > 10.0  # more than 1000 %
    assert "--without Ia1 Ia2+Ia3+Ia4" in found.warnings[0]
    rest = identify(upru, train, friction="none", without=AXIAL)
    assert rest.base.count == len(rest.names) == 15
    assert not rest.not_identifiable
    assert error_on_another(rest) < 0.2
    again = Identification.from_document(json.loads(json.dumps(rest.to_document())))
    assert again.names == rest.names
    assert again.provenance["without"] == AXIAL
    with pytest.raises(InputError, match="mp cannot be left out; base parameters are Ia1, "):
        identify(upru, train, without=["mp"])


def test_tares_come_out_as_offsets(upru: SixUPRU) -> None:
    tare = np.array([3.0, -2.0, 1.0, 0.0, 8.0, -5.0])
    clean = recorded("A_fourier", 0.0)
    assert clean.torque is not None
    found = identify(upru, [replace(clean, torque=clean.torque + tare)], friction="offset")
    np.testing.assert_allclose(found.parameters_[17:], tare, atol=0.01)


def test_ten_repeats_are_better_than_one(upru: SixUPRU) -> None:
    settings = SignalSettings(period=10.0, periods="averaged")
    train = [recorded("A_fourier", NOISE, periods=10)]
    found = identify(upru, train, friction="none", signals=settings, without=AXIAL)
    assert error_on_another(found) < 0.08
    # a result of one repeat is as uncertain as the root of ten says
    one = identify(upru, [recorded("A_fourier", NOISE)], friction="none", without=AXIAL)
    share = np.sqrt(np.diag(one.covariance_) / np.diag(found.covariance_))
    assert 2.0 < np.median(share) < 5.0
