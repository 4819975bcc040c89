"""Estimators in the manner of scikit-learn: parameters in the constructor, ``fit``, results with ``_``."""

from core.estimators.coloured import ColouredCovariance, coloured_covariance
from core.estimators.consistent import (
    ConsistentLeastSquares,
    ConsistentParameters,
    consistent_estimate,
    consistent_parameters,
)
from core.estimators.estimator import Estimator, FactorEstimator
from core.estimators.instrumental import InstrumentalVariable
from core.estimators.joint_factors import JointFactors
from core.estimators.least_squares import OrdinaryLeastSquares, WeightedLeastSquares
from core.estimators.observations import Block, Observations, ParameterStructure
from core.estimators.prior import PriorLeastSquares
from core.estimators.recursive import RecursiveLeastSquares
from core.estimators.registry import ESTIMATORS, make_estimator
from core.estimators.reweighted import GeneralisedLeastSquares, HuberRegression
from core.estimators.sequential import SequentialLeastSquares
from core.estimators.total_least_squares import TotalLeastSquares

__all__ = [
    "ESTIMATORS",
    "Block",
    "ColouredCovariance",
    "ConsistentLeastSquares",
    "ConsistentParameters",
    "Estimator",
    "FactorEstimator",
    "GeneralisedLeastSquares",
    "HuberRegression",
    "InstrumentalVariable",
    "JointFactors",
    "Observations",
    "OrdinaryLeastSquares",
    "ParameterStructure",
    "PriorLeastSquares",
    "RecursiveLeastSquares",
    "SequentialLeastSquares",
    "TotalLeastSquares",
    "WeightedLeastSquares",
    "coloured_covariance",
    "consistent_estimate",
    "consistent_parameters",
    "make_estimator",
]
