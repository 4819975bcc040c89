"""Identified robots for other programs: what comes out is the identified robot."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import mujoco
import numpy as np
import pinocchio
import pytest

from core.dynamics.base_parameters import random_states
from core.errors import InputError
from core.export import FORMATS, export
from core.models.model_file import parse_model_file
from core.models.urdf import parse_urdf
from core.pipelines.identification import Identification
from core.pipelines.identify import identify


@pytest.fixture(scope="module")
def result(robot) -> Identification:
    train = [robot.record(seed, seconds=20.0, noise=0.5) for seed in (1, 2)]
    poor_prior = robot.model.with_parameters(np.append(1.3 * robot.model.inertial_parameters.ravel(), np.ones(6)))
    return identify(poor_prior, train, gains=robot.gains)


def test_urdf_of_a_result_is_the_identified_robot(robot, result):
    text, notes = export(result, "urdf")
    chain = parse_urdf(text.encode(), "out.urdf")
    rotors = np.array([float(x) for x in text.partition("for armature: ")[2].partition(" -->")[0].split()])
    motion = robot.motion(np.linspace(0.0, 20.0, 200), 5)
    truth = robot.model.inverse_dynamics(*motion)
    got = chain.with_rotor_inertia(rotors).inverse_dynamics(*motion)
    assert np.sqrt(np.mean((got - truth) ** 2)) < 0.01 * np.sqrt(np.mean(truth**2))
    assert "not identified, as the prior has them: m1" in text
    assert all(f"<!-- {note} -->" in text for note in notes)
    assert pinocchio.buildModelFromXML(text).nv == 6
    assert mujoco.MjModel.from_xml_string(text).nv == 6
    model_file = parse_model_file(export(result, "toml").text.encode(), "out.toml")
    assert model_file.inverse_dynamics(*motion) == pytest.approx(got, rel=1e-9, abs=1e-9)
    assert model_file.rotor_inertia == pytest.approx(rotors)


def test_a_consistent_estimate_is_exported_as_it_is(robot):
    found = identify(robot.model, [robot.record(1, noise=0.5)], gains=robot.gains, estimator="consistent")
    chain = parse_model_file(export(found, "toml").text.encode(), "out.toml")
    assert found.base.project(chain.parameters) == pytest.approx(found.parameters_[: found.base.count], abs=1e-9)
    assert "# torque without friction is exactly as identified" in export(found, "toml").text


def test_a_deviation_from_what_was_identified_is_told_and_refused_where_it_matters(robot, result):
    """An inertia that no body has: the nearest bodies turn the wrist with another torque."""
    impossible = result.parameters_.copy()
    impossible[result.names.index("Izz6")] -= 1.0
    wrong = replace(result, parameters_=impossible)
    with pytest.raises(InputError, match=r"joint 6 by .* RMS, where .* may pass\. Identify with the") as refusal:
        export(wrong, "urdf")
    assert refusal.value.code == "deviation-too-large"
    rms = refusal.value.context["rms"]
    with pytest.raises(InputError, match=f"where {0.5 * rms[5]:.3g} may pass"):
        export(wrong, "urdf", allow_deviation=0.5 * rms[5])
    for format, read in (("urdf", parse_urdf), ("toml", parse_model_file)):
        text, notes = export(wrong, format, allow_deviation=1.01 * max(rms))
        assert f"by {' '.join(f'{value:.3g}' for value in rms)} N·m RMS" in text
        assert f"by {' '.join(f'{value:.3g}' for value in rms)} N·m RMS" in notes[1]
        chain = read(text.encode(), "out")
    motion = random_states(chain, 2000, 9)
    identified = wrong.base.columns(chain.regressor(*motion)) @ impossible[: wrong.base.count]
    off = np.sqrt(np.mean((chain.inverse_dynamics(*motion) - identified) ** 2, axis=0))
    assert off == pytest.approx(rms, rel=0.15)
    with pytest.raises(InputError, match="as csv a result is exactly as identified"):
        export(wrong, "csv", allow_deviation=1.0)


def test_tables_and_documents_hold_the_parameters(result):
    rows = list(csv.DictReader(io.StringIO(export(result, "csv").text)))
    assert [row["name"] for row in rows] == list(result.names)
    assert [float(row["value"]) for row in rows] == result.parameters_.tolist()
    assert rows[0]["relation"] == result.base.relations[0]
    assert rows[-1]["kind"] == "friction"
    again = Identification.from_document(json.loads(export(result, "json").text))
    assert np.array_equal(again.parameters_, result.parameters_)
    assert "static inline void ur10e_torque(" in export(result, "c").text


def test_what_cannot_be_exported_is_refused(robot, result):
    with pytest.raises(InputError, match="cannot be exported as 'pickle'; there are json, csv") as refusal:
        export(result, "pickle")
    assert refusal.value.code == "export-format-unknown"
    assert "pickle" not in FORMATS
    in_current = identify(robot.model, [robot.record(1, seconds=10.0)])
    with pytest.raises(InputError, match="the result is in A") as refusal:
        export(in_current, "urdf")
    assert refusal.value.code == "unit-not-torque"
