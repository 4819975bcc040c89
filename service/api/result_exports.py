"""Results as files of other programs, made by the workers: the process that answers requests computes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor
from enum import StrEnum
from importlib.metadata import version
from typing import Any

from service.jobs.computations import export_result


class ExportFormat(StrEnum):
    """Representations of a result for other programs."""

    URDF = "urdf"
    TOML = "toml"
    C = "c"
    CSV = "csv"
    JSON = "json"


MEDIA_TYPES: Mapping[ExportFormat, str] = {
    ExportFormat.URDF: "application/xml",
    ExportFormat.TOML: "application/toml",
    ExportFormat.C: "text/x-c",
    ExportFormat.CSV: "text/csv",
    ExportFormat.JSON: "application/json",
}
ENDINGS: Mapping[ExportFormat, str] = {ExportFormat.C: "h"}
"""Of files whose name ends in something else than the format's."""


class ResultExports:
    """Has results exported, one at a time: the process that the pool has to spare is the motion checks' as well."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._turn = asyncio.Lock()

    async def text(self, document: dict[str, Any], form: ExportFormat, allow_deviation: float | None) -> str:
        """Return a result's document as the text of a file; errors as of ``core.export.export``."""
        async with self._turn:
            future = self._executor.submit(export_result, document, form.value, allow_deviation)
            return await asyncio.wrap_future(future)


def etag_of(result_id: str, form: ExportFormat, allow_deviation: float | None) -> str:
    """Return a strong entity tag. A result never changes, but another version may write it differently."""
    allowed = "" if allow_deviation is None else f"-{allow_deviation!r}"
    return f'"{result_id}-{form}{allowed}-{version("dynid")}"'


def file_name(result_id: str, form: ExportFormat) -> str:
    """Return what to call the file."""
    return f"{result_id}.{ENDINGS.get(form, form.value)}"
