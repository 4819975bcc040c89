"""From a recording to filtered signals on a uniform grid, and what was done on the way."""

from core.signals.delay import EffortDelay, estimate_delay
from core.signals.marking import Marks, mark_samples
from core.signals.preparation import cut_before_stop, prepare
from core.signals.segment import Preparation, Segment
from core.signals.settings import SignalSettings

__all__ = [
    "EffortDelay",
    "Marks",
    "Preparation",
    "Segment",
    "SignalSettings",
    "cut_before_stop",
    "estimate_delay",
    "mark_samples",
    "prepare",
]
