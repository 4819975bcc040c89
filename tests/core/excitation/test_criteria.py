"""Criteria: exact values by their definitions, smoothed ones near them, gradients by differences."""

from __future__ import annotations

import numpy as np
import pytest

from core.excitation.columns import ObservationColumns
from core.excitation.criteria import CRITERIA, Criterion, WeightedBlocks, block_weights
from core.models import catalogue

RNG = np.random.default_rng(0)
W = RNG.normal(size=(60, 8)) * np.geomspace(1.0, 30.0, 8)
GRAVITY = np.arange(8) < 3
BLOCKS = WeightedBlocks(GRAVITY, 0.3, 0.7)


def normalised(matrix: np.ndarray) -> np.ndarray:
    return matrix / np.linalg.norm(matrix, axis=0)


@pytest.mark.parametrize("criterion", [*(make() for make in CRITERIA.values()), BLOCKS], ids=lambda c: c.name)
def test_gradient_matches_differences(criterion: Criterion) -> None:
    information = W.T @ W
    direction = RNG.normal(size=(8, 8))
    direction = (direction + direction.T) * np.sqrt(np.outer(np.diag(information), np.diag(information))) / 100
    for sharpness in (2.0, 30.0):
        _, gradient = criterion.smooth(information, sharpness)
        np.testing.assert_allclose(gradient, gradient.T, rtol=1e-6, atol=1e-9)
        up, down = (criterion.smooth(information + h * direction, sharpness)[0] for h in (1e-5, -1e-5))
        assert (gradient * direction).sum() == pytest.approx((up - down) / 2e-5, rel=1e-5)


def test_values_are_those_of_the_definitions() -> None:
    information = W.T @ W
    value = {name: make().value(information) for name, make in CRITERIA.items()}
    assert value["cond"] == pytest.approx(np.linalg.cond(W))
    assert value["cond_normalised"] == pytest.approx(np.linalg.cond(normalised(W)))
    assert value["d_optimal"] == pytest.approx(-np.linalg.slogdet(information)[1] / 8)
    assert value["a_optimal"] == pytest.approx(np.trace(np.linalg.inv(information)))
    H = normalised(W)
    blocks = np.linalg.cond(H), np.linalg.cond(H[:, GRAVITY]), np.linalg.cond(H[:, ~GRAVITY])
    assert BLOCKS.value(information) == pytest.approx(np.dot([1.0, 0.3, 0.7], blocks))


def test_smoothing_sharpens_to_the_exact_value() -> None:
    information = W.T @ W
    for make in (CRITERIA["cond"], CRITERIA["cond_normalised"], lambda: BLOCKS):
        criterion = make()
        smooth, _ = criterion.smooth(information, 1e4)
        assert np.exp(smooth) == pytest.approx(criterion.value(information), rel=1e-3)


def test_a_motion_that_excites_nothing_is_infinitely_bad() -> None:
    assert CRITERIA["cond"]().value(np.zeros((4, 4))) == np.inf


def test_weights_of_the_two_blocks_are_shares() -> None:
    w1, w2 = block_weights(W, GRAVITY)
    assert w1 + w2 == pytest.approx(1.0)
    assert 0.0 < w1 < 1.0


def test_gravity_dependent_columns_are_those_felt_at_rest() -> None:
    columns = ObservationColumns(catalogue("ur10e"), "coulomb_viscous")
    felt = {name for name, gravity in zip(columns.names, columns.gravity_dependent, strict=True) if gravity}
    assert columns.count == 36 + 18
    assert felt
    assert all(name.startswith(("m", "mx", "my", "mz")) for name in felt)


def test_a_singular_matrix_is_very_bad_but_has_a_gradient() -> None:
    """Random starts may leave a direction out: a search has to find its way from there."""
    lacking = W[:, :-1] @ W[:, :-1].T  # rank 7 of 60
    value, gradient = CRITERIA["cond"]().smooth(lacking, 16.0)
    assert np.exp(value) > 1e5
    assert np.all(np.isfinite(gradient))


def test_a_row_sees_the_links_beyond_its_joint_and_its_own_friction() -> None:
    columns = ObservationColumns(catalogue("ur10e", rotor_inertia=True), "coulomb_viscous")
    q, qd, qdd = np.random.default_rng(5).normal(size=(3, 40, 6))
    W = columns.matrix((q, qd, qdd)).reshape(40, 6, -1)
    assert not W[:, ~columns.seen].any()
    assert 0.2 < columns.seen.mean() < 0.5
    last = {name for name, seen in zip(columns.names, columns.seen[5], strict=True) if seen}
    assert all(name.endswith("6") for name in last)
