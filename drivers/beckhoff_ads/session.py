"""The link to one PLC: a TCP connection of this process, and sessions over it, one per thread.

What the vendor's library demands (pyads 3.6, AdsLib): a router serves one TCP connection per computer and closes
the older when a second comes, so one process speaks to a PLC; a pyads connection belongs to one thread; a
connection that breaks stays broken until all that use it are closed; closing it with notifications alive crashes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from drivers.beckhoff_ads.address import TCP_PORT, PlcAddress
from drivers.beckhoff_ads.host_lock import HostLock
from drivers.contract import (
    ConnectionLost,
    ControllerNotReady,
    DriverError,
    DriverProtocolError,
    DriverTimeout,
    DriverUnreachable,
)

CONNECT_TIMEOUT = 2.0  # s
SYSTEM_SERVICE = 10000  # AMS port that answers for TwinCAT as a whole
RUN, STOP, CONFIG = 5, 6, 15  # ADS states
_STATES = {0: "INVALID", 1: "IDLE", 2: "RESET", 3: "INIT", 4: "START", 5: "RUN", 6: "STOP", 11: "ERROR", 15: "CONFIG"}

SYMBOL_VERSION = 0xF008
VALUE_BY_HANDLE = 0xF005
_HANDLE_BY_NAME = 0xF003
_INFO_BY_NAME = 0xF009
_SUM_READ = 0xF080

_LINK_BROKEN = (-1, 26, 1864)  # not sent; TCP send error; port not open
_PORT_NOT_FOUND = 6
SYMBOLS_VOID = frozenset((1794, 1795, 1809, 1812, 1826))
"""Codes with which a PLC answers to handles and addresses from before a change of its program."""
_KEPT_CALLBACKS = 64


class SymbolsChanged(Exception):  # noqa: N818 - not an error: they are read again
    """The PLC's program was changed, so that handles and addresses mean nothing any more."""


SYMBOL_MISSING = "plc-symbol-missing"
_MEANINGS: dict[int, tuple[type[DriverError], str | None, str]] = {
    -1: (
        ConnectionLost,
        None,
        "the connection is lost; the PLC was switched off, or another ADS program on this computer has taken it over",
    ),
    7: (
        DriverProtocolError,
        "ams-net-id-unknown",
        "the router at {host} has another AMS net id; correct ams_net_id (TwinCAT shows it in the router's properties)",
    ),
    1808: (
        DriverProtocolError,
        SYMBOL_MISSING,
        "the PLC has no variable {what}; load the program that belongs to this version, or correct symbol_prefix",
    ),
    1861: (DriverTimeout, None, "no answer in time when asked for {what}"),
}
"""ADS error code -> the error it becomes, its code and what to say."""


class SymbolInfo(NamedTuple):
    """Where a variable is and what it is called in the PLC."""

    group: int
    offset: int
    size: int
    type: str


class AdsLink:
    """All sessions of this process with one PLC. For any thread."""

    def __init__(self, address: PlcAddress) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._computer = HostLock(address.host)
        self._open = 0
        self._broken = False
        self._callbacks: deque[Any] = deque(maxlen=_KEPT_CALLBACKS)

    def session(self, timeout: float, *, exclusive: bool = True) -> Session:
        """Open a session whose every request may take ``timeout`` s.

        Without ``exclusive`` another process's link does not matter: it ends, which is what a halt is for.

        Raises
        ------
        DriverError
            Why there is none; ``ads-in-use`` where another process has the link.
        """
        import pyads

        with self._lock:
            if self._open and self._broken:
                raise self.address.problem(ConnectionLost, "the connection is lost, and still in use by others")
            if exclusive:
                self._computer.acquire()
            try:
                if self._open == 0:
                    self._knock()
                    self._broken = False
                connection = self._connect(pyads)
            except DriverError:
                self._release_if_unused()
                raise
            self._open += 1
        session = Session(self, connection, timeout)
        try:
            session.begin()
        except DriverError:
            session.close()
            raise
        return session

    def _knock(self) -> None:
        """See whether anybody listens; the vendor's library would wait for minutes."""
        address = self.address
        try:
            socket.create_connection((address.host, TCP_PORT), CONNECT_TIMEOUT).close()
        except OSError as error:
            raise address.problem(
                DriverUnreachable,
                f"{error.strerror or error}; check that the PLC is on, that the address is right and that no firewall "
                f"blocks TCP port {TCP_PORT}",
            ) from error

    def _connect(self, pyads: Any) -> Any:
        address = self.address
        connection = pyads.Connection(address.ams_net_id, address.ams_port, address.host)
        try:
            if address.local_ams_net_id is not None:
                pyads.set_local_address(address.local_ams_net_id)
            connection.open()
        except (pyads.ADSError, RuntimeError) as error:
            raise address.problem(DriverUnreachable, str(error)) from error
        return connection

    def keep(self, callbacks: Iterable[Any]) -> None:
        """Keep callbacks that nobody calls any more: one may be running in the library's thread still."""
        self._callbacks.extend(callbacks)

    def closed(self, connection: Any) -> None:
        """A session ends; the last one takes the TCP connection with it."""
        with self._lock:
            connection.close()
            self._open -= 1
            self._release_if_unused()

    def _release_if_unused(self) -> None:
        if self._open == 0:
            self._computer.release()

    def broke(self) -> None:
        """A session has found the TCP connection dead."""
        self._broken = True


class Session:
    """One pyads connection, used by the thread that opened it.

    Every call raises `DriverError` with the reason, or `SymbolsChanged`.
    """

    def __init__(self, link: AdsLink, connection: Any, timeout: float) -> None:
        self.address = link.address
        self._link = link
        self._connection = connection
        self._timeout = timeout
        self._notifications: list[tuple[int, int]] = []
        self._handles: list[int] = []

    def begin(self) -> None:
        """Say hello: tells an unknown route, a wrong name and a PLC that does not run from each other."""
        address = self.address
        self._connection.set_timeout(round(1e3 * CONNECT_TIMEOUT))
        try:
            state = self.state()
        except (DriverTimeout, ConnectionLost) as error:
            raise address.problem(
                DriverUnreachable,
                "the router does not answer; most likely it has no route to this computer. Add one in the PLC with the "
                f"AMS net id {self._local_net_id()} and this computer's IP address",
                code="ams-route-missing",
            ) from error
        if state != RUN:
            raise self.not_running(state)
        self._connection.set_timeout(round(1e3 * self._timeout))

    def close(self) -> None:
        """End the session. The notifications go first: the library would call into what is gone."""
        from pyads.pyads_ex import ADSError

        self.forget_notifications()
        with contextlib.suppress(ADSError):  # the link may be dead; void handles are none
            for handle in self._handles:
                self._connection.release_handle(handle)
        self._link.closed(self._connection)

    def forget_notifications(self) -> None:
        """End all notifications; after a change of the PLC's program they are void."""
        from pyads.pyads_ex import ADSError, callback_store

        handles = {handle for handle, _ in self._notifications}
        self._link.keep(callback for (_, handle), callback in list(callback_store.items()) if handle in handles)
        for handle, user_handle in self._notifications:
            with contextlib.suppress(ADSError):  # the link may be dead, or the PLC may have forgotten it
                self._connection.del_device_notification(handle, user_handle)
        self._notifications.clear()

    # --- requests --------------------------------------------------------------------------------------

    def state(self) -> int:
        """Return the ADS state of the PLC."""
        state, _ = self._call("the PLC's state", self._connection.read_state)
        return int(state)

    def device_version(self) -> str:
        """Return the version of TwinCAT's PLC runtime."""
        _, version = self._call("the PLC's version", self._connection.read_device_info)
        return f"{version.version}.{version.revision}.{version.build}"

    def read(self, what: str, group: int, offset: int, size: int) -> bytes:
        """Return ``size`` bytes; ``what`` names them in errors."""
        kind = ctypes.c_ubyte * size
        return bytes(self._call(what, self._connection.read, group, offset, kind, return_ctypes=True))

    def write(self, what: str, group: int, offset: int, data: bytes) -> None:
        buffer = _buffer(len(data))
        self._call(what, self._connection.write, group, offset, buffer.from_buffer_copy(data), buffer)

    def sum_read(self, what: str, pieces: Sequence[tuple[int, int, int]]) -> list[bytes]:
        """Return the bytes at several (group, offset, size) in one request, read in this order.

        Raises
        ------
        SymbolsChanged, DriverProtocolError
            One of them cannot be read.
        """
        from pyads.structs import SAdsSumRequest

        requests = (SAdsSumRequest * len(pieces))(*[SAdsSumRequest(*piece) for piece in pieces])
        answer = bytes(
            self._call(
                what, self._connection.read_write, _SUM_READ, len(pieces), None, requests, None, return_ctypes=True
            )
        )
        codes = memoryview(answer)[: 4 * len(pieces)].cast("I")
        for code in codes:
            if code != 0:
                raise self._failure(what, code)
        at = 4 * len(pieces)
        parts = []
        for _, _, size in pieces:
            parts.append(answer[at : at + size])
            at += size
        return parts

    def symbol(self, name: str) -> SymbolInfo:
        """Return what the PLC says about the variable ``name``."""
        from pyads.constants import PLCTYPE_STRING
        from pyads.structs import SAdsSymbolEntry

        entry = self._call(
            name, self._connection.read_write, _INFO_BY_NAME, 0, SAdsSymbolEntry, name, PLCTYPE_STRING, True
        )
        return SymbolInfo(entry.iGroup, entry.iOffs, entry.size, entry.symbol_type)

    def handle(self, name: str) -> int:
        """Return a handle, which a change of the program voids with an error, where an address would just lie."""
        self._handles.append(int(self._call(name, self._connection.get_handle, name)))
        return self._handles[-1]

    def notify(self, name: str, size: int, callback: Callable[[bytes], None]) -> None:
        """Call ``callback``, in a thread of the library, with the variable whenever it has changed.

        What it is at first may be missed: the library can take the first notification for a stray one.
        """
        from pyads import NotificationAttrib
        from pyads.structs import SAdsNotificationHeader

        def receive(notification: Any, _name: str) -> None:
            header = notification.contents
            data = ctypes.addressof(header) + SAdsNotificationHeader.data.offset
            callback(ctypes.string_at(data, header.cbSampleSize))

        attributes = NotificationAttrib(size, max_delay=1.0, cycle_time=10.0)  # ms
        self._notifications.append(
            self._call(name, self._connection.add_device_notification, name, attributes, receive)
        )

    # --- failures --------------------------------------------------------------------------------------

    def _call(self, what: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        from pyads import ADSError

        try:
            return function(*arguments, **named)
        except ADSError as error:
            raise self._failure(what, getattr(error, "err_code", 0), str(error)) from error
        except RuntimeError as error:  # "Insufficient data": fewer bytes than were asked for
            raise self.address.problem(DriverProtocolError, f"{what}: {error}") from error

    def _failure(self, what: str, code: int, said: str = "") -> DriverError | SymbolsChanged:
        """Return what an ADS error code means."""
        if code in SYMBOLS_VOID:
            return SymbolsChanged(f"{what}: {said or code}")
        if code == _PORT_NOT_FOUND:
            return self.not_running(None)
        if code in _LINK_BROKEN:
            self._link.broke()
            code = _LINK_BROKEN[0]
        kind, name, meaning = _MEANINGS.get(code, (DriverProtocolError, None, "{what}: {said}"))
        detail = meaning.format(what=what, said=said or f"ADS error {code}", host=self.address.host)
        return self.address.problem(kind, detail, code=name, asked=what, ads_error=code)

    def not_running(self, state: int | None) -> ControllerNotReady:
        """Say why the PLC does not run; ``state`` is its own word, None where no runtime answers."""
        if state is not None:
            detail, code = f"the PLC is in {_STATES.get(state, state)}; start it", "plc-stopped"
        elif self._system_state() == CONFIG:
            detail, code = "TwinCAT is in config mode; set it to run mode", "plc-config-mode"
        else:
            detail, code = (
                f"no PLC runtime has the AMS port {self.address.ams_port}; correct ams_port (851 is the first), or "
                "load a PLC program",
                "plc-port-unknown",
            )
        return self.address.problem(ControllerNotReady, detail, code=code)

    def _system_state(self) -> int | None:
        """Ask TwinCAT's own service, over the same link."""
        import pyads

        address = self.address
        with (
            contextlib.suppress(pyads.ADSError),
            pyads.Connection(address.ams_net_id, SYSTEM_SERVICE, address.host) as service,
        ):
            service.set_timeout(round(1e3 * CONNECT_TIMEOUT))
            state, _ = service.read_state()
            return int(state)
        return None

    def _local_net_id(self) -> str:
        local = self._connection.get_local_address()
        return "unknown" if local is None else str(local.netid)


@functools.lru_cache(maxsize=64)
def _buffer(size: int) -> Any:
    """Return a ctypes structure of ``size`` bytes; the library would copy an array of them element by element."""
    return type("Buffer", (ctypes.Structure,), {"_fields_": [("data", ctypes.c_ubyte * size)]})
