"""Faults on demand, over a private channel that no real controller has: JSON lines in, JSON lines out.

    {"do": "statistics"}                          counters
    {"do": "drop"}                                cut every RTDE connection
    {"do": "stall", "seconds": 1.5}               RTDE stays connected but silent; time goes on
    {"do": "skip", "packages": 5}                 leave out that many control cycles' packages
    {"do": "protective-stop"}                     as if the robot had hit something
    {"do": "emergency-stop"}                      press the button
    {"do": "remote-control", "on": false}         someone at the pendant takes over

Every line is answered: ``{"ok": true, ...}`` or ``{"ok": false, "detail": "..."}``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from drivers.virtual.ur_controller.server import ControllerServer


class Faults:
    """Carries out requests on one controller."""

    def __init__(self, server: ControllerServer) -> None:
        self._server = server
        self._actions: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
            "statistics": lambda _request: server.statistics(),
            "drop": self._drop,
            "stall": self._stall,
            "skip": self._skip,
            "protective-stop": self._protective_stop,
            "emergency-stop": self._emergency_stop,
            "remote-control": self._remote_control,
        }

    def handle(self, line: str) -> dict[str, Any]:
        """Carry out one request and return its answer."""
        try:
            request = json.loads(line)
            action = self._actions[request["do"]]
            return {"ok": True, **action(request)}
        except (ValueError, KeyError, TypeError) as error:
            return {"ok": False, "detail": f"cannot carry out {line.strip()!r}: {error!r}"}

    def _drop(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        clients = list(self._server.traffic.clients)
        for client in clients:
            client.drop()
        return {"dropped": len(clients)}

    def _stall(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._server.traffic.silent_until = time.monotonic() + float(request["seconds"])
        return {}

    def _skip(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._server.traffic.skip_packages = int(request["packages"])
        return {}

    def _protective_stop(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._server.controller.protective_stop("injected fault")
        return {}

    def _emergency_stop(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._server.controller.emergency_stop()
        return {}

    def _remote_control(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._server.controller.remote_control = bool(request["on"])
        return {}
