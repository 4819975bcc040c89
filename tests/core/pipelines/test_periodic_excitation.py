"""Repeated excitation of a three-joint arm the way of the methods' source C, by settings alone."""

from __future__ import annotations

import numpy as np
import pytest

from core.models import catalogue
from core.pipelines.identify import identify
from core.recordings import Recording
from core.signals import SignalSettings

PERIOD = 10.0


def recorded(noise: float) -> Recording:
    """Six periods of a Fourier series of order five, position and torque only."""
    rng = np.random.default_rng(2)
    chain = catalogue("three_joint")
    t = np.arange(int(6.3 * PERIOD * 100)) / 100.0
    harmonics = 2.0 * np.pi / PERIOD * np.arange(1, 6)
    size, phase = rng.uniform(0.08, 0.25, (3, 5)), rng.uniform(0.0, 6.0, (3, 5))
    angle = t[:, None, None] * harmonics + phase
    q, qd = (size * np.sin(angle)).sum(axis=-1), (size * harmonics * np.cos(angle)).sum(axis=-1)
    qdd = -(size * harmonics**2 * np.sin(angle)).sum(axis=-1)
    torque = chain.inverse_dynamics(q, qd, qdd) + 4.0 * np.sign(qd) + 6.0 * qd
    return Recording(
        "six periods",
        t,
        q + 1e-4 * rng.normal(size=q.shape),
        torque=torque + noise * rng.normal(size=q.shape),
        joint_names=chain.joint_names,
    )


def test_averaging_refitting_and_smoothing_recover_the_arm():
    chain = catalogue("three_joint").with_drive_gains(None)
    settings = SignalSettings(
        period=PERIOD, periods="averaged", kinematics="fourier", torque_filter="five_point_cubic", smoothing_passes=100
    )
    result = identify(chain, [recorded(noise=2.0)], signals=settings)
    values = dict(zip(result.names, result.parameters_, strict=True))
    assert values["fc1"] == pytest.approx(4.0, abs=0.3)
    assert values["fv3"] == pytest.approx(6.0, abs=0.5)
    (account,) = result.provenance["preparation"]
    (segment,) = account["segments"]
    assert segment["rows"] == 1000
    assert segment["periods"]["count"] == 6
    # the noise floor that the account tells is that of one period; the residual is that of their mean
    floor = np.array(segment["periods"]["effort_rms_spread"])
    assert floor == pytest.approx(2.0, rel=0.1)
    assert np.all(np.array(result.to_document()["train"]["rms"]) < 0.5 * floor)
    q, qd, qdd = np.random.default_rng(0).uniform(-0.5, 0.5, (3, 50, 3))
    truth = chain.inverse_dynamics(q, qd, qdd) + 4.0 * np.sign(qd) + 6.0 * qd
    assert np.sqrt(np.mean((result.predict(q, qd, qdd) - truth) ** 2)) < 0.05 * np.sqrt(np.mean(truth**2))
