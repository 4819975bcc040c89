"""Ways to design one excitation trajectory on equal budgets: ``python -m benchmarks.excitation [seconds] [seeds]``.

A UR10e, 58 columns (40 base with rotor inertias; viscous, sign, offset per joint), Fourier + quintic with five
harmonics over 20 s, within the limits that are published with this robot's hand-tuned trajectories. Budgets are
seconds of one processor, so that other programs do not matter; every figure is exact, on the 1 ms grid.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from core.excitation.columns import ObservationColumns
from core.excitation.criteria import ConditionNumber
from core.excitation.design import OPTIMIZERS, DesignSettings, design
from core.excitation.families import FAMILIES, family
from core.excitation.limits import limits_from_document
from core.excitation.problem import DesignProblem, Smoothing
from core.models import catalogue

LIMITS = {
    "position_lower_deg": [-180, -180, -100, -180, -90, -90],
    "position_upper_deg": [180, 0, 100, 0, 90, 90],
    "start_deg": [0, -90, 0, -90, 0, 0],
    "velocity": [2.09, 2.09, 3.14, 3.14, 3.14, 3.14],
    "acceleration": [2.0, 1.0, 1.0, 1.0, 1.0, 2.5],
}
SETTINGS = DesignSettings(friction="coulomb_viscous")


def main() -> None:
    budget = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    seeds = range(int(sys.argv[2]) if len(sys.argv) > 2 else 2)
    robot = catalogue("ur10e", rotor_inertia=True)
    limits = limits_from_document(LIMITS, robot)
    table = Table(title=f"condition number after {budget:g} s of one processor, {len(seeds)} seeds")
    for heading in ("optimiser", "family", "best", "median", "worst", "candidates"):
        table.add_column(heading, justify="left" if heading in ("optimiser", "family") else "right")
    rows = [(name, "fourier_quintic") for name in OPTIMIZERS]
    rows += [("interior_point", name) for name in (*FAMILIES, "fourier_segments") if name != "fourier_quintic"]
    for optimizer, name in rows:
        settings = replace(SETTINGS, optimizer=optimizer, family=name, time_budget=budget)
        if name == "fourier_segments":
            settings = replace(settings, segments=2, period=SETTINGS.period / 2)
        found = [design(robot, limits, replace(settings, seed=s), clock=time.process_time) for s in seeds]
        values = [one.condition_number for one in found]
        figures = (f"{figure:.1f}" for figure in (min(values), float(np.median(values)), max(values)))
        shown = "coman iteration" if name == "fourier_segments" else optimizer
        table.add_row(shown, name, *figures, str(found[0].candidates))
    console = Console()
    console.print(table)
    for line in _gradient_costs():
        console.print(line)


def _gradient_costs() -> list[str]:
    """What one gradient costs, in reverse and by differences."""
    robot = catalogue("ur10e", rotor_inertia=True)
    limits = limits_from_document(LIMITS, robot)
    columns = ObservationColumns(robot, "coulomb_viscous")
    members = family("fourier_quintic", harmonics=5, duration=20.0, start=limits.start, end=limits.end)
    problem = DesignProblem(columns, ConditionNumber(), members, limits, samples=120)
    x = np.random.default_rng(0).normal(0.0, 0.2, problem.shape)
    smoothing = Smoothing(20.0, 0.05, 1e-3)
    with threadpool_limits(1, "blas"):
        value, reverse = _best(lambda: problem.information(x)), _best(lambda: problem.objective(x, smoothing))
    return [
        f"criterion and gradient in {x.size} coefficients at 121 samples: {1e3 * reverse:.2f} ms in reverse mode; "
        f"by differences {1e3 * (x.size + 1) * value:.0f} ms for the information matrices alone"
    ]


def _best(task: Callable[[], object]) -> float:
    shortest = float("inf")
    for _ in range(30):
        start = time.perf_counter()
        task()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


if __name__ == "__main__":
    main()
