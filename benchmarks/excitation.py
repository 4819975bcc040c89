"""Optimisers and trajectory families side by side: what each reaches with the same processor time.

The case is that of the UR10e source: 40 base parameters with rotor inertias, 18 friction columns, 5 harmonics over
20 s, within the limits that are published with this robot's hand-tuned trajectories. Budgets are seconds of one
processor, so that other programs do not matter; every figure is exact, on the 1 ms grid.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from core.excitation.columns import ObservationColumns
from core.excitation.criteria import ConditionNumber
from core.excitation.design import OPTIMIZERS, SEGMENTS, DesignSettings, design
from core.excitation.families import FAMILIES, family
from core.excitation.limits import limits_from_document
from core.excitation.problem import DesignProblem, Smoothing
from core.models import SerialChain, SixUPRU, catalogue, load, serial_chain

LIMITS = {
    "position_lower_deg": [-180, -180, -100, -180, -90, -90],
    "position_upper_deg": [180, 0, 100, 0, 90, 90],
    "start_deg": [0, -90, 0, -90, 0, 0],
    "velocity": [2.09, 2.09, 3.14, 3.14, 3.14, 3.14],
    "acceleration": [2.0, 1.0, 1.0, 1.0, 1.0, 2.5],
}
SETTINGS = DesignSettings(friction="coulomb_viscous")
QUICK, FULL = (3.0, 1), (10.0, 2)
"""Seconds for each method, and seeds."""

LIVELY = {"acceleration": [8.0] * 6}
CLEAR = {"floor": 0.05, "self_collision": 0.05}
CASES: Sequence[tuple[str, dict[str, float], dict[str, Any], float]] = (
    ("K = 5, T = 20 s", {"harmonics": 5, "period": 20.0}, {}, 10.0),
    ("K = 5, T = 12 s", {"harmonics": 5, "period": 12.0}, {}, 10.0),
    ("K = 10, T = 20 s", {"harmonics": 10, "period": 20.0}, {}, 10.0),
    ("K = 5, T = 12 s, |qdd| <= 8 rad/s²", {"harmonics": 5, "period": 12.0}, LIVELY, 10.0),
    ("K = 5, T = 20 s, floor and self-collision 5 cm", {"harmonics": 5, "period": 20.0}, CLEAR, 30.0),
)
"""Name, settings, limits beside those above, shorter budget; the longer one is ``LONG``."""
LONG = 60.0

PLATFORM = Path(__file__).parents[1] / "tests" / "data" / "upru" / "A_fourier.json"
PLATFORM_SETTINGS = DesignSettings(harmonics=5, period=10.0, time_budget=60.0)
PLATFORM_FAMILIES = ("fourier_quintic", "fourier", "fourier_free")


def run(*, full: bool, seeds: int = 1) -> Iterator[Table | str]:
    """Yield tables and lines: methods on equal budgets, the cost of a gradient; when full, all cases as well."""
    yield _methods(*(FULL if full else QUICK))
    yield _gradient_costs()
    if full:
        yield _cases(seeds)
        yield _platform(seeds)


def _methods(budget: float, seeds: int) -> Table:
    robot = _robot()
    limits = limits_from_document(LIMITS, robot)
    table = Table(title=f"condition number after {budget:g} s of one processor, {seeds} seed(s)")
    for heading in ("optimiser", "family", "best", "median", "worst", "candidates"):
        table.add_column(heading, justify="left" if heading in ("optimiser", "family") else "right")
    rows = [(name, "fourier_quintic") for name in OPTIMIZERS]
    rows += [("interior_point", name) for name in (*FAMILIES, SEGMENTS) if name != "fourier_quintic"]
    for optimizer, name in rows:
        settings = replace(SETTINGS, optimizer=optimizer, family=name, time_budget=budget)
        if name == SEGMENTS:
            settings = replace(settings, segments=2, period=SETTINGS.period / 2)
        found = [design(robot, limits, replace(settings, seed=s), clock=time.process_time) for s in range(seeds)]
        values = [one.condition_number for one in found]
        figures = (f"{figure:.1f}" for figure in (min(values), float(np.median(values)), max(values)))
        shown = "coman iteration" if name == SEGMENTS else optimizer
        table.add_row(shown, name, *figures, str(found[0].candidates))
    return table


def _cases(seeds: int) -> Table:
    robot = _robot()
    table = Table(title=f"condition number of every case over {seeds} seed(s), seconds of one processor")
    for heading in ("case", "after", "best", "median", "worst"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for name, changes, more, short in CASES:
        limits = limits_from_document({**LIMITS, **more}, robot)
        for budget in (short, LONG):
            settings = replace(SETTINGS, time_budget=budget, **changes)  # type: ignore[arg-type]
            reached = [
                design(robot, limits, replace(settings, seed=seed), clock=time.process_time).condition_number
                for seed in range(seeds)
            ]
            figures = (min(reached), float(np.median(reached)), max(reached))
            table.add_row(name, f"{budget:g} s", *(f"{figure:.1f}" for figure in figures))
    return table


def _platform(seeds: int) -> Table:
    """A 6-UPRU robot whose legs may go 0.2 m to either side of home, at 0.5 m/s and 2.5 m/s²."""
    robot = load(PLATFORM)
    assert isinstance(robot, SixUPRU)
    home = robot.joint_motion(robot.home[None], np.zeros((1, 6)), np.zeros((1, 6)))[0][0]
    limits = limits_from_document(
        {
            "start": robot.home.tolist(),
            "position_lower": (home - 0.2).tolist(),
            "position_upper": (home + 0.2).tolist(),
            "velocity": [0.5] * 6,
            "acceleration": [2.5] * 6,
            "joint_angle_deg": 45.0,
            "condition": 50.0,
        },
        robot,
    )
    table = Table(title=f"6-UPRU, 5 harmonics, 10 s: cond(K_b) after 60 s of one processor over {seeds} seed(s)")
    for heading in ("family", "best", "median", "worst"):
        table.add_column(heading, justify="left" if heading == "family" else "right")
    for name in PLATFORM_FAMILIES:
        settings = replace(PLATFORM_SETTINGS, family=name)
        found = [
            design(robot, limits, replace(settings, seed=seed), clock=time.process_time).condition_number
            for seed in range(seeds)
        ]
        table.add_row(name, *(f"{figure:.1f}" for figure in (min(found), float(np.median(found)), max(found))))
    return table


def _gradient_costs() -> str:
    """What one gradient costs, in reverse and by differences."""
    robot = _robot()
    limits = limits_from_document(LIMITS, robot)
    columns = ObservationColumns(robot, "coulomb_viscous")
    members = family("fourier_quintic", harmonics=5, duration=20.0, start=limits.start, end=limits.end)
    problem = DesignProblem(columns, ConditionNumber(), members, limits, samples=120)
    x = np.random.default_rng(0).normal(0.0, 0.2, problem.shape)
    smoothing = Smoothing(20.0, 0.05, 1e-3)
    with threadpool_limits(1, "blas"):
        value, reverse = _best(lambda: problem.information(x)), _best(lambda: problem.objective(x, smoothing))
    return (
        f"criterion and gradient in {x.size} coefficients at 121 samples: {1e3 * reverse:.2f} ms in reverse mode; "
        f"by differences {1e3 * (x.size + 1) * value:.0f} ms for the information matrices alone"
    )


def _robot() -> SerialChain:
    return serial_chain(catalogue("ur10e", rotor_inertia=True), "this benchmark")


def _best(task: Callable[[], object]) -> float:
    shortest = float("inf")
    for _ in range(30):
        start = time.perf_counter()
        task()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="longer budgets, more seeds, and all cases: 10 minutes")
    parser.add_argument("--seeds", type=int, default=1, help="of every case, when full: 6 minutes each")
    arguments = parser.parse_args()
    console = Console()
    for shown in run(full=arguments.full, seeds=arguments.seeds):
        console.print(shown)


if __name__ == "__main__":
    main()
