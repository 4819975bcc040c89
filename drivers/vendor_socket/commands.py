"""The command channel: texts of the layout, filled in, sent, and their answers judged."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from drivers.contract import (
    ControllerInfo,
    ControllerNotReady,
    DriverProtocolError,
    DriverTimeout,
    UnsupportedController,
)
from drivers.vendor_socket.command_layout import Commands, Text
from drivers.vendor_socket.connection import context, lost, open_connection
from drivers.vendor_socket.layout import Layout

REPLY_TIMEOUT = 2.0  # s
LONGEST_REPLY = 1 << 16
SHOWN = 200  # characters of a reply
VIRTUAL = "VIRTUAL"  # in the model's name of a controller that moves no real robot
_DEGREES = 57.29577951308232


class CommandChannel:
    """One connection to a controller's command port; for one thread.

    Raises
    ------
    DriverUnreachable, UnsupportedController
    """

    def __init__(self, host: str, layout: Layout) -> None:
        if layout.commands is None:
            raise UnsupportedController(f"{host}: layout '{layout.name}' describes no commands")
        self._host = host
        self._commands: Commands = layout.commands
        self._factor = 1.0 if self._commands.angle == "rad" else _DEGREES
        self._numbers = itertools.count(1)
        self._rest = ""
        self._socket = open_connection(host, self._commands.port, "command")

    def has(self, name: str) -> bool:
        """Tell whether the layout has a text for this."""
        return self._commands.texts.get(name) is not None

    def ask(self, name: str, **values: float) -> str:
        """Send the text ``name``, filled in with ``values``, and return the reply; '' where none is due.

        Raises
        ------
        ControllerNotReady
            The controller refuses, in its own words.
        DriverTimeout, ConnectionLost, UnsupportedController
        """
        text = self._text(name)
        self.send(name, **values)
        if not text.replies:
            return ""
        reply = self._reply(name)
        if re.search(text.accepted or self._commands.accepted, reply) is None:
            raise ControllerNotReady(
                f"{self._where}: '{name}' was refused: {reply.strip()[:SHOWN]}",
                code="command-refused",
                **context(self._host, self._commands.port),
            )
        return reply

    def send(self, name: str, **values: float | Iterable[float]) -> None:
        """Send the text ``name``; angles in ``q`` and ``qd`` are in rad and rad/s."""
        text = self._text(name).text.replace("<id>", str(next(self._numbers)))
        for key, value in values.items():
            shown = f"{value:.10g}" if isinstance(value, int | float) else self._joints(value)
            text = text.replace(f"<{key}>", shown)
        try:
            self._socket.sendall((text + self._commands.end).encode())
        except OSError as error:
            raise lost(self._host, self._commands.port, error.strerror or str(error)) from error

    def drain(self) -> None:
        """Forget replies to what was not asked for, such as to servo points; raises `ConnectionLost`."""
        self._socket.setblocking(False)
        try:
            while data := self._socket.recv(LONGEST_REPLY):
                self._rest = ""
                del data
        except BlockingIOError:
            return
        except OSError as error:
            raise lost(self._host, self._commands.port, error.strerror or str(error)) from error
        raise lost(self._host, self._commands.port, "the controller closed it")

    def identity(self) -> ControllerInfo:
        """Ask the controller who it is; what the layout cannot read stays unknown."""
        reply = self.ask("read_state") if self.has("read_state") else ""
        found: dict[str, str | None] = {}
        for key, expression in self._commands.identity:
            match = re.search(expression, reply) if expression is not None else None
            found[key] = None if match is None else match.group(1)
        model = found["model"]
        virtual = None if model is None else VIRTUAL in model
        return ControllerInfo(found["version"] or "unknown", found["serial"], model, virtual)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _where(self) -> str:
        return f"{self._host}:{self._commands.port}"

    def _text(self, name: str) -> Text:
        text = self._commands.texts.get(name)
        if text is None:
            raise UnsupportedController(f"{self._where}: the layout has no command '{name}'")
        return text

    def _joints(self, values: Iterable[float]) -> str:
        return ",".join(f"{self._factor * value:.9f}" for value in values)

    def _reply(self, name: str) -> str:
        """Return the next reply, whole."""
        deadline = time.monotonic() + REPLY_TIMEOUT
        while self._commands.reply_end not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0.0:
                raise DriverTimeout(
                    f"{self._where}: no reply to '{name}' within {REPLY_TIMEOUT:g} s",
                    **context(self._host, self._commands.port),
                )
            if len(self._rest) > LONGEST_REPLY:
                raise DriverProtocolError(
                    f"{self._where}: a reply to '{name}' that does not end: {self._rest[:SHOWN]!r}",
                    **context(self._host, self._commands.port),
                )
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(4096)
            except TimeoutError:
                continue
            except OSError as error:
                raise lost(self._host, self._commands.port, error.strerror or str(error)) from error
            if not data:
                raise lost(self._host, self._commands.port, "the controller closed it")
            self._rest += data.decode(errors="replace")
        reply, end, self._rest = self._rest.partition(self._commands.reply_end)
        return reply + end
