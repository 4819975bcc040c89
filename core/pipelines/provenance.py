"""Which software made a result."""

from __future__ import annotations

import platform
from importlib.metadata import version

_PACKAGES = ("dynid", "numpy", "scipy", "numba")


def software_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages whose numerics a result rests on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
