"""Robot models: what identification knows of a robot before any data, and where it comes from."""

from core.models.chain import SerialChain
from core.models.leg_drives import LegDrives
from core.models.limits import JointLimits
from core.models.loading import catalogue, catalogue_names, load, model_from_document, resolve, serial_chain
from core.models.mechanism import Mechanism
from core.models.six_upru import SixUPRU

__all__ = [
    "JointLimits",
    "LegDrives",
    "Mechanism",
    "SerialChain",
    "SixUPRU",
    "catalogue",
    "catalogue_names",
    "load",
    "model_from_document",
    "resolve",
    "serial_chain",
]
