"""The UR10e source's genetic algorithm: crossover, mutation, (mu + lambda) survival, adaptive penalty.

    fitness = criterion + g,  g = A (1 - r / r_total)^B,  g = 0 where all constraints hold,

with r the number of constraints that hold: one per joint and derivative, one per margin that is not linear.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.excitation.search import Search

Array = NDArray[np.float64]

POPULATION = 60
CROSSOVER_RATE = 0.9
MUTATION_RATE = 0.08
PENALTY = 2000.0  # A
EXPONENT = 0.5  # B


def search(referee: Search, warm: Sequence[Array] = ()) -> None:
    """Spend the budget on generations."""
    random = referee.random
    population = [*warm, *(referee.random_start() for _ in range(POPULATION - len(warm)))]
    fitness = [_fitness(referee, x) for x in population]
    while not referee.over():
        children: list[Array] = []
        spread = np.std(population, axis=0)  # of each coefficient: it shrinks as the population gathers
        while len(children) < POPULATION:
            mother, father = (population[_tournament(random, fitness)] for _ in range(2))
            child = mother.copy()
            if random.random() < CROSSOVER_RATE:
                share = random.uniform(-0.25, 1.25, size=mother.shape)
                child = share * mother + (1.0 - share) * father
            mutated = random.random(size=child.shape) < MUTATION_RATE
            child[mutated] += spread[mutated] * random.standard_cauchy(size=int(mutated.sum())).clip(-3.0, 3.0)
            children.append(child)
            if referee.over():
                break
            fitness.append(_fitness(referee, child))
        population += children[: len(fitness) - len(population)]
        order = np.argsort(fitness)[:POPULATION]
        population = [population[i] for i in order]
        fitness = [fitness[i] for i in order]


def _tournament(random: np.random.Generator, fitness: list[float]) -> int:
    first, second = (int(i) for i in random.integers(0, min(POPULATION, len(fitness)), size=2))
    return first if fitness[first] <= fitness[second] else second


def _fitness(referee: Search, x: Array) -> float:
    problem = referee.problem
    above, below = problem.linear.slacks(x)
    held = [
        bool(np.all(above[part, j] > 0.0) and np.all(below[part, j] > 0.0))
        for part in problem.linear.parts
        for j in range(x.shape[0])
    ]
    motion = problem.motion(x)
    for limit in problem.nonlinear:
        held += list(np.all(limit.margins(motion) > 0.0, axis=0))
    value = problem.value(x)
    referee.violation = 0.0 if all(held) else problem.violation(x)
    if all(held):
        referee.offer(x)
        return value
    return float(value + PENALTY * (1.0 - sum(held) / len(held)) ** EXPONENT)
