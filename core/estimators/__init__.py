"""Estimators in the manner of scikit-learn: parameters in the constructor, ``fit``, results with ``_``."""

from core.estimators.estimator import Estimator, FactorEstimator
from core.estimators.joint_factors import JointFactors
from core.estimators.least_squares import OrdinaryLeastSquares, WeightedLeastSquares
from core.estimators.observations import Block, Observations, ParameterStructure
from core.estimators.registry import ESTIMATORS, make_estimator

__all__ = [
    "ESTIMATORS",
    "Block",
    "Estimator",
    "FactorEstimator",
    "JointFactors",
    "Observations",
    "OrdinaryLeastSquares",
    "ParameterStructure",
    "WeightedLeastSquares",
    "make_estimator",
]
