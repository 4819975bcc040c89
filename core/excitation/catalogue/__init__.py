"""Ready-made excitation trajectories, shipped as JSON documents with the limits they were designed for."""

from __future__ import annotations

import json
from importlib import resources

from core.errors import InputError
from core.excitation.definition import trajectory_from_definition
from core.excitation.trajectory import Trajectory


def catalogue_names() -> tuple[str, ...]:
    """Return the names of the ready-made trajectories."""
    entries = resources.files(__package__).iterdir()
    return tuple(sorted(e.name.removesuffix(".json") for e in entries if e.name.endswith(".json")))


def catalogue(name: str) -> Trajectory:
    """Return the ready-made trajectory ``name``.

    Raises
    ------
    InputError
        There is none of that name.
    """
    if name not in catalogue_names():
        raise InputError(
            f"no ready-made trajectory {name!r}; there are: {', '.join(catalogue_names())}",
            code="trajectory-unknown",
        )
    text = resources.files(__package__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    return trajectory_from_definition(json.loads(text)["definition"])
