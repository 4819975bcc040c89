"""Run the service: one uvicorn worker, one port, an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Generator

import uvicorn

from core.errors import DynidError
from service.api.app import create_app
from service.api.http import LimitedHttp
from service.logs import set_up_logging
from service.settings import Settings

DRAIN_SECONDS = 5
"""How long requests that still run at the end may take before they are cut off."""

SWITCH_SECONDS = 0.5e-3
"""How long a thread that looks something up in the database may keep the event loop waiting; Python's own is 5 ms."""


class BindError(DynidError):
    """The address cannot be listened on."""

    code = "bind-failed"


def serve(settings: Settings) -> None:
    """Run the service until SIGINT or SIGTERM; a second signal cuts running requests off.

    Once requests are answered it says so in a line of JSON on standard output:
    ``{"event": "ready", "url": "http://127.0.0.1:8080", "pid": 1234}``.

    Raises
    ------
    BindError
        ``port-in-use`` when another program has the port, ``bind-failed`` for an address that is not
        this machine's or a port that is not for this user.
    DynidError
        What kept the service from starting.
    """
    set_up_logging(settings.log_level, settings.log_format)
    sys.setswitchinterval(SWITCH_SECONDS)
    listener = _bind(settings.host, settings.port)
    with listener:
        asyncio.run(_run(settings, listener))


async def _run(settings: Settings, listener: socket.socket) -> None:
    app = create_app(settings)
    server = _Server(
        uvicorn.Config(
            app,
            http=LimitedHttp,
            lifespan="off",  # entered below: what keeps it from starting is then raised here as it is
            log_config=None,
            access_log=False,  # RequestContext tells of requests, with their ids
            timeout_graceful_shutdown=DRAIN_SECONDS,
            server_header=False,
            proxy_headers=settings.behind_proxy,
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
        )
    )
    with _signals(server.stop):
        async with app.router.lifespan_context(app):
            server.on_started = lambda: _announce(listener, settings)
            server.before_shutdown = app.state.context.begin_close
            # Some 200,000 objects live as long as the service: to look at all of them again and again would keep
            # whoever polls waiting for a tenth of a second each time.
            gc.collect()
            gc.freeze()
            if not server.should_exit:
                await server.serve(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn's server with a word before it drains, and signals left to whoever runs it."""

    on_started: Callable[[], None]
    before_shutdown: Callable[[], Awaitable[None]]

    def stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.before_shutdown()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield  # uvicorn would raise them again when it ends, before the service has closed


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Generator[None]:
    """Call ``stop`` on SIGINT and SIGTERM, from before the service starts until after it has closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _bind(host: str, port: int) -> socket.socket:
    """Take the port before anything else is started; requests that come early wait."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise BindError(f"host {host} is no address of this machine: {error.strerror}", host=host) from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # only this claims the port; to bind is no claim yet
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise BindError(
                f"port {port} on {host} is taken by another program; set another port (0: any free)",
                code="port-in-use",
                host=host,
                port=port,
            ) from error
        raise BindError(
            f"cannot listen on {host} port {port}: {error.strerror}; check host and port in the settings",
            host=host,
            port=port,
        ) from error
    return listener


def _announce(listener: socket.socket, settings: Settings) -> None:
    host, port = listener.getsockname()[:2]
    scheme = "http" if settings.tls_certificate is None else "https"
    url = f"{scheme}://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"{scheme}://{host}:{port}"
    sys.stdout.write(json.dumps({"event": "ready", "url": url, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()
