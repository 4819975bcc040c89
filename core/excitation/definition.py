"""Trajectories by their definitions: which family a document names, and the trajectory it describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from core.errors import InputError
from core.excitation import fields
from core.excitation.bspline import CubicBSpline
from core.excitation.fourier import Fourier, FourierQuintic
from core.excitation.segments import Segments
from core.excitation.trajectory import Trajectory


def trajectory_from_definition(definition: Mapping[str, Any]) -> Trajectory:
    """Rebuild a trajectory from what its ``definition()`` returned.

    Raises
    ------
    InputError
        The family is unknown, a key is missing or unknown, or an array has the wrong shape.
    """
    if not isinstance(definition, Mapping):
        raise InputError(f"a trajectory's definition is a mapping with a family, not {definition!r:.50}")
    family = definition.get("family")
    if not isinstance(family, str) or family not in _FAMILIES:
        raise InputError(
            f"unknown trajectory family {family!r}; known: {', '.join(sorted(_FAMILIES))}",
            code="trajectory-family-unknown",
        )
    return _FAMILIES[family](definition)


def _segments(definition: Mapping[str, Any]) -> Segments:
    fields.check_keys(Segments.family, definition, ("segments",))
    segments = definition["segments"]
    if isinstance(segments, str) or not isinstance(segments, Sequence):
        raise InputError(f"{Segments.family}: segments must be a list of definitions")
    for segment in segments:
        if not isinstance(segment, Mapping) or segment.get("family") == Segments.family:
            raise InputError(f"{Segments.family}: every segment must be the definition of one trajectory")
    return Segments(tuple(trajectory_from_definition(segment) for segment in segments))


_FAMILIES: Mapping[str, Callable[[Mapping[str, Any]], Trajectory]] = MappingProxyType(
    {
        **{kind.family: kind.from_definition for kind in (FourierQuintic, Fourier, CubicBSpline)},
        Segments.family: _segments,
    }
)
