"""The service's end of the line to a device host: the process, its messages, its last words."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

from drivers.contract import DriverError
from service.devices.messages import Done, Failed, FromHost, Message, from_host, line
from service.logs import about

SILENCE_LIMIT = 1.5  # s without a report from a host that has reported before
LAST_LOOK = 0.1  # s more for what it said while this process itself was held up
START_LIMIT = 60.0  # s until its first report; the first start on a machine compiles
EXIT_TIMEOUT = 10.0  # s for a host to stop a motion and end; then it is killed
WORDS_KEPT = 20  # lines of stderr


class HostGone(DriverError):  # noqa: N818 - what happened, like its siblings
    """The device host ended before it answered."""

    code = "device-host-gone"


class HostLink:
    """One device host process from its start to its end; a new process gets a new link."""

    def __init__(
        self,
        robot: str,
        process: subprocess.Popen[str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._robot = robot
        self._process = process
        self._reader = reader
        self._writer = writer
        self._log = logging.getLogger(f"service.devices.{robot}")
        self._calls: dict[int, tuple[type[DriverError], asyncio.Future[int | None]]] = {}
        self._numbers = itertools.count(1)
        self._words: deque[str] = deque(maxlen=WORDS_KEPT)
        self._silence: float | None = None  # s, after which it was given up
        self._hung_up = False  # the host, of itself
        self.heard = False  # anything yet; a host that starts takes its time
        threading.Thread(target=self._hear_words, name=f"{robot}-words", daemon=True).start()

    @classmethod
    async def open(cls, robot: str) -> Self:
        """Start the process; it has a session of its own, so that Ctrl-C reaches only the service.

        Raises
        ------
        OSError
            The machine cannot start a process.
        """
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-m", "service.devices.host", "--link", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except OSError:
            writer.close()
            raise
        return cls(robot, process, reader, writer)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Message) -> None:
        """Send, if the host is still there; whether it is, `messages` tells."""
        if not self._writer.is_closing():
            self._writer.write(line(message))

    def kill(self) -> None:
        """End the process at once; `messages` then ends too."""
        self._process.kill()

    def call(self, make: Callable[[int], Message], failure: type[DriverError]) -> asyncio.Future[int | None]:
        """Send ``make(number)`` at once; the future is that of the answer to that number: a version, mostly None.

        It raises ``failure`` with the host's code and words, or `HostGone`. A host that is starting answers when
        it has started, one that hangs when it was ended: whoever cannot wait so long sets a limit.
        """
        number = next(self._numbers)
        answer: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._calls[number] = failure, answer
        answer.add_done_callback(lambda _: self._calls.pop(number))
        self.send(make(number))
        return answer

    async def messages(self) -> AsyncIterator[FromHost]:
        """Yield what the host says, except answers to calls, until it ends or falls silent (then kill it)."""
        limit = START_LIMIT
        with contextlib.suppress(ConnectionError):
            while True:
                received = await self._line_within(limit)
                if received is None:
                    self._silence = limit
                    return
                if not received:
                    break
                message = from_host.validate_json(received)
                limit = SILENCE_LIMIT
                self.heard = True
                if isinstance(message, Done | Failed):
                    self._answer(message)
                else:
                    yield message
        self._hung_up = True

    async def _line_within(self, limit: float) -> bytes | None:
        """Return the next line, None when the host says nothing for so long.

        After a pause of this process the time is over before what has come meanwhile is looked at.
        """
        for patience in (limit, LAST_LOOK):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    return await self._reader.readline()
        return None

    async def close(self) -> str:
        """Wait for the end of a process that has hung up, end any other; return how it ended."""
        if not self._hung_up:
            self._process.kill()
        try:
            await asyncio.to_thread(self._process.wait, EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
        how = self._how_it_ended()
        for _, answer in list(self._calls.values()):
            if not answer.done():
                answer.set_exception(HostGone(f"{self._robot}: {how}"))
        return how

    def _how_it_ended(self) -> str:
        code = self._process.returncode
        if self._silence is not None:
            return f"the device host said nothing for {self._silence:g} s and was ended"
        if code < 0:
            return f"the device host was ended by signal {signal.Signals(-code).name}"
        words = f": {self._words[-1]}" if self._words else ""
        return f"the device host ended with exit code {code}{words}"

    def _answer(self, message: Done | Failed) -> None:
        failure, answer = self._calls.get(message.call, (DriverError, None))
        if answer is None or answer.done():
            return
        if isinstance(message, Done):
            answer.set_result(message.version)
        else:
            context: dict[str, Any] = message.context
            answer.set_exception(failure(message.detail, code=message.code, **context))

    def _hear_words(self) -> None:
        """Pass the host's stderr on to the log; a thread, since its children keep it open after its death."""
        assert self._process.stderr is not None  # noqa: S101 - it is a pipe
        with self._process.stderr as stderr, about(robot=self._robot):
            levels = logging.getLevelNamesMapping()
            for words in stderr:
                level, _, text = words.rstrip().partition(" ")
                if level not in levels:
                    level, text = "INFO", words.rstrip()
                self._words.append(text)
                self._log.log(levels[level], "%s", text)
