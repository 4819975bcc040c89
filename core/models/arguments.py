"""Arguments of a model's methods as the arrays that kernels take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError

Array = NDArray[np.float64]


def state_arrays(owner: str, width: int, **signals: ArrayLike) -> list[Array]:
    """Return equal (N, width), contiguous, writable arrays: the one type kernels are compiled for.

    Raises
    ------
    InputError
        A signal, named by its keyword, has another shape; (width,) counts as N = 1.
    """
    result: list[Array] = []
    for name, value in signals.items():
        array = np.require(np.atleast_2d(np.asarray(value, dtype=np.float64)), requirements=("C", "W"))
        if array.ndim != 2 or array.shape[1] != width:
            raise InputError(f"{owner}: {name} has shape {np.shape(value)}, expected (N, {width})")
        if result and array.shape != result[0].shape:
            first = next(iter(signals))
            raise InputError(f"{owner}: {name} has {len(array)} samples, but {first} has {len(result[0])}")
        result.append(array)
    return result


def shaped(value: ArrayLike, name: str, shape: Sequence[int]) -> Array:
    """Return an array of a given shape.

    Raises
    ------
    InputError
        It has another one.
    """
    array = np.asarray(value, dtype=np.float64)
    if array.shape != tuple(shape):
        raise InputError(f"{name} has shape {array.shape}, expected {tuple(shape)}")
    return array
