"""The wrench on a platform, live: the workers make it of the newest samples, and it is sent on as events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from concurrent.futures import Executor
from dataclasses import asdict
from typing import Any

from core.errors import DynidError
from service.api.models import WrenchView
from service.api.sse import Event
from service.devices import DeviceSupervisor
from service.errors import ConflictError
from service.jobs.parallel_robots import WrenchEstimate, estimate_wrench, platform_of_result
from service.storage import ResultRow

LARGEST_RATE = 25.0
"""Estimates per second: each takes a worker some milliseconds."""


class WrenchEstimator:
    """Has the wrenches of one platform estimated.

    Parameters
    ----------
    executor : the process that it has to spare is the motion checks' and exports' as well.
    platform : as of ``platform_of_result``.
    sensors : tares and gains that the result was identified with, if any.
    """

    def __init__(
        self, executor: Executor, platform: dict[str, Any], sensors: dict[str, Any] | None, device: DeviceSupervisor
    ) -> None:
        self._executor = executor
        self._arguments = {**platform, "sensors": sensors}
        self._device = device

    @classmethod
    async def open(cls, executor: Executor, result: ResultRow, device: DeviceSupervisor) -> WrenchEstimator:
        """Take the platform from a result of its sensors; InputError ``sensors-needed`` for any other."""
        platform = await asyncio.wrap_future(executor.submit(platform_of_result, result.document))
        return cls(executor, platform, result.settings.get("sensors"), device)

    async def now(self) -> WrenchView:
        """Return the newest estimate.

        Raises
        ------
        ConflictError
            ``wrench-unknown``: no samples come, or some are missing from the last tenth of a second.
        DynidError
            Samples come without forces, or no pose has these leg lengths.
        """
        status = self._device.status
        found: WrenchEstimate | None = None
        if status.connection == "streaming":
            asked = {**self._arguments, "ring": status.ring_path, "rate_hz": status.rate_hz}
            found = await asyncio.wrap_future(self._executor.submit(estimate_wrench, **asked))
        if found is None:
            raise ConflictError(
                f"{status.robot} is {status.connection}, and the wrench on it unknown: it takes a tenth of a second of "
                "samples none of which is missing; ask again",
                code="wrench-unknown",
                robot=status.robot,
            )
        return WrenchView.model_validate(asdict(found))


async def wrench_events(estimator: WrenchEstimator, rate_hz: float) -> AsyncGenerator[Event]:
    """Yield a ``wrench`` event ``rate_hz`` times a second, or a ``problem`` event that says why there is none."""
    due = time.monotonic()
    while True:
        try:
            yield Event("wrench", await estimator.now())
        except DynidError as error:
            yield Event("problem", {"code": error.code, "detail": error.detail})
        due = max(due + 1.0 / rate_hz, time.monotonic())
        await asyncio.sleep(due - time.monotonic())
