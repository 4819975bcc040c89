"""The command mailbox of a unit: off unless the settings name the commands that are permitted.

Nothing here arms a robot or resets a fault by its number in a register. A calibration moves one, and only where the
settings permit that command and say along which profile: Modbus does not say who asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from pymodbus.constants import ExcCodes

from core.errors import DynidError
from service.api.rate_limit import RateLimit
from service.modbus.register_map import MAILBOX, UNKNOWN, Answer, Command

log = logging.getLogger(__name__)

Handler = Callable[[int], Awaitable[Answer]]
"""Carries out a command with its argument. A DynidError it raises is logged and answered with ``FAILED``."""

_REQUEST = MAILBOX.address("request")
_ANSWER = MAILBOX.address("answered")
_COMMANDS_PER_SECOND, _COMMANDS_AT_ONCE = 1.0, 10


class Mailbox:
    """Carries out one command at a time, and so many a second that they do not fill the audit.

    Parameters
    ----------
    handlers : of the commands that the settings permit.
    """

    def __init__(self, handlers: Mapping[Command, Handler]) -> None:
        self.enabled = bool(handlers)
        self._handlers = handlers
        self._request = 0
        self._answer = Answer.NONE
        self._acknowledged = UNKNOWN
        self._task: asyncio.Task[None] | None = None
        self._rate = RateLimit(per_second=_COMMANDS_PER_SECOND, burst=_COMMANDS_AT_ONCE)

    def write(self, address: int, words: list[int], registers: list[int]) -> ExcCodes | None:
        """Take what is about to be written at ``address``; a command begins when its request number changes."""
        if not address <= _REQUEST < address + len(words):
            return None
        merged = registers[: MAILBOX.registers]
        merged[address : address + len(words)] = words
        command, high, low, request = merged[:4]
        if request == self._request:
            return None
        if self._answer is Answer.PENDING or not self._rate.allows("mailbox"):
            return ExcCodes.DEVICE_BUSY
        self._request = request
        self._begin(command, high << 16 | low)
        return None

    def render(self, registers: list[int]) -> None:
        """Write the answer into the holding registers."""
        words = MAILBOX.encode({"answered": self._request, "answer": self._answer, "acknowledged": self._acknowledged})
        registers[_ANSWER : _ANSWER + len(words)] = words

    async def close(self) -> None:
        """Wait for a command that is under way."""
        if self._task is not None:
            await self._task

    def _begin(self, command: int, argument: int) -> None:
        if command not in [*Command]:
            self._answer = Answer.UNKNOWN_COMMAND
        elif command not in self._handlers:
            self._answer = Answer.NOT_PERMITTED
        else:
            self._answer = Answer.PENDING
            self._task = asyncio.create_task(self._run(Command(command), argument), name="command over Modbus")

    async def _run(self, command: Command, argument: int) -> None:
        answer = Answer.FAILED
        try:
            answer = await self._handlers[command](argument)
            if command is Command.ACKNOWLEDGE and answer is Answer.DONE:
                self._acknowledged = argument
        except DynidError as error:
            log.error("%s over Modbus: %s", command.name.lower(), error.detail)  # noqa: TRY400 - the text says it all
        finally:
            self._answer = answer
