"""Trajectories by their definitions: which family a document names, and the trajectory it describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from core.errors import InputError
from core.excitation.bspline import CubicBSpline
from core.excitation.fourier import Fourier, FourierQuintic
from core.excitation.segments import Segments
from core.excitation.trajectory import Trajectory

_FAMILIES: Mapping[str, Callable[[Mapping[str, Any]], Trajectory]] = MappingProxyType(
    {kind.family: kind.from_definition for kind in (FourierQuintic, Fourier, CubicBSpline, Segments)}
)


def trajectory_from_definition(definition: Mapping[str, Any]) -> Trajectory:
    """Rebuild a trajectory from what its ``definition()`` returned.

    Raises
    ------
    InputError
        The family is unknown, a key is missing or unknown, or an array has the wrong shape.
    """
    family = definition.get("family")
    if not isinstance(family, str) or family not in _FAMILIES:
        raise InputError(
            f"unknown trajectory family {family!r}; known: {', '.join(sorted(_FAMILIES))}",
            code="trajectory-family-unknown",
        )
    return _FAMILIES[family](definition)
