"""How well a model predicts torque, joint by joint, moving and standing samples apart."""

from core.validation.errors import SUBSETS, TorqueErrors
from core.validation.jolts import Jolt, find_jolts
from core.validation.report import PredictedMotion, ValidationReport, validation_report
from core.validation.verdict import Verdict, judge

__all__ = [
    "SUBSETS",
    "Jolt",
    "PredictedMotion",
    "TorqueErrors",
    "ValidationReport",
    "Verdict",
    "find_jolts",
    "judge",
    "validation_report",
]
