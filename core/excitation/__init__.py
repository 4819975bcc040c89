"""Excitation trajectories: families with exact derivatives, and the check that precedes any motion."""

from core.excitation.catalogue import catalogue, catalogue_names
from core.excitation.definition import trajectory_from_definition
from core.excitation.fourier import FourierQuintic
from core.excitation.motion_check import LimitMargin, MotionReport, check_motion
from core.excitation.trajectory import Trajectory, TrajectorySamples

__all__ = [
    "FourierQuintic",
    "LimitMargin",
    "MotionReport",
    "Trajectory",
    "TrajectorySamples",
    "catalogue",
    "catalogue_names",
    "check_motion",
    "trajectory_from_definition",
]
