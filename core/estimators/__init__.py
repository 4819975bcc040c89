"""Estimators in the manner of scikit-learn: parameters in the constructor, ``fit``, results with ``_``."""

from core.estimators.estimator import Estimator
from core.estimators.joint_factors import JointFactors
from core.estimators.least_squares import OrdinaryLeastSquares, WeightedLeastSquares
from core.estimators.registry import ESTIMATORS, make_estimator

__all__ = [
    "ESTIMATORS",
    "Estimator",
    "JointFactors",
    "OrdinaryLeastSquares",
    "WeightedLeastSquares",
    "make_estimator",
]
