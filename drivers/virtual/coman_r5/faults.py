"""Faults on demand, over a private channel that no real controller has (see ``drivers.virtual.serving``).

{"do": "statistics"}                      counters
{"do": "drop"}                            cut every feedback connection
{"do": "drop-commands"}                   cut every command connection
{"do": "stall", "seconds": 1.5}           feedback stays connected but silent; time goes on
{"do": "skip", "frames": 5}               leave out that many frames
{"do": "corrupt", "share": 0.02}          spoil that share of the feedback's bytes, from now on
{"do": "restart"}                         cut all connections; frame numbers and time begin anew
{"do": "protective-stop"}                 as if the robot had hit something
{"do": "emergency-stop"}                  press the button
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from drivers.virtual.coman_r5.server import ControllerServer
from drivers.virtual.serving import Actions


class Faults:
    """What may be done to one controller."""

    def __init__(self, server: ControllerServer) -> None:
        self._traffic = server.traffic
        self._controller = server.controller
        self.actions: Actions = {
            "statistics": lambda _request: server.statistics(),
            "drop": lambda _request: {"dropped": server.drop(commands=False)},
            "drop-commands": lambda _request: {"dropped": server.drop(feedback=False)},
            "restart": lambda _request: {"dropped": server.restart()},
            "stall": self._stall,
            "skip": self._skip,
            "corrupt": self._corrupt,
            "protective-stop": self._protective_stop,
            "emergency-stop": self._emergency_stop,
        }

    def _stall(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._traffic.silent_until = time.monotonic() + float(request["seconds"])
        return {}

    def _skip(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._traffic.skip_frames = int(request["frames"])
        return {}

    def _corrupt(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._traffic.corrupt = float(request["share"])
        return {}

    def _protective_stop(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._controller.protective_stop("injected fault")
        return {}

    def _emergency_stop(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._controller.emergency_stop()
        return {}
