"""The command channel: texts of the layout, filled in, sent, and their answers judged."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

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
        self._number = 0
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
        sent = self._send(text, values)
        if not text.replies:
            return ""
        deadline = time.monotonic() + REPLY_TIMEOUT
        reply = self._reply(deadline)
        while reply is not None and not self._belongs(reply, text, sent):
            reply = self._reply(deadline)
        if reply is None:
            raise DriverTimeout(f"{self._where}: no reply to '{name}' within {REPLY_TIMEOUT:g} s", **self._context)
        self._refuse_unless_accepted(name, text, reply)
        return reply

    def stream(self, name: str, **values: float | Iterable[float]) -> None:
        """Send the text ``name`` without waiting; angles in ``q`` and ``qd`` are in rad and rad/s.

        Raises
        ------
        ControllerNotReady
            What was streamed before was refused.
        ConnectionLost, UnsupportedController
        """
        text = self._text(name)
        self._send(text, values)
        while (reply := self._reply(0.0)) is not None:
            self._refuse_unless_accepted(name, text, reply)

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

    @property
    def _context(self) -> dict[str, Any]:
        return context(self._host, self._commands.port)

    def _text(self, name: str) -> Text:
        text = self._commands.texts.get(name)
        if text is None:
            raise UnsupportedController(f"{self._where}: the layout has no command '{name}'")
        return text

    def _send(self, text: Text, values: Mapping[str, float | Iterable[float]]) -> str:
        """Fill in and send a text, under the next number; return what was sent."""
        self._number += 1
        sent = text.text.replace("<id>", str(self._number))
        for key, value in values.items():
            shown = f"{value:.10g}" if isinstance(value, int | float) else self._joints(value)
            sent = sent.replace(f"<{key}>", shown)
        try:
            self._socket.settimeout(REPLY_TIMEOUT)
            self._socket.sendall((sent + self._commands.end).encode())
        except OSError as error:
            raise lost(self._host, self._commands.port, error.strerror or str(error)) from error
        return sent

    def _joints(self, values: Iterable[float]) -> str:
        return ",".join(f"{self._factor * value:.9f}" for value in values)

    def _belongs(self, reply: str, text: Text, sent: str) -> bool:
        """Tell whether this is the answer to what was just sent, or to something before it."""
        answers = text.answers or self._commands.answers
        if answers is None:
            return True
        expected = answers.replace("<id>", str(self._number)).replace("<text>", re.escape(sent))
        return re.search(expected, reply) is not None

    def _refuse_unless_accepted(self, name: str, text: Text, reply: str) -> None:
        if re.search(text.accepted or self._commands.accepted, reply) is None:
            raise ControllerNotReady(
                f"{self._where}: '{name}' was refused: {reply.strip()[:SHOWN]}", code="command-refused", **self._context
            )

    def _reply(self, deadline: float) -> str | None:
        """Return the next reply, whole; None when there is none by ``deadline``, a ``time.monotonic()``."""
        while self._commands.reply_end not in self._rest:
            if len(self._rest) > LONGEST_REPLY:
                raise DriverProtocolError(
                    f"{self._where}: a reply that does not end: {self._rest[:SHOWN]!r}", **self._context
                )
            self._socket.settimeout(max(0.0, deadline - time.monotonic()))
            try:
                data = self._socket.recv(4096)
            except (TimeoutError, BlockingIOError):
                return None
            except OSError as error:
                raise lost(self._host, self._commands.port, error.strerror or str(error)) from error
            if not data:
                raise lost(self._host, self._commands.port, "the controller closed it")
            self._rest += data.decode(errors="replace")
        reply, end, self._rest = self._rest.partition(self._commands.reply_end)
        return reply + end
