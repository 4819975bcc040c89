"""Packages that only some file formats need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from core.errors import RecordingError


def optional_package(module: str, format: str) -> Any:
    """Import a module of the ``files`` extra.

    Raises
    ------
    RecordingError
        It is not installed (code ``extra-missing``).
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise RecordingError(
            f"files of format {format} need the package {module.partition('.')[0]}, which is not installed: "
            "pip install 'dynid[files]'",
            code="extra-missing",
            extra="files",
            format=format,
        ) from error
