"""Controllers that misbehave, on real sockets; the one that behaves is `virtual_ur10e`."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

Talk = Callable[[socket.socket], None]


@pytest.fixture
def controller(loopback_host: str) -> Iterator[Callable[..., str]]:
    """Start a server on a port of an address of this test's own: it talks once with each client in turn."""
    stop = threading.Event()
    opened: list[tuple[socket.socket, threading.Thread]] = []

    def start(port: int, *talks: Talk) -> str:
        listener = socket.create_server((loopback_host, port))
        listener.settimeout(0.1)

        def serve() -> None:
            for talk in talks:
                connection = None
                while connection is None and not stop.is_set():
                    with contextlib.suppress(TimeoutError):
                        connection, _ = listener.accept()
                if connection is not None:
                    with connection, contextlib.suppress(ConnectionError):
                        connection.settimeout(5.0)
                        talk(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        opened.append((listener, thread))
        return loopback_host

    yield start
    stop.set()
    for listener, thread in opened:
        thread.join()
        listener.close()
