"""The dashboard server (TCP 29999): one line in, one line out.

It works beside a running program and without RTDE, so it is the second way to stop the robot.
"""

from __future__ import annotations

import re
import socket
import time
from types import TracebackType
from typing import Any, Self

from drivers.contract import (
    ConnectionLost,
    ControllerNotReady,
    DriverProtocolError,
    DriverTimeout,
    DriverUnreachable,
    ProtectiveStop,
)

PORT = 29999
TIMEOUT = 2.0  # s, to connect and for every answer
SAFE = ("NORMAL", "REDUCED")  # safety statuses in which the robot may move
OLDEST_WITH_REMOTE_CONTROL = (5, 6)
_RECEIVE_BYTES = 4096


class Dashboard:
    """A connection, used as a context manager and by one thread.

    Raises
    ------
    DriverUnreachable
        Nothing answers at ``host``, on entering.
    DriverTimeout, ConnectionLost, DriverProtocolError
        The server does not answer, goes away, or answers something else, on any call.
    """

    def __init__(self, host: str, timeout: float = TIMEOUT) -> None:
        self.host = host
        self._timeout = timeout
        self._socket: socket.socket | None = None
        self._received = b""

    def __enter__(self) -> Self:
        try:
            self._socket = socket.create_connection((self.host, PORT), self._timeout)
        except OSError as error:
            raise DriverUnreachable(
                f"{self._where}: {error.strerror or error}; check that the controller is on and that its "
                "dashboard server is enabled in the security settings",
                **self._context,
            ) from error
        try:
            self._expect(self._line(), "Connected")
        except Exception:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, command: str) -> str:
        """Send a command, return the answer without its line end."""
        if self._socket is None:
            raise ConnectionLost(f"{self._where}: not connected", **self._context)
        try:
            self._socket.sendall(command.encode("ascii") + b"\n")
        except OSError as error:
            raise self._lost(error.strerror or str(error)) from error
        return self._line()

    # --- questions -------------------------------------------------------------------------------------

    def version(self) -> tuple[int, int, int]:
        """Return PolyScope's version: major, minor, bugfix."""
        answer = self.ask("PolyscopeVersion")
        found = re.search(r"(\d+)\.(\d+)\.(\d+)", answer)
        if found is None:
            raise self._unexpected("PolyscopeVersion", answer)
        return int(found[1]), int(found[2]), int(found[3])

    def serial_number(self) -> str | None:
        """Return the robot's serial number; None on a PolyScope that cannot tell (before 5.6)."""
        answer = self.ask("get serial number")
        return None if answer.startswith("could not understand") else answer

    def robot_model(self) -> str | None:
        """Return e.g. ``UR10``; None on a PolyScope that cannot tell (before 5.6)."""
        answer = self.ask("get robot model")
        return None if answer.startswith("could not understand") else answer

    def remote_control(self) -> bool:
        """True when the controller takes programs from the network; always so before PolyScope 5.6."""
        if self.version()[:2] < OLDEST_WITH_REMOTE_CONTROL:
            return True
        return self._truth("is in remote control", "")

    def robot_mode(self) -> str:
        """Return e.g. ``RUNNING``, ``POWER_OFF``."""
        return self._value("robotmode", "Robotmode: ")

    def safety_status(self) -> str:
        """Return e.g. ``NORMAL``, ``PROTECTIVE_STOP``."""
        return self._value("safetystatus", "Safetystatus: ")

    def program_running(self) -> bool:
        return self._truth("running", "Program running: ")

    # --- commands --------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop the running program, which stops the robot; also right when none runs.

        Raises
        ------
        ControllerNotReady
            The controller refuses (it is not in remote control, or answers something else).
        """
        answer = self.ask("stop")
        if not answer.startswith("Stopped") and self.program_running():
            raise ControllerNotReady(
                f"{self._where}: the controller does not stop its program ({answer!r}); use its stop button",
                code="stop-refused",
                **self._context,
            )

    def unlock_protective_stop(self) -> None:
        """Release a protective stop; the controller refuses within 5 s after it.

        Raises
        ------
        ProtectiveStop
            Refused, in the controller's words.
        """
        self.ask("close safety popup")
        answer = self.ask("unlock protective stop")
        if not answer.startswith("Protective stop releasing"):
            raise ProtectiveStop(f"{self._where}: the protective stop is not released: {answer}", **self._context)

    # --- lines -----------------------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        return f"{self.host}:{PORT}"

    @property
    def _context(self) -> dict[str, Any]:
        return {"host": self.host, "port": PORT}

    def _value(self, command: str, prefix: str) -> str:
        answer = self.ask(command)
        self._expect(answer, prefix.rstrip())
        return answer[len(prefix) :].strip()

    def _truth(self, command: str, prefix: str) -> bool:
        answer = self._value(command, prefix).lower()
        if answer not in ("true", "false"):
            raise self._unexpected(command, answer)
        return answer == "true"

    def _expect(self, answer: str, start: str) -> None:
        if not answer.lower().startswith(start.lower()):
            raise self._unexpected(f"{start} ...", answer)

    def _unexpected(self, expected: str, answer: str) -> DriverProtocolError:
        return DriverProtocolError(
            f"{self._where}: expected an answer to '{expected}', got {answer[:80]!r}",
            **self._context,
        )

    def _lost(self, why: str) -> ConnectionLost:
        return ConnectionLost(f"{self._where}: connection lost ({why})", **self._context)

    def _line(self) -> str:
        """Return the next line, waiting for it at most the timeout in all."""
        assert self._socket is not None  # noqa: S101 - only called while connected
        deadline = time.monotonic() + self._timeout
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            try:
                self._socket.settimeout(max(left, 1e-3))
                data = self._socket.recv(_RECEIVE_BYTES)
            except TimeoutError as error:
                raise DriverTimeout(
                    f"{self._where}: the dashboard server does not answer within {self._timeout:g} s",
                    **self._context,
                ) from error
            except OSError as error:
                raise self._lost(error.strerror or str(error)) from error
            if not data:
                raise self._lost("the controller closed it")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line.decode("utf-8", errors="replace").strip()
