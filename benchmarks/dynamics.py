"""Rigid-body dynamics of the UR10e, many samples on one core, against Pinocchio."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.comparison import Comparison, best_time
from core import models
from core.models import SerialChain

SAMPLES = 5000
REGRESSOR, INVERSE, MASS, FORWARD = "regressor, 6 x 60", "inverse dynamics", "mass matrix", "forward dynamics"
Task = Callable[[], np.ndarray]


def run() -> Iterator[Comparison]:
    chain = models.catalogue("ur10e")
    states = np.random.default_rng(0).uniform(-3.0, 3.0, (3, SAMPLES, chain.n_joints))
    torque = chain.inverse_dynamics(*states)
    ours: dict[str, Task] = {
        REGRESSOR: lambda: chain.regressor(*states),
        INVERSE: lambda: chain.inverse_dynamics(*states),
        MASS: lambda: chain.mass_matrix(states[0]),
        FORWARD: lambda: chain.forward_dynamics(states[0], states[1], torque),
    }
    peer, theirs = _pinocchio(chain, states, torque)
    for task, compute in ours.items():
        result = compute()  # compiles, too
        time = best_time(compute, items=SAMPLES)
        other, how = theirs.get(task, (None, ""))
        if other is None:
            yield Comparison(task, time, None, peer, None)
        else:
            difference = float(np.abs(result - other()).max())
            yield Comparison(task, time, best_time(other, items=SAMPLES), peer, difference, how)
    yield _figaroh(chain, states, ours[REGRESSOR])
    for state, time in zip(("cold", "warm"), _first_calls(), strict=True):
        yield Comparison(f"first calls, {state} cache", time, None, "", None, "all four, new process")


def _pinocchio(chain: SerialChain, states: np.ndarray, torque: np.ndarray) -> tuple[str, dict[str, tuple[Task, str]]]:
    """Return Pinocchio's quickest ways from Python: its own batches where it has them, else a loop."""
    try:
        import pinocchio
    except ImportError:
        return "Pinocchio (not installed)", {}
    model = _as_pinocchio(pinocchio, chain)
    data = model.createData()
    pool = pinocchio.ModelPool(model, 1)
    q, qd, qdd = states
    columns = [np.asfortranarray(signal.T) for signal in (*states, torque)]
    regressor = np.empty((SAMPLES, chain.n_joints, 10 * chain.n_joints))
    mass = np.empty((SAMPLES, chain.n_joints, chain.n_joints))

    def regressors() -> np.ndarray:
        for k in range(SAMPLES):
            regressor[k] = pinocchio.computeJointTorqueRegressor(model, data, q[k], qd[k], qdd[k])
        return regressor

    def masses() -> np.ndarray:
        for k in range(SAMPLES):
            mass[k] = pinocchio.crba(model, data, q[k])
        return np.triu(mass) + np.triu(mass, 1).transpose(0, 2, 1)

    def inverse() -> np.ndarray:
        return np.asarray(pinocchio.rneaInParallel(1, pool, *columns[:3])).T

    def forward() -> np.ndarray:
        return np.asarray(pinocchio.abaInParallel(1, pool, *columns[:2], columns[3])).T

    loop, batch = "Python loop, call overhead included", "C++ batch, one thread"
    return f"Pinocchio {pinocchio.__version__}", {
        REGRESSOR: (regressors, loop),
        INVERSE: (inverse, batch),
        MASS: (masses, loop),
        FORWARD: (forward, batch),
    }


def _figaroh(chain: SerialChain, states: np.ndarray, compute: Task) -> Comparison:
    """Compare the regressor with that of figaroh, where it is installed: ``pip install figaroh``."""
    time = best_time(compute, items=SAMPLES)
    try:
        from figaroh.tools.regressor import RegressorBuilder, RegressorConfig
    except ImportError:
        return Comparison(REGRESSOR, time, None, "figaroh (not installed)", None)
    import pinocchio

    model = _as_pinocchio(pinocchio, chain)
    builder = RegressorBuilder(SimpleNamespace(model=model, data=model.createData()), RegressorConfig())
    settings = {"act_idxv": list(range(chain.n_joints))}

    def theirs() -> np.ndarray:
        return np.asarray(builder.build_basic_regressor(*states, settings))

    joint_by_joint = theirs().reshape(chain.n_joints, SAMPLES, -1).transpose(1, 0, 2)
    difference = float(np.abs(compute() - joint_by_joint).max())
    other = best_time(theirs, items=SAMPLES, repeats=3)
    return Comparison(REGRESSOR, time, other, f"figaroh {version('figaroh')}", difference, "its own loop")


def _as_pinocchio(pinocchio: Any, chain: SerialChain) -> Any:
    """Build the same chain joint by joint, with Pinocchio's specialised joint about z where it applies."""
    model = pinocchio.Model()
    model.gravity.linear = chain.gravity
    parent = 0
    for j, name in enumerate(chain.joint_names):
        placement = pinocchio.SE3(chain.placement_rotation[j], chain.placement_translation[j])
        about_z = np.array_equal(chain.axis[j], (0.0, 0.0, 1.0))
        joint = pinocchio.JointModelRZ() if about_z else pinocchio.JointModelRevoluteUnaligned(chain.axis[j])
        parent = model.addJoint(parent, joint, placement, name)
        body = pinocchio.Inertia.FromDynamicParameters(chain.inertial_parameters[j])
        model.appendBodyToJoint(parent, body, pinocchio.SE3.Identity())
    return model


_FIRST_CALLS = """
import time, numpy as np
from core import models
chain, q = models.catalogue("ur10e"), np.zeros((1, 6))
start = time.perf_counter()
chain.regressor(q, q, q), chain.inverse_dynamics(q, q, q), chain.mass_matrix(q), chain.forward_dynamics(q, q, q)
print(time.perf_counter() - start)
"""


def _first_calls() -> tuple[float, float]:
    """Return the time of the first calls in a new process, s: with an empty compilation cache, then again."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", _FIRST_CALLS]
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        runs = [subprocess.run(command, env=environment, check=True, capture_output=True, text=True) for _ in range(2)]
    return float(runs[0].stdout), float(runs[1].stdout)
