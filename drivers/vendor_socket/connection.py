"""TCP to a controller, with the errors of the contract."""

from __future__ import annotations

import socket
from typing import Any

from drivers.contract import ConnectionLost, DriverUnreachable

CONNECT_TIMEOUT = 2.0  # s


def context(host: str, port: int) -> dict[str, Any]:
    """Return what errors about this address carry."""
    return {"host": host, "port": port}


def open_connection(host: str, port: int, purpose: str) -> socket.socket:
    """Connect; raises `DriverUnreachable`."""
    try:
        connection = socket.create_connection((host, port), CONNECT_TIMEOUT)
    except OSError as error:
        raise DriverUnreachable(
            f"{host}:{port}: {error.strerror or error}; check that the controller is on, that the address is right "
            f"and that its {purpose} port is enabled",
            **context(host, port),
        ) from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def lost(host: str, port: int, why: str) -> ConnectionLost:
    """Return the error of a connection that broke."""
    return ConnectionLost(f"{host}:{port}: connection lost ({why})", **context(host, port))
