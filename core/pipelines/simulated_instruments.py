"""Instruments for the instrumental variable estimator: the regressor along simulated motions.

The robot is simulated with the parameters estimated so far, following the motion that was commanded under a
computed-torque controller that knows its rigid body and not its friction. Where no target was recorded, it
follows the measured motion, low-passed once more: noise below that cutoff then stays in the instruments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.dynamics.chain_arrays import ChainArrays, Workspace, make_workspace
from core.dynamics.kernels import forward_dynamics_one, rnea_one
from core.errors import IdentificationError
from core.estimators import ParameterStructure, consistent_parameters
from core.estimators.joint_factors import r_factor
from core.models import SerialChain
from core.pipelines.torque_model import TorqueModel
from core.recordings.recording import Recording
from core.signals import Segment, SignalSettings, prepare
from core.signals.differentiation import central_difference
from core.signals.filters import ZeroPhaseButterworth
from core.signals.motion import JointMotion

Array = NDArray[np.float64]

_BANDWIDTH = 2.0 * np.pi * 30.0
"""rad/s, of the simulated controller: stiff enough that friction moves it by no more than it does a real one."""
_STEP = 0.001
"""s, longest step of the simulation."""
_STATES = 500
_TORQUE_ERROR = 0.1
"""N·m (N); how well the simulated robot's torque has to fit, against its prior, on so many states."""
_LOST = 0.5
"""rad (m); a simulated robot this far from its reference has lost it."""
_SMOOTHED = 0.5
"""Of the kinematic cutoff: that of the second low-pass on a motion without recorded target."""


class SimulatedInstruments:
    """Called with parameters (p,), yields instruments (m, n, p) in the blocks of ``TorqueModel.observations``.

    Raises
    ------
    IdentificationError
        The simulated robot loses its reference, or has no inertia: the parameters are far off.
    """

    def __init__(
        self,
        model: TorqueModel,
        recordings: Sequence[Recording],
        segments: Sequence[Segment],
        settings: SignalSettings,
    ) -> None:
        self._model = model
        self._recordings = recordings
        self._segments = segments
        self._settings = settings

    @cached_property
    def _references(self) -> list[JointMotion]:
        return list(_references(self._recordings, self._segments, self._settings))

    def __call__(self, parameters: Array) -> Iterator[Array]:
        base = self._model.base
        robot = self._robot(parameters[: base.count])
        for segment, reference in zip(self._segments, self._references, strict=True):
            loaded = self._model.loaded(reference, parameters[: base.count])
            friction = self._model.friction.torque(loaded, parameters[base.count :], smooth=True)
            q, qd, qdd = (np.zeros_like(reference.q) for _ in range(3))
            steps = int(np.ceil(reference.period / _STEP))
            lost = _simulate(
                robot.arrays, reference.q, reference.qd, reference.qdd, friction, reference.period / steps, steps,
                _BANDWIDTH, _LOST, make_workspace(robot.n_joints), q, qd, qdd,
            )  # fmt: skip
            if lost >= 0:
                raise IdentificationError(
                    f"{segment.recording}: the robot simulated with the estimated parameters does not follow its "
                    f"reference at t = {segment.start + lost * reference.period:.2f} s, so there are no instruments; "
                    "record a motion that determines the parameters better, or choose another estimator",
                    code="instruments-unstable",
                )
            simulated = replace(segment, motion=JointMotion(reference.period, q, qd, qdd))
            for columns, _ in self._model.observations(simulated, parameters[: base.count]):
                yield columns

    def _robot(self, base_parameters: Array) -> SerialChain:
        """Return the robot that can be, and so be simulated, whose torque is nearest on the references."""
        model = self._model
        count = max(1, sum(reference.n_samples for reference in self._references) // _STATES)
        states = [(r.q[::count], r.qd[::count], r.qdd[::count]) for r in self._references]
        rows = np.concatenate([model.base.columns(model.chain.regressor(*state)) for state in states])
        matrix = r_factor(rows.reshape(-1, model.base.count)) / _TORQUE_ERROR
        structure = ParameterStructure(model.chain, model.base, model.base.base_names)
        return consistent_parameters(structure, matrix, matrix @ base_parameters).chain


def _references(
    recordings: Sequence[Recording], segments: Sequence[Segment], settings: SignalSettings
) -> Iterator[JointMotion]:
    """Yield what each segment's motion was meant to be, on its own grid."""
    commanded: dict[tuple[str, float], JointMotion] = {}
    for recording in recordings:
        if recording.target_q is not None:
            wanted = replace(recording, q=recording.target_q, qd=recording.target_qd)
            differentiated = replace(settings, velocity="differentiated")
            for piece in prepare(wanted, np.zeros_like(recording.q), differentiated).segments:
                commanded[piece.recording, piece.start] = piece.motion
    for segment in segments:
        motion = commanded.get((segment.recording, segment.start))
        if motion is None:
            period = segment.motion.period
            smooth = ZeroPhaseButterworth(settings.order, _SMOOTHED * settings.kinematic_cutoff, 1.0 / period)
            q = smooth.apply(segment.motion.q)
            qd = central_difference(q, period)
            motion = JointMotion(period, q, qd, central_difference(qd, period))
        yield motion


@njit(cache=True, error_model="numpy", nogil=True)
def _simulate(
    robot: ChainArrays, q_ref: Array, qd_ref: Array, qdd_ref: Array, friction: Array, step: float, steps: int,
    bandwidth: float, lost: float, workspace: Workspace, q: Array, qd: Array, qdd: Array,
) -> int:  # fmt: skip
    """Write the simulated motion (N, n); return the first sample where it failed, or -1."""
    n = q.shape[1]
    torque = np.zeros(n)
    wanted = np.zeros(n)
    position, rate, acceleration = q_ref[0].copy(), qd_ref[0].copy(), np.zeros(n)
    for k in range(q.shape[0]):
        following = min(k + 1, q.shape[0] - 1)
        for inner in range(steps):
            share = inner / steps
            for j in range(n):
                error = q_ref[k, j] + share * (q_ref[following, j] - q_ref[k, j]) - position[j]
                slower = qd_ref[k, j] + share * (qd_ref[following, j] - qd_ref[k, j]) - rate[j]
                ahead = qdd_ref[k, j] + share * (qdd_ref[following, j] - qdd_ref[k, j])
                wanted[j] = ahead + 2.0 * bandwidth * slower + bandwidth**2 * error
                if not abs(error) < lost:
                    return k
            rnea_one(robot, position, rate, wanted, workspace, torque)
            for j in range(n):
                torque[j] -= friction[k, j]
            if not forward_dynamics_one(robot, position, rate, torque, workspace, acceleration):
                return k
            if inner == 0:
                q[k] = position
                qd[k] = rate
                qdd[k] = acceleration
            for j in range(n):
                rate[j] += step * acceleration[j]
                position[j] += step * rate[j]
    return -1
