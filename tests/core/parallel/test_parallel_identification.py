"""The pipeline of serial arms, on recordings of leg lengths and sensor forces."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from core.models import SixUPRU
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.recordings import Recording

FILES = Path(__file__).parents[2] / "data" / "upru"


def recorded(name: str, noise: float) -> Recording:
    """Forces of the multibody engine, with noise in N."""
    with np.load(FILES / f"{name}.npz") as data:
        force = data["f_sensor"] + np.random.default_rng(0).normal(0.0, noise, (1001, 6))
        return Recording(name, data["t"], data["l"], data["ld"], torque=force)


def test_forces_on_another_trajectory_are_predicted(upru: SixUPRU) -> None:
    noise = 2.2  # one per cent of the forces; neither trajectory was designed to excite anything
    found = identify(upru, [recorded("A_fourier", noise)], [recorded("A_cos", 0.0)])
    assert found.unit == "N"
    assert found.base.base_names == upru.base_parameter_names
    assert found.validation is not None
    assert max(found.validation.to_document()["rms_all"]) < 0.5
    again = Identification.from_document(json.loads(json.dumps(found.to_document())))
    assert again.model == upru
    with np.load(FILES / "A_cos.npz") as data:
        predicted = again.predict(data["l"], data["ld"], data["ldd"], period=0.01)
        assert np.sqrt(np.mean((predicted - data["f_sensor"]) ** 2)) < 0.4
