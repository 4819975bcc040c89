"""Least squares on one core: 100,000 samples of six joints, 58 parameters, from states to a covariance."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np

from benchmarks.comparison import Comparison, best_time
from core import models
from core.dynamics.base_parameters import reduce_to_base
from core.estimators import JointFactors, RecursiveLeastSquares, WeightedLeastSquares
from core.pipelines.drift_monitor import DriftMonitor
from core.pipelines.identify import identify
from core.recordings import Recording

SAMPLES, BLOCK = 100_000, 512  # a block of a regressor stays in the second-level cache
STREAMED = 10_000


class Problem:
    """A UR10e with rotors and Coulomb, viscous and constant friction: 40 base and 18 friction parameters."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.chain = models.catalogue("ur10e").with_rotor_inertia(np.full(6, 0.5))
        self.base = reduce_to_base(self.chain)
        self.states = random.uniform(-2.0, 2.0, (3, SAMPLES, 6))
        rate = self.states[1]
        noise = random.normal(size=rate.shape)
        self.torque = self.chain.inverse_dynamics(*self.states) + 3.0 * np.sign(rate) + 2.0 * rate + noise

    def columns(self, part: slice) -> np.ndarray:
        q, qd, qdd = (signal[part] for signal in self.states)
        columns = np.zeros((len(q), 6, self.base.count + 18))
        columns[:, :, : self.base.count] = self.base.columns(self.chain.regressor(q, qd, qdd))
        for j in range(6):
            first = self.base.count + 3 * j
            columns[:, j, first] = np.sign(qd[:, j])
            columns[:, j, first + 1] = qd[:, j]
            columns[:, j, first + 2] = 1.0
        return columns

    def estimate(self, samples: int = SAMPLES) -> WeightedLeastSquares:
        factors = JointFactors(6, self.base.count + 18)
        for start in range(0, samples, BLOCK):
            part = slice(start, min(start + BLOCK, samples))
            factors.add(self.columns(part), self.torque[part])
        return WeightedLeastSquares().fit_factors(factors)


def run() -> Iterator[Comparison]:
    problem = Problem()
    problem.estimate(2 * BLOCK)  # compiles
    ours = best_time(problem.estimate, items=1, repeats=5)
    memory = [_peak_megabytes(problem, samples) for samples in (SAMPLES // 10, SAMPLES)]
    matrix = problem.columns(slice(None)).reshape(6 * SAMPLES, -1)
    effort = problem.torque.ravel()
    peer = f"numpy {np.__version__} lstsq"
    theirs = best_time(lambda: np.linalg.lstsq(matrix, effort, rcond=None), items=1, repeats=2)
    unweighted = np.linalg.lstsq(matrix, effort, rcond=None)[0]
    difference = float(np.abs(problem.estimate().coef_ - unweighted).max())
    remark = (
        f"whole task; we also build the matrix, weigh joints and give the covariance, in {memory[1]:.0f} MB "
        f"({memory[0]:.0f} MB for a tenth); numpy solves the ready-made {matrix.nbytes / 1e6:.0f} MB"
    )
    yield Comparison("least squares, 600,000 x 58", ours, theirs, peer, difference, remark)
    yield _stream(problem)
    yield _drift_monitor()


def _stream(problem: Problem) -> Comparison:
    """Sample by sample, as a 1 kHz stream comes, regressor included."""
    stream = RecursiveLeastSquares(forgetting=0.99999)
    stream.partial_fit(problem.columns(slice(0, 1)), problem.torque[:1])  # compiles

    def task() -> None:
        for k in range(STREAMED // 10):
            part = slice(10 * k, 10 * k + 10)
            stream.partial_fit(problem.columns(part), problem.torque[part])
            if k % 100 == 0:
                _ = stream.coef_

    time = best_time(task, items=STREAMED, repeats=3)
    remark = f"ten samples a call, regressor included, estimate read once a second: {time * 1e3:.1%} of a core at 1 kHz"
    return Comparison("recursive least squares", time, None, "", None, remark)


def _peak_megabytes(problem: Problem, samples: int) -> float:
    tracemalloc.start()
    problem.estimate(samples)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def _drift_monitor() -> Comparison:
    """A robot's live stream beside its model, in blocks of 20 ms."""
    rate, seconds = 1000.0, 20
    chain = models.catalogue("ur10e")
    t = np.arange(round(seconds * rate)) / rate
    rates = np.array([0.9, 1.1, 1.3, 1.7, 1.9, 2.3])
    phase = t[:, None] * rates + np.arange(6.0)
    q, qd, qdd = 0.6 * np.sin(phase), 0.6 * rates * np.cos(phase), -0.6 * rates**2 * np.sin(phase)
    torque = chain.inverse_dynamics(q, qd, qdd) + 3.0 * np.sign(qd) + np.random.default_rng(0).normal(size=q.shape)
    identified = identify(chain, [Recording("sway", t, q, qd, current=torque)], gains=np.ones(6))
    monitor = DriftMonitor(identified, rate)

    def stream() -> None:
        monitor.restart()
        for first in range(0, len(t), 20):
            part = slice(first, first + 20)
            monitor.update(q[part], qd[part], torque[part])

    stream()  # compiles
    time = best_time(stream, items=len(t), repeats=3)
    remark = f"20 ms a block: {time * rate:.1%} of a core at 1 kHz"
    return Comparison("drift monitor", time, None, "", None, remark)
