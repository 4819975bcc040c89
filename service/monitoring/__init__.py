"""The live stream beside the model in force: does a robot drift while it works?"""

from service.monitoring.watch import DriftState, DriftWatch, open_watches

__all__ = ["DriftState", "DriftWatch", "open_watches"]
