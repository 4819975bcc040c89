"""Pseudo-inertia matrices, and consistent parameters near any estimate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.dynamics.base_parameters import reduce_to_base
from core.dynamics.physical_consistency import (
    completed_prior,
    inconsistent_links,
    inertial_parameters,
    pseudo_inertia,
)
from core.errors import IdentificationError, InputError
from core.estimators import ConsistentLeastSquares, ParameterStructure, consistent_estimate
from core.models import catalogue

MODEL = catalogue("ur10e").with_rotor_inertia(np.full(6, 0.4))
BASE = reduce_to_base(MODEL)
STRUCTURE = ParameterStructure(MODEL, BASE, BASE.base_names)


def body(random: np.random.Generator, points: int = 6) -> np.ndarray:
    """The parameters of point masses anywhere: what any distribution of mass can have."""
    masses, places = random.uniform(0.1, 2.0, points), random.normal(size=(points, 3))
    homogeneous = np.column_stack([places, np.ones(points)])
    return inertial_parameters(np.einsum("k,ki,kj->ij", masses, homogeneous, homogeneous))


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_bodies_are_consistent_and_the_map_is_invertible(seed):
    parameters = body(np.random.default_rng(seed))
    assert np.linalg.eigvalsh(pseudo_inertia(parameters)).min() > 0.0
    assert inertial_parameters(pseudo_inertia(parameters)) == pytest.approx(parameters)
    assert parameters[4] < parameters[6] + parameters[9]  # the triangle inequality follows


def test_what_no_body_has_is_found():
    parameters = MODEL.inertial_parameters.copy()
    assert inconsistent_links(parameters) == []
    parameters[2, 9] *= -1.0
    parameters[4] = 0.0
    assert inconsistent_links(parameters) == [2, 4]
    with pytest.raises(InputError, match=r"expected \(..., 10\)"):
        pseudo_inertia(np.zeros(9))


def test_links_without_inertia_get_a_plausible_prior():
    parameters = MODEL.inertial_parameters.copy()
    parameters[3] = 0.0
    parameters[5, 4:] = 0.0
    completed, made_up = completed_prior(replace(MODEL, inertial_parameters=parameters))
    assert list(made_up) == [3, 5]
    assert inconsistent_links(completed) == []
    assert completed[5, :4] == pytest.approx(parameters[5, :4])
    assert completed[3, 0] > 0.0
    assert np.array_equal(completed[[0, 1, 2, 4]], parameters[[0, 1, 2, 4]])


@given(seed=st.integers(0, 10**6))
@settings(max_examples=3, deadline=None)
def test_a_consistent_truth_is_kept(seed):
    """An estimate that a real robot can have stays what it is, whatever the prior says."""
    random = np.random.default_rng(seed)
    links = MODEL.inertial_parameters * random.uniform(0.7, 1.3, (6, 1))
    truth = MODEL.with_parameters(np.append(links.ravel(), random.uniform(0.2, 0.6, 6)))
    base = BASE.project(truth.parameters)
    found = consistent_estimate(STRUCTURE, base, 1e-8 * np.eye(BASE.count))
    assert found.coef == pytest.approx(base, abs=1e-4)
    assert inconsistent_links(found.chain.inertial_parameters) == []
    assert BASE.project(found.chain.parameters) == pytest.approx(found.coef)
    assert "m1" in found.not_identified
    assert "mx2" not in found.not_identified
    states = random.uniform(-1.0, 1.0, (3, 20, 6))
    assert found.chain.inverse_dynamics(*states) == pytest.approx(truth.inverse_dynamics(*states), abs=1e-2)


def test_an_impossible_estimate_ends_on_the_border_and_says_so():
    base = BASE.project(MODEL.parameters)
    wrong = base.copy()
    wrong[BASE.base_names.index("Izz6")] = -0.05
    wrong[BASE.base_names.index("Ia4")] = -1.0
    found = consistent_estimate(STRUCTURE, wrong, 1e-8 * np.eye(BASE.count))
    assert {"link 6", "Ia4"} <= set(found.on_bound)
    assert found.chain.rotor_inertia[3] >= -1e-6
    assert inconsistent_links(found.chain.inertial_parameters) == []
    document = found.to_document()
    assert list(document["standard_parameters"]) == list(MODEL.parameter_names)


def test_friction_that_would_drive_is_bounded():
    names = (*BASE.base_names, "fv1", "b1")
    structure = ParameterStructure(MODEL, BASE, names, nonnegative=(BASE.count,))
    coef = np.append(BASE.project(MODEL.parameters), [-2.0, -2.0])
    found = consistent_estimate(structure, coef, 1e-6 * np.eye(coef.size))
    assert found.coef[-2:] == pytest.approx([0.0, -2.0], abs=1e-3)
    assert "fv1" in found.on_bound


def test_what_cannot_be_used_is_refused():
    base = BASE.project(MODEL.parameters)
    bad = MODEL.parameters.copy()
    bad[9] = -1.0
    with pytest.raises(InputError, match=r"the prior of .* belongs to no body"):
        consistent_estimate(STRUCTURE, base, np.eye(BASE.count), prior=bad)
    with pytest.raises(InputError, match="prior_deviation must be positive"):
        consistent_estimate(STRUCTURE, base, np.eye(BASE.count), prior_deviation=0.0)
    with pytest.raises(InputError, match="not positive definite"):
        consistent_estimate(STRUCTURE, base, np.zeros((BASE.count, BASE.count)))
    with pytest.raises(IdentificationError, match="need to know the robot they belong to"):
        ConsistentLeastSquares().fit(np.ones((9, 1, 1)), np.ones((9, 1)))
