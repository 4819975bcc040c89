"""A virtual controller's ports, bound before anything slow happens, so that a taken port is told at once."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from core.errors import DynidError


class PortUnavailable(DynidError):  # noqa: N818 - says what happened
    """An address or port cannot be listened on."""

    code = "port-unavailable"


class Ports:
    """One bound socket per port of ``host``; clients are refused until ``listen``.

    Raises
    ------
    PortUnavailable
        With the code ``port-in-use`` where another program has the port.
    """

    def __init__(self, host: str, ports: Iterable[int]) -> None:
        self.host = host
        self.sockets: dict[int, socket.socket] = {}
        try:
            for port in ports:
                self.sockets[port] = self._bind(port)
        except PortUnavailable:
            self.close()
            raise

    def listen(self) -> None:
        """Let clients in.

        Raises
        ------
        PortUnavailable
            Another program began to listen meanwhile.
        """
        for port, bound in self.sockets.items():
            try:
                bound.listen(16)
            except OSError as error:
                raise self._unavailable(port, error) from error

    def close(self) -> None:
        """Give the ports back."""
        for bound in self.sockets.values():
            bound.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _bind(self, port: int) -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((self.host, port))
        except OSError as error:
            bound.close()
            raise self._unavailable(port, error) from error
        return bound

    def _unavailable(self, port: int, error: OSError) -> PortUnavailable:
        where = f"{self.host}:{port}"
        if error.errno == errno.EADDRINUSE:
            return PortUnavailable(
                f"{where} is taken by another program; stop it or give the robot another loopback address",
                code="port-in-use",
                host=self.host,
                port=port,
            )
        return PortUnavailable(f"cannot listen on {where}: {error.strerror}", host=self.host, port=port)
