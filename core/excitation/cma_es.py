"""Covariance matrix adaptation (Hansen, *The CMA Evolution Strategy: A Tutorial*, 2016), restarted when it settles.

Candidates outside the limits are judged at the last inside point on the way to them, plus a penalty for what
was cut off.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.excitation.search import Search

Array = NDArray[np.float64]

STEP = 0.3
"""First step, as a share of the spread of a random start."""
_SETTLED = 1e-4
_CUT_PENALTY = 2.0


def search(referee: Search, warm: Sequence[Array] = ()) -> None:
    """Spend the budget; every restart begins at a random start."""
    waiting = [referee.inwards(x) for x in warm]
    while not referee.over():
        _strategy(referee, waiting.pop(0) if waiting else referee.random_start())


def _strategy(referee: Search, start: Array) -> None:
    random, size = referee.random, start.size
    count = 4 + int(3 * np.log(size))
    parents = count // 2
    weights = np.log(parents + 0.5) - np.log(np.arange(1, parents + 1))
    weights /= weights.sum()
    mass = 1.0 / float((weights**2).sum())
    c_sigma = (mass + 2.0) / (size + mass + 5.0)
    damping = 1.0 + 2.0 * max(0.0, np.sqrt((mass - 1.0) / (size + 1.0)) - 1.0) + c_sigma
    c_path = (4.0 + mass / size) / (size + 4.0 + 2.0 * mass / size)
    c_one = 2.0 / ((size + 1.3) ** 2 + mass)
    c_mu = min(1.0 - c_one, 2.0 * (mass - 2.0 + 1.0 / mass) / ((size + 2.0) ** 2 + mass))
    expected = np.sqrt(size) * (1.0 - 1.0 / (4.0 * size) + 1.0 / (21.0 * size**2))
    mean = start.ravel().copy()
    first_sigma = sigma = STEP * max(float(start.std()), 1e-6)
    covariance, basis, scale = np.eye(size), np.eye(size), np.ones(size)
    path, path_sigma = np.zeros(size), np.zeros(size)
    generation = 0
    while sigma * scale.max() > _SETTLED * first_sigma:
        generation += 1
        steps = (random.normal(size=(count, size)) * scale) @ basis.T
        fitness = np.empty(count)
        for i, step in enumerate(steps):
            if referee.over():
                return
            fitness[i] = _judge(referee, (mean + sigma * step).reshape(start.shape))
        chosen = steps[np.argsort(fitness)[:parents]]
        move = weights @ chosen
        mean += sigma * move
        path_sigma += -c_sigma * path_sigma + np.sqrt(c_sigma * (2.0 - c_sigma) * mass) * (
            basis @ ((basis.T @ move) / scale)
        )
        length = float(np.linalg.norm(path_sigma))
        stalled = length / np.sqrt(1.0 - (1.0 - c_sigma) ** (2 * generation)) / expected < 1.4 + 2.0 / (size + 1.0)
        path += -c_path * path + float(stalled) * np.sqrt(c_path * (2.0 - c_path) * mass) * move
        covariance *= 1.0 - c_one - c_mu + float(not stalled) * c_one * c_path * (2.0 - c_path)
        covariance += c_one * np.outer(path, path) + c_mu * (chosen.T * weights) @ chosen
        sigma *= float(np.exp((c_sigma / damping) * (length / expected - 1.0)))
        if generation % 5 == 0:
            values, basis = np.linalg.eigh(0.5 * (covariance + covariance.T))
            scale = np.sqrt(np.maximum(values, 1e-20))


def _judge(referee: Search, x: Array) -> float:
    step = min(1.0, 0.999 * referee.problem.linear.largest_step(referee.centre, x - referee.centre))
    inside = referee.inwards(referee.centre + step * (x - referee.centre))
    whole = float(np.linalg.norm(x - referee.centre))
    cut = float(np.linalg.norm(x - inside)) / max(whole, 1e-12)
    referee.violation = referee.problem.violation(x) if cut > 0.0 else 0.0
    referee.offer(inside)
    return referee.problem.figure(inside) + _CUT_PENALTY * cut
