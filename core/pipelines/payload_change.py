"""The payload of a robot from two identifications: without it and with it."""

from __future__ import annotations

import numpy as np

from core.errors import IdentificationError, InputError
from core.pipelines.identification import Identification
from core.pipelines.payload import Payload, payload_of, visible_parameters


def payload_from_change(bare: Identification, loaded: Identification) -> Payload:
    """Estimate a payload from the change of the base parameters that it brings.

    Base parameters b change by ``A x``, x the payload's inertial parameters and A a constant of the geometry, so that
    x follows by least squares weighted with both covariances. Of a 6-UPRU robot ten of them, those of the platform,
    change; that the others do not is made use of as well.

    Parameters
    ----------
    bare, loaded : the same robot without and with the payload, in N·m (N). What friction owes to the load is its own
        matter in each; ``identify_payload`` does better where it grows with the load.

    Raises
    ------
    InputError
        The results are of different robots, or have different base parameters.
    IdentificationError
        A result is in A, so that masses have no scale.
    """
    if "A" in (bare.unit, loaded.unit):
        raise IdentificationError(
            "a result is in A: without drive gains a payload has no scale; give gains",
            code="gains-undetermined",
        )
    geometry = [result.model.with_parameters(np.zeros(result.model.n_parameters)) for result in (bare, loaded)]
    if geometry[0].digest() != geometry[1].digest() or bare.base.base_names != loaded.base.base_names:
        raise InputError(
            f"the results are of {bare.model.name} and {loaded.model.name} with other geometry, gravity, limits, gains "
            "or base parameters; identify the same robot twice, in the same way",
            code="models-differ",
        )
    visible = visible_parameters(bare.model)
    count = bare.base.count
    changes = bare.base.projection[:, bare.model.moved_body.columns][:, visible.independent]
    spread = bare.covariance_[:count, :count] + loaded.covariance_[:count, :count]
    whitening = np.linalg.inv(np.linalg.cholesky(spread))
    change = whitening @ (loaded.parameters_ - bare.parameters_)[:count]
    covariance = np.asarray(np.linalg.inv(changes.T @ whitening.T @ whitening @ changes), dtype=np.float64)
    values = covariance @ (changes.T @ whitening.T @ change)
    return payload_of(bare.model, visible, values, covariance, f"of both results: {bare.covariance_kind}")
