"""From a recording to filtered signals on a uniform grid, and what was done on the way."""

from core.signals.preparation import Preparation, Segment, cut_before_stop, prepare
from core.signals.settings import SignalSettings

__all__ = ["Preparation", "Segment", "SignalSettings", "cut_before_stop", "prepare"]
