"""Torque tables for known trajectories, ready for a controller to add to its own output."""

from core.feedforward.table import FeedforwardTable, Saturation, build_table

__all__ = ["FeedforwardTable", "Saturation", "build_table"]
