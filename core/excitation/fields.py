"""Reading the fields of trajectory definitions, which come from files and requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError

Array = NDArray[np.float64]


def check_keys(family: str, definition: Mapping[str, Any], expected: Sequence[str]) -> None:
    """Refuse a definition with missing or unknown keys."""
    given, keys = set(definition) - {"family"}, set(expected)
    if given != keys:
        raise InputError(
            f"{family}: expected the keys {sorted(keys)}; "
            f"missing {sorted(keys - given)}, unknown {sorted(given - keys)}"
        )


def seconds(family: str, definition: Mapping[str, Any], name: str) -> float:
    """Return a number of seconds."""
    value = definition[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{family}: {name} must be a number of seconds, got {value!r}")
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(f"{family}: {name} is too large a number") from error


def array(family: str, name: str, value: Any) -> Array:
    """Return a read-only array of finite numbers."""
    try:
        numbers = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{family}: {name} is not a rectangular array of numbers") from error
    if not np.all(np.isfinite(numbers)):
        raise InputError(f"{family}: {name} holds a value that is not finite")
    numbers.flags.writeable = False
    return numbers
