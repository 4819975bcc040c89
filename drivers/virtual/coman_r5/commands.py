"""The command port's side of the controller: JSON lines in, JSON lines out. No sockets here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from drivers.virtual.coman_r5 import wire
from drivers.virtual.coman_r5.controller import MODEL, Controller
from drivers.virtual.coman_r5.robot import PERIOD

VERSION = "0.1"


class FeedbackClient(Protocol):
    """One connection of the feedback port."""

    def publish(self, data: bytes, silent: bool) -> None: ...
    def drop(self) -> None: ...


@dataclass
class Traffic:
    """What has gone over the feedback port, and the faults that are injected there."""

    streaming: bool = False
    every: int = 1  # cycles per frame
    frames: int = 0  # that were due
    sent: int = 0
    skipped: int = 0
    """Frames not sent because a client was slow, or by an injected fault."""
    skip_frames: int = 0
    silent_until: float = 0.0
    corrupt: float = 0.0  # share of bytes
    clients: list[FeedbackClient] = field(default_factory=list)


class Commands:
    """Carries out what clients ask for. A client is whatever stands for its connection."""

    def __init__(self, controller: Controller, traffic: Traffic, serial: str) -> None:
        self._controller = controller
        self._traffic = traffic
        self._serial = serial
        self._handlers: dict[str, Callable[[object, Mapping[str, Any]], str | None]] = {
            "read_state": lambda _client, _request: None,
            "start_feedback": lambda _client, request: self._start_feedback(float(request["rate_hz"])),
            "enable": lambda _client, _request: controller.enable(),
            "servo_begin": self._begin_servo,
            "servo": lambda client, request: controller.servo(client, np.array(request["q"], dtype=np.float64)),
            "servo_end": lambda client, _request: controller.end_servo(client),
            "stop": lambda _client, _request: controller.stop("told to stop"),
            "release": lambda _client, _request: controller.release(),
        }

    def obey(self, client: object, line: bytes) -> bytes:
        """Carry out one line; return what to answer. Servo points are answered only when they are refused."""
        try:
            request = wire.request(line)
            refusal = self._handlers[request["do"]](client, request)
        except (KeyError, TypeError, ValueError) as error:
            return wire.reply(None, f"not understood: {error!r}")
        if request["do"] == "servo" and refusal is None:
            return b""
        content = self._state() if request["do"] == "read_state" else {}
        return wire.reply(request.get("id"), refusal, content)

    def _state(self) -> dict[str, Any]:
        return {"version": VERSION, "serial": self._serial, "model": MODEL, "mode": self._controller.mode.name}

    def _begin_servo(self, client: object, request: Mapping[str, Any]) -> str | None:
        period, lookahead = 1e-3 * float(request["period_ms"]), 1e-3 * float(request["lookahead_ms"])
        return self._controller.begin_servo(client, period, lookahead)

    def _start_feedback(self, rate_hz: float) -> str | None:
        every = 1.0 / (PERIOD * rate_hz) if rate_hz > 0.0 else 0.0
        if every < 1.0 or abs(every - round(every)) > 1e-9:
            return "the rate must be 1000 Hz or a whole fraction of it"
        self._traffic.every = round(every)
        self._traffic.streaming = True
        return None
