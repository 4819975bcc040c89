"""Faults on demand, over a private channel that no real controller has (see ``drivers.virtual.serving``).

{"do": "statistics"}                          counters
{"do": "drop"}                                cut every RTDE connection
{"do": "stall", "seconds": 1.5}               RTDE stays connected but silent; time goes on
{"do": "skip", "packages": 5}                 leave out that many control cycles' packages
{"do": "protective-stop"}                     as if the robot had hit something
{"do": "emergency-stop"}                      press the button
{"do": "remote-control", "on": false}         someone at the pendant takes over
{"do": "temperature", "joint": 2, "celsius": 85}   of one joint, from now on
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from drivers.virtual.serving import Actions
from drivers.virtual.ur_controller.server import ControllerServer


class Faults:
    """What may be done to one controller."""

    def __init__(self, server: ControllerServer) -> None:
        self._server = server
        self.actions: Actions = {
            "statistics": lambda _request: server.statistics(),
            "drop": self._drop,
            "stall": self._stall,
            "skip": self._skip,
            "protective-stop": self._protective_stop,
            "emergency-stop": self._emergency_stop,
            "remote-control": self._remote_control,
            "temperature": self._temperature,
        }

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

    def _temperature(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._server.controller.outputs["joint_temperatures"][int(request["joint"]) - 1] = float(request["celsius"])
        return {}

    def _remote_control(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._server.controller.remote_control = bool(request["on"])
        return {}
