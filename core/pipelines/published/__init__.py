"""Published identification methods by name, composed from the identification core.

Each is a frozen dataclass: its fields are its settings, the published ones by default, and every step of it can be
switched by them. ``identify_by("coman_three_layer", model, train, validate)`` runs one.
"""

from core.pipelines.published.abc_arctan import AbcArctan, repeated
from core.pipelines.published.coman_three_layer import ComanThreeLayer
from core.pipelines.published.method import Method, Task
from core.pipelines.published.recursive_six_axis import RecursiveSixAxis
from core.pipelines.published.registry import METHODS, identify_by, published_method
from core.pipelines.published.result import Compensated, PublishedResult, mean_moving
from core.pipelines.published.ur10e_power_friction import Ur10ePowerFriction

__all__ = [
    "METHODS",
    "AbcArctan",
    "ComanThreeLayer",
    "Compensated",
    "Method",
    "PublishedResult",
    "RecursiveSixAxis",
    "Task",
    "Ur10ePowerFriction",
    "identify_by",
    "mean_moving",
    "published_method",
    "repeated",
]
