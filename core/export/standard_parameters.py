"""From base parameters to the standard parameters of bodies, which simulators want."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.dynamics.base_parameters import random_states
from core.errors import InputError
from core.estimators.consistent import ConsistentParameters, consistent_estimate
from core.estimators.observations import ParameterStructure
from core.models import serial_chain
from core.pipelines.identification import Identification

Array = NDArray[np.float64]

_TORQUE_UNITS = ("N·m", "N", "N·m, N")
_STATES, _SEED = 300, 0


def standard_parameters(identification: Identification) -> ConsistentParameters:
    """Return physically consistent standard parameters that an identification supports.

    If it was estimated with such parameters, they are those. Otherwise they are the nearest that bodies can have: near
    by the covariance of what was identified, and by the torque in random states, in which a parameter that is hardly
    known may matter. What no torque tells comes from the identification's own model, its prior; the result says which
    parameters that is. ``torque_deviation`` tells what the torque owes to it.

    Raises
    ------
    InputError
        The result is in A, since no drive gains were known (code ``unit-not-torque``).
    IdentificationError
        No such parameters are found.
    """
    if identification.unit not in _TORQUE_UNITS:
        raise InputError(
            f"the result is in {identification.unit}, not in N·m, so its parameters are no masses and inertias; "
            "identify with drive gains",
            code="unit-not-torque",
        )
    if identification.consistent:
        found = identification.consistent
        model = serial_chain(identification.model, "a physically consistent estimate")
        standard = found["standard_parameters"]
        return ConsistentParameters(
            chain=model.with_parameters([standard[name] for name in model.parameter_names]),
            coef=identification.parameters_,
            covariance=identification.covariance_,
            not_identified=tuple(found["not_identified"]),
            on_bound=tuple(found["on_bound"]),
            made_up=tuple(found["made_up"]),
        )
    explained = identification.torque_model
    structure = ParameterStructure(explained.chain, explained.base, explained.names, explained.nonnegative)
    torques = _torque_rows(identification)
    return consistent_estimate(structure, identification.parameters_, identification.covariance_, kept=torques)


def _torque_rows(identification: Identification) -> Array:
    """Return rows (r, p) that multiply the parameters to torques in random states, in units of the residual."""
    model = serial_chain(identification.model, "a model of bodies")
    states = random_states(model, _STATES, _SEED)
    columns = identification.base.columns(model.regressor(*states)) / identification.residual_std_[:, None]
    rows = np.zeros((_STATES * model.n_joints, len(identification.names)))
    rows[:, : identification.base.count] = columns.reshape(len(rows), -1)
    return rows
