"""How well a model predicts torque, joint by joint, moving and standing samples apart."""

from core.validation.energy import EnergyBalance
from core.validation.errors import SUBSETS, TorqueErrors
from core.validation.jolts import Jolt, find_jolts
from core.validation.motion import PredictedMotion
from core.validation.report import ValidationReport, validation_report
from core.validation.sensitivity import torque_sensitivity
from core.validation.verdict import Verdict, judge
from core.validation.whiteness import Whiteness

__all__ = [
    "SUBSETS",
    "EnergyBalance",
    "Jolt",
    "PredictedMotion",
    "TorqueErrors",
    "ValidationReport",
    "Verdict",
    "Whiteness",
    "find_jolts",
    "judge",
    "torque_sensitivity",
    "validation_report",
]
