"""Acquisition that loses nothing: a plain RTDE connection of which every packet is decoded.

The vendor's receive interface keeps only the newest packet; here each becomes a sample, and those that the
controller skipped (it does, under load) are counted from the time stamps.
"""

from __future__ import annotations

import socket
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.streaming.samples import SampleBlock
from drivers.contract import (
    ConnectionLost,
    ControllerInfo,
    ControllerState,
    DriverError,
    DriverProtocolError,
    DriverTimeout,
    DriverUnreachable,
    UnsupportedController,
)
from drivers.sequence import SequenceCounter
from drivers.universal_robots import outputs, rtde
from drivers.universal_robots.dashboard import Dashboard

CONNECT_TIMEOUT = 2.0  # s
RECEIVE_BYTES = 1 << 18
SHOWN_BYTES = 40  # of what was not understood
VIRTUAL = "VIRTUAL"  # in the model's name of a controller that moves no real robot
NEWEST_CB3 = 3  # CB3 controllers run at 125 Hz, e-Series (5 and newer) at 500 Hz


class RtdeStreamReader:
    """A `drivers.contract.SampleSource`.

    Parameters
    ----------
    host : address of the controller.
    rate_hz : samples per second, at most the controller's own rate.
    """

    def __init__(self, host: str, rate_hz: float) -> None:
        self.host = host
        self.rate_hz = rate_hz
        self._socket: socket.socket | None = None
        self._decoder = rtde.Decoder()
        self._counter = SequenceCounter(rate_hz)
        self._newest: np.void | None = None
        self._notices: list[str] = []
        self._early: list[rtde.Packet] = []  # came together with the answer to START

    def connect(self) -> ControllerInfo:
        """Connect, agree on protocol and fields, start the stream.

        Raises
        ------
        DriverUnreachable, DriverTimeout, DriverProtocolError, UnsupportedController
        """
        self.close()
        self._decoder = rtde.Decoder()
        self._counter.new_connection()
        self._socket = self._open()
        try:
            version = self._set_up()
            serial, model = self._identity()
            if not rtde.accepted(self._ask(rtde.START)):
                raise self._protocol_error("the controller refuses to start the stream")
        except DriverError:
            self.close()
            raise
        virtual = None if model is None else VIRTUAL in model
        return ControllerInfo(".".join(map(str, version)), serial, model, virtual)

    def read(self, timeout: float) -> SampleBlock | None:
        """Block for at least one sample; see `drivers.contract.SampleSource.read`."""
        deadline = time.monotonic() + timeout
        while True:
            packets = self._early or self._receive(deadline)
            if packets is None:
                return None
            self._early = []
            now = time.monotonic_ns()
            blocks = [self._samples(packet, now) for packet in packets if isinstance(packet, np.ndarray)]
            if len(blocks) < len(packets):
                self._note([packet for packet in packets if not isinstance(packet, np.ndarray)])
            if blocks:
                return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    @property
    def state(self) -> ControllerState | None:
        """What the newest sample says about the controller; None while not connected."""
        newest = self._newest
        return None if newest is None else outputs.controller_state(newest)

    def take_notices(self) -> list[str]:
        notices, self._notices = self._notices, []
        return notices

    def close(self) -> None:
        self._newest = None
        self._early = []
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # --- samples ---------------------------------------------------------------------------------------

    def _samples(self, records: NDArray[np.void], now: int) -> SampleBlock:
        restarts, repeated = self._counter.restarts, self._counter.repeated
        sequence, lost = self._counter.number(records["timestamp"], now)
        if self._counter.restarts > restarts:
            self._notices.append(
                f"{self._where}: the controller was restarted; about {lost[0]} samples were missed meanwhile"
            )
        if self._counter.repeated > repeated:
            if repeated == 0:
                self._notices.append(f"{self._where}: the controller repeats samples; repetitions are dropped")
            fresh = lost >= 0
            records, sequence, lost = records[fresh], sequence[fresh], lost[fresh]
        if records.size:
            self._newest = records[-1]
        return outputs.samples(records, sequence, lost, now)

    def _note(self, packets: list[rtde.Packet]) -> None:
        for packet in packets:
            if isinstance(packet, rtde.TextMessage):
                self._notices.append(f"{self._where}: {packet.level} from {packet.source}: {packet.text}")
            elif isinstance(packet, rtde.Reply):
                self._notices.append(f"{self._where}: skipped an RTDE packet of unknown type {packet.kind}")

    # --- connection ------------------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        return f"{self.host}:{rtde.PORT}"

    @property
    def _context(self) -> dict[str, Any]:
        return {"host": self.host, "port": rtde.PORT}

    def _protocol_error(self, what: str) -> DriverProtocolError:
        return DriverProtocolError(f"{self._where}: {what}", **self._context)

    def _open(self) -> socket.socket:
        try:
            connection = socket.create_connection((self.host, rtde.PORT), CONNECT_TIMEOUT)
        except OSError as error:
            raise DriverUnreachable(
                f"{self._where}: {error.strerror or error}; check that the controller is on, that the "
                "address is right and that RTDE is enabled in the controller's security settings",
                **self._context,
            ) from error
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _set_up(self) -> tuple[int, int, int, int]:
        if not rtde.accepted(self._ask(rtde.PROTOCOL, rtde.request_protocol())):
            raise self._protocol_error("the controller does not speak RTDE version 2")
        version = rtde.controller_version(self._ask(rtde.CONTROLLER_VERSION))
        fastest = 125.0 if version[0] <= NEWEST_CB3 else 500.0
        if self.rate_hz > fastest:
            raise UnsupportedController(
                f"{self._where}: {self.rate_hz:g} samples/s were asked for, a controller of version "
                f"{version[0]}.{version[1]} gives at most {fastest:g}; lower rate_hz",
                **self._context,
            )
        names = outputs.outputs(version)
        answer = self._ask(rtde.SETUP_OUTPUTS, rtde.request_outputs(names, self.rate_hz))
        self._decoder.recipe = rtde.recipe(names, answer)
        return version

    def _identity(self) -> tuple[str | None, str | None]:
        """Ask the dashboard for serial number and model; the stream does not depend on it."""
        try:
            with Dashboard(self.host) as dashboard:
                return dashboard.serial_number(), dashboard.robot_model()
        except DriverError as error:
            self._notices.append(f"neither serial number nor model: {error.detail}")
            return None, None

    def _ask(self, kind: int, packet: bytes | None = None) -> bytes:
        """Send a request and return the payload of its answer."""
        assert self._socket is not None  # noqa: S101 - only called while connecting
        try:
            self._socket.sendall(packet if packet is not None else rtde.request(kind))
        except OSError as error:
            raise self._lost(str(error)) from error
        deadline = time.monotonic() + CONNECT_TIMEOUT
        while True:
            try:
                packets = self._receive(deadline)
            except ConnectionLost as lost:
                raise self._stranger() or lost from lost
            if packets is None:
                raise self._stranger() or DriverTimeout(
                    f"{self._where}: no answer to RTDE request '{chr(kind)}' within {CONNECT_TIMEOUT:g} s",
                    **self._context,
                )
            for index, answer in enumerate(packets):
                if isinstance(answer, rtde.Reply) and answer.kind == kind:
                    self._early = packets[index + 1 :]
                    return answer.payload
            self._note(packets)

    def _stranger(self) -> DriverProtocolError | None:
        """Return what to say of a peer that answered, but never a whole packet."""
        said = self._decoder.incomplete
        if not said:
            return None
        return self._protocol_error(
            f"something answers, but not in RTDE: {said[:SHOWN_BYTES]!r}; check the address, and whether another "
            "program has this port"
        )

    def _receive(self, deadline: float) -> list[rtde.Packet] | None:
        """Return the packets completed by what arrives next; None at the deadline."""
        if self._socket is None:
            raise self._lost("not connected")
        while (left := deadline - time.monotonic()) > 0.0:
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(RECEIVE_BYTES)
            except TimeoutError:
                return None
            except OSError as error:
                raise self._lost(error.strerror or str(error)) from error
            if not data:
                raise self._lost("the controller closed it")
            try:
                packets = self._decoder.feed(data)
            except DriverProtocolError as error:
                raise self._protocol_error(error.detail) from error
            if packets:
                return packets
        return None

    def _lost(self, why: str) -> ConnectionLost:
        return ConnectionLost(f"{self._where}: connection lost ({why})", **self._context)
