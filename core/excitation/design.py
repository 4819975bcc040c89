"""Designing an excitation trajectory: settings in, a verified trajectory and its figures out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from core.errors import InputError
from core.excitation import basin_hopping, cma_es, genetic, slsqp
from core.excitation.columns import ObservationColumns
from core.excitation.coman import search_segment
from core.excitation.criteria import (
    CRITERIA,
    ConditionNumber,
    Criterion,
    DOptimality,
    WeightedBlocks,
    block_weights,
    check_criterion,
)
from core.excitation.excited_robot import ExcitedRobot
from core.excitation.families import FREE, LinearFamily, family
from core.excitation.feasibility import nothing_found
from core.excitation.limits import DesignLimits
from core.excitation.motion_check import MotionReport
from core.excitation.parallel import Found, ParallelSearch
from core.excitation.problem import LEAST_STEPS, STEPS_PER_HARMONIC, DesignProblem, Smoothing
from core.excitation.search import OnProgress, Progress, Search
from core.excitation.segments import Segments
from core.excitation.trajectory import Trajectory
from core.excitation.verification import fine_samples, information, verify
from core.models import Mechanism

Array = NDArray[np.float64]

OPTIMIZERS: Mapping[str, Callable[[Search, Sequence[Array]], None]] = MappingProxyType(
    {
        "interior_point": basin_hopping.search,
        "slsqp": slsqp.search,
        "cma_es": cma_es.search,
        "genetic": genetic.search,
    }
)
"""Ways to spend a budget. All but the first are there to be compared with."""

LEARNING = ("cma_es", "genetic")
"""Optimisers that learn over their whole run, so that slicing it would not do."""

SEGMENTS = "fourier_segments"
"""The family that the COMAN source's iteration designs: several ``fourier`` trajectories in sequence."""


@dataclass(frozen=True)
class DesignSettings:
    """What is designed, and how long.

    Attributes
    ----------
    family : "fourier_quintic", "fourier", "bspline", "fourier_segments", or "fourier_free", which begins and ends in
        motion, so that a robot has to be brought onto it.
    harmonics : K per joint; a spline has 2 K free control points.
    period : s; duration of the trajectory, or of each segment.
    criterion : "cond", "cond_normalised", "d_optimal", "a_optimal" or "coman".
    friction : velocity law whose columns the criterion has, or one per joint; None = base parameters only.
    optimizer : one of ``OPTIMIZERS``; segments are always designed by the COMAN iteration.
    time_budget : s.
    seed : of everything random. With ``max_candidates`` (and enough time) a design is reproducible.
    segments : number of segments of "fourier_segments".
    joint_weights : (n,) factors on each joint's rows, such as one over its torque noise.
    max_candidates : ends a search by number instead of time; not for several at a time.
    """

    family: str = "fourier_quintic"
    harmonics: int = 5
    period: float = 20.0
    criterion: str = "cond"
    friction: str | Sequence[str] | None = None
    optimizer: str = "interior_point"
    time_budget: float = 60.0
    seed: int = 0
    segments: int = 3
    joint_weights: tuple[float, ...] | None = None
    max_candidates: int | None = None

    def __post_init__(self) -> None:
        check_criterion(self.criterion)
        if self.optimizer not in OPTIMIZERS:
            raise InputError(
                f"unknown optimizer {self.optimizer!r}; known: {', '.join(OPTIMIZERS)}", code="optimizer-unknown"
            )
        if not (np.isfinite(self.time_budget) and self.time_budget > 0.0):
            raise InputError(f"the time budget must be positive, got {self.time_budget} s")
        if self.segments < 1:
            raise InputError(f"at least one segment is needed, got {self.segments}")
        if self.seed < 0:
            raise InputError(f"the seed must not be negative, got {self.seed}")


@dataclass(frozen=True)
class Design:
    """A verified trajectory.

    Attributes
    ----------
    value : of the criterion, exact, on the 1 ms grid.
    condition_number, condition_number_normalised : of W as it is, and with columns of length one.
    log_det : of the information, the integral of ``W^T W`` over time.
    columns : names of the columns of W.
    report : margins to every limit.
    seconds : that the design took.
    history : (s, criterion) of every improvement, to a few parts in ten thousand.
    candidates : trajectories that optimisers offered.
    """

    trajectory: Trajectory
    settings: DesignSettings
    model_digest: str
    value: float
    condition_number: float
    condition_number_normalised: float
    log_det: float
    columns: tuple[str, ...]
    report: MotionReport
    seconds: float
    history: tuple[tuple[float, float], ...]
    candidates: int

    def to_document(self) -> dict[str, Any]:
        """Return JSON-serialisable data; ``trajectory`` there is what ``trajectory_from_definition`` takes."""
        return {
            "trajectory": self.trajectory.definition(),
            "criterion": self.settings.criterion,
            "value": self.value,
            "condition_number": self.condition_number,
            "condition_number_normalised": self.condition_number_normalised,
            "log_det": self.log_det,
            "columns": list(self.columns),
            "limit_use": {margin.kind: list(margin.use) for margin in self.report.margins},
            "margins": {margin.kind: margin.to_document() for margin in self.report.margins},
            "clearances": [asdict(clearance) for clearance in self.report.clearances],
            "seed": self.settings.seed,
            "settings": asdict(self.settings),
            "model_digest": self.model_digest,
            "seconds": self.seconds,
            "candidates": self.candidates,
            "history": [list(entry) for entry in self.history],
        }


def design(
    model: Mechanism | ExcitedRobot,
    limits: DesignLimits,
    settings: DesignSettings,
    *,
    warm_start: Trajectory | None = None,
    on_progress: OnProgress = lambda progress: None,
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
    executor: Executor | None = None,
    workers: int = 1,
) -> Design:
    """Return the best trajectory that the time budget allows, verified on a 1 ms grid.

    Parameters
    ----------
    model : nominal robot, or one as ``excited_robot`` describes it; whether an arm has rotor inertias decides
        whether the criterion has their columns.
    limits : never violated by what is returned. The model's own limits play no part.
    warm_start : a trajectory to begin with, of any family and duration.
    on_progress : called often.
    stop : asked often; True returns the best so far.
    clock : s, by which the budget is spent.
    executor, workers : run so many searches at a time in an executor (``concurrent.futures``); arguments must
        then be picklable. They exchange the best so far.

    Raises
    ------
    InfeasibleError
        Nothing keeps the limits; says which one binds, and by how much.
    InputError
        A setting is wrong.
    """
    if settings.family == FREE:
        limits = replace(limits, in_motion=True)
    with threadpool_limits(1, "blas"):  # on matrices this small, threads only wait for each other
        return _design(model, limits, settings, warm_start, on_progress, stop, clock, executor, workers)


def _design(
    model: Mechanism | ExcitedRobot,
    limits: DesignLimits,
    settings: DesignSettings,
    warm_start: Trajectory | None,
    on_progress: OnProgress,
    stop: Callable[[], bool],
    clock: Callable[[], float],
    executor: Executor | None,
    workers: int,
) -> Design:
    if settings.family == SEGMENTS and (
        warm_start is not None or executor is not None or settings.optimizer != "interior_point"
    ):
        raise InputError(
            f"{SEGMENTS} are designed one after the other by the interior-point method: they take no warm start, "
            "no workers and no other optimizer"
        )
    if executor is not None and settings.max_candidates is not None:
        raise InputError(
            "max_candidates ends one search after a number of trajectories; with workers the time budget ends them"
        )
    columns = ObservationColumns(model, settings.friction, _weights(settings))
    members = _family(settings, limits)
    compile_kernels(columns, members, limits)
    started = clock()
    if settings.family == SEGMENTS:
        referees = _design_segments(columns, limits, settings, on_progress, stop, clock)
        trajectory: Trajectory = Segments(tuple(_trajectory(referee) for referee in referees))
        criterion, history = referees[-1].problem.criterion, referees[-1].history
        candidates = sum(referee.candidates for referee in referees)
    else:
        criterion = _criterion(settings, columns, members, limits)
        warm = [] if warm_start is None else [members.fit(warm_start)]
        if executor is None:
            problem = _problem(columns, criterion, members, limits)
            referee = Search(
                problem,
                settings.time_budget - (clock() - started),
                np.random.default_rng(settings.seed),
                clock,
                stop,
                on_progress,
                settings.max_candidates,
            )
            _spend(referee, settings, warm)
            trajectory, history, candidates = _trajectory(referee), referee.history, referee.candidates
        else:
            task = partial(_search_alone, model, limits, settings)
            length = None if settings.optimizer in LEARNING else settings.time_budget / 5.0
            search = ParallelSearch(task, executor, workers, settings.time_budget, settings.seed, warm, stop, length)
            found = search.run(on_progress)
            trajectory, history, candidates = members.trajectory(found.x), found.history, found.candidates
    report = verify(trajectory, columns, limits)
    total = information(fine_samples(trajectory), columns)
    return Design(
        trajectory=trajectory,
        settings=settings,
        model_digest=model.digest(),
        value=criterion.value(total),
        condition_number=ConditionNumber().value(total),
        condition_number_normalised=ConditionNumber(normalised=True).value(total),
        log_det=-DOptimality().value(total) * columns.count,
        columns=columns.names,
        report=report,
        seconds=clock() - started,
        history=tuple(history),
        candidates=candidates,
    )


def compile_kernels(columns: ObservationColumns, members: LinearFamily, limits: DesignLimits) -> None:
    """Load the compiled kernels, or compile them the first time on a machine: not the search's time."""
    problem = _problem(columns, ConditionNumber(), members, limits)
    still = np.zeros(problem.shape)
    problem.linear.barrier(still)
    problem.linear.largest_step(still, still)
    problem.objective(still, Smoothing(2.0, 0.1, 0.0))
    motion = problem.motion(still)
    for limit in problem.nonlinear:
        limit.pull_back(motion, limit.margins(motion))


def evaluate(trajectory: Trajectory, columns: ObservationColumns) -> float:
    """Return the exact condition number of a trajectory on the 1 ms grid."""
    return ConditionNumber().value(information(fine_samples(trajectory), columns))


def _weights(settings: DesignSettings) -> Array | None:
    return None if settings.joint_weights is None else np.array(settings.joint_weights, dtype=np.float64)


def _family(settings: DesignSettings, limits: DesignLimits) -> LinearFamily:
    name = "fourier" if settings.family == SEGMENTS else settings.family
    return family(name, harmonics=settings.harmonics, duration=settings.period, start=limits.start, end=limits.end)


def _problem(
    columns: ObservationColumns,
    criterion: Criterion,
    members: LinearFamily,
    limits: DesignLimits,
    prior: Array | None = None,
) -> DesignProblem:
    steps = max(LEAST_STEPS, STEPS_PER_HARMONIC * members.size // 2)
    return DesignProblem(columns, criterion, members, limits, samples=steps, prior=prior)


def _criterion(
    settings: DesignSettings, columns: ObservationColumns, members: LinearFamily, limits: DesignLimits
) -> Criterion:
    if settings.criterion in CRITERIA:
        return CRITERIA[settings.criterion]()
    problem = _problem(columns, ConditionNumber(), members, limits)
    random = np.random.default_rng(settings.seed)
    first = Search(problem, 0.0, random, time.monotonic).random_start()
    matrix = columns.matrix(problem.motion(first))
    gravity = columns.gravity_dependent
    return WeightedBlocks(gravity, *block_weights(matrix, gravity))


def _spend(referee: Search, settings: DesignSettings, warm: Sequence[Array]) -> None:
    for x in warm:
        referee.offer(x)  # as it is: nothing worse is returned
    OPTIMIZERS[settings.optimizer](referee, warm)


def _trajectory(referee: Search) -> Trajectory:
    return referee.problem.family.trajectory(_best(referee))


def _best(referee: Search) -> Array:
    """Return the best of a search; if time ran out before there was any, the first that keeps the limits."""
    for fallback in (referee.random_start, lambda: referee.centre):
        if referee.best is None:
            referee.offer(fallback())
    if referee.best is None:
        problem = referee.problem
        usual = referee.random_start()
        raise nothing_found(problem.family, problem.columns, problem.limits, referee.centre, usual)
    return referee.best


def _design_segments(
    columns: ObservationColumns,
    limits: DesignLimits,
    settings: DesignSettings,
    on_progress: OnProgress,
    stop: Callable[[], bool],
    clock: Callable[[], float],
) -> list[Search]:
    members = _family(settings, limits)
    criterion = _criterion(settings, columns, members, limits)
    random = np.random.default_rng(settings.seed)
    started = clock()
    prior: Array | None = None
    referees: list[Search] = []
    for number in range(settings.segments):
        spent = clock() - started

        def report(progress: Progress, spent: float = spent) -> None:
            on_progress(
                Progress(
                    spent + progress.elapsed,
                    settings.time_budget,
                    progress.best,
                    progress.violation,
                    progress.candidates,
                )
            )

        problem = _problem(columns, criterion, members, limits, prior)
        share = (settings.time_budget - spent) / (settings.segments - number)
        referee = Search(problem, share, random, clock, stop, report, settings.max_candidates)
        search_segment(referee)
        referees.append(referee)
        own = information(fine_samples(_trajectory(referee)), columns)
        prior = own if prior is None else prior + own
    return referees


def _search_alone(
    model: Mechanism | ExcitedRobot,
    limits: DesignLimits,
    settings: DesignSettings,
    seconds: float,
    seed: int,
    warm: list[Array],
    stop: Callable[[], bool],
) -> Found:
    """One worker's part: a search of its own."""
    with threadpool_limits(1, "blas"):
        columns = ObservationColumns(model, settings.friction, _weights(settings))
        members = _family(settings, limits)
        problem = _problem(columns, _criterion(settings, columns, members, limits), members, limits)
        referee = Search(problem, seconds, np.random.default_rng(seed), time.monotonic, stop)
        _spend(referee, settings, warm)
    return Found(_best(referee), referee.best_value, referee.history, referee.candidates)
