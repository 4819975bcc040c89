"""Checked, read-only arrays as fields of frozen dataclasses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.errors import ModelError


def freeze(owner: object, name: str, shape: Sequence[int], *, finite: bool = True) -> None:
    """Replace an attribute by a checked, read-only copy of itself."""
    try:
        array = np.array(getattr(owner, name), dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ModelError(f"{name} is not an array of numbers: {error}") from error
    if array.shape != tuple(shape):
        raise ModelError(f"{name} has shape {array.shape}, expected {tuple(shape)}")
    bad = ~np.isfinite(array) if finite else np.isnan(array)
    if np.any(bad):
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ModelError(f"{name}{list(index)} is {array[index]}, not a usable number")
    array.setflags(write=False)
    object.__setattr__(owner, name, array)
