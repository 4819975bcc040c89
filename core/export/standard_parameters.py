"""From base parameters to the standard parameters of bodies, which simulators want."""

from __future__ import annotations

from core.errors import InputError
from core.estimators.consistent import ConsistentParameters, consistent_estimate
from core.estimators.observations import ParameterStructure
from core.models import serial_chain
from core.pipelines.identification import Identification

_TORQUE_UNITS = ("N·m", "N", "N·m, N")


def standard_parameters(identification: Identification) -> ConsistentParameters:
    """Return physically consistent standard parameters that an identification supports.

    If it was estimated with such parameters, they are those. Otherwise they are those nearest to the identified base
    parameters, in the metric of their covariance, that bodies can have; what no torque tells comes from the
    identification's own model, its prior. The result says which parameters that is.

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
    return consistent_estimate(structure, identification.parameters_, identification.covariance_)
