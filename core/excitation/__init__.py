"""Excitation trajectories: families with exact derivatives, their design, the check that precedes any motion.

The design itself is ``core.excitation.design``, imported where it is needed: it brings optimisers along.
"""

from core.excitation.bspline import CubicBSpline
from core.excitation.catalogue import catalogue, catalogue_names
from core.excitation.definition import trajectory_from_definition
from core.excitation.fourier import Fourier, FourierQuintic
from core.excitation.motion_check import Clearance, LimitMargin, MotionReport, check_motion
from core.excitation.segments import Segments
from core.excitation.trajectory import Trajectory, TrajectorySamples
from core.excitation.workspace import Workspace

__all__ = [
    "Clearance",
    "CubicBSpline",
    "Fourier",
    "FourierQuintic",
    "LimitMargin",
    "MotionReport",
    "Segments",
    "Trajectory",
    "TrajectorySamples",
    "Workspace",
    "catalogue",
    "catalogue_names",
    "check_motion",
    "trajectory_from_definition",
]
