"""Estimators by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from core.errors import InputError
from core.estimators.consistent import ConsistentLeastSquares
from core.estimators.estimator import Estimator
from core.estimators.instrumental import InstrumentalVariable
from core.estimators.least_squares import OrdinaryLeastSquares, WeightedLeastSquares
from core.estimators.recursive import RecursiveLeastSquares
from core.estimators.reweighted import GeneralisedLeastSquares, HuberRegression
from core.estimators.sequential import SequentialLeastSquares
from core.estimators.total_least_squares import TotalLeastSquares

ESTIMATORS: Mapping[str, type[Estimator]] = MappingProxyType(
    {
        "ols": OrdinaryLeastSquares,
        "wls": WeightedLeastSquares,
        "irls": GeneralisedLeastSquares,
        "huber": HuberRegression,
        "tls": TotalLeastSquares,
        "iv": InstrumentalVariable,
        "recursive": RecursiveLeastSquares,
        "sequential": SequentialLeastSquares,
        "consistent": ConsistentLeastSquares,
    }
)


def make_estimator(name: str, **params: Any) -> Estimator:
    """Return the estimator called ``name``, with parameters of its constructor.

    Raises
    ------
    InputError
        The name or a parameter is unknown.
    """
    if name not in ESTIMATORS:
        raise InputError(
            f"unknown estimator {name!r}; there are {', '.join(ESTIMATORS)}",
            code="estimator-unknown",
            known=list(ESTIMATORS),
        )
    return ESTIMATORS[name]().set_params(**params)
