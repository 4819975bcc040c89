"""Faults on demand, over a private channel that no real controller has (see ``drivers.virtual.serving``).

{"do": "statistics"}                               counters
{"do": "drop"}                                     cut every AMS link
{"do": "stall", "seconds": 1.5}                    links stay open but silent; the PLC goes on
{"do": "routes", "known": false}                   the router knows no route to any client
{"do": "config-mode", "on": true}                  the PLC runtime is gone
{"do": "plc-stop"}, {"do": "plc-run"}              someone stops the PLC, or starts it again
{"do": "online-change"}                            someone changes the running program
{"do": "download"}                                 someone loads the program anew
{"do": "remove-symbol", "name": "GVL.stState"}     it comes without a symbol
{"do": "saturate", "leg": 3, "on": true}           a force sensor (legs from 1) reads its limit
{"do": "drive-error", "leg": 3, "number": 33824}   a drive reports an error
{"do": "emergency-stop", "on": true}               the button is pressed, or released
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from drivers.virtual.serving import Actions
from drivers.virtual.twincat.ams import AdsState
from drivers.virtual.twincat.server import TwinCatServer

Request = Mapping[str, Any]
Answer = Mapping[str, Any]


class Faults:
    """What may be done to one controller."""

    def __init__(self, server: TwinCatServer) -> None:
        self._server = server
        program = server.program
        self.actions: Actions = {
            "statistics": lambda _: server.statistics(),
            "drop": self._drop,
            "stall": self._stall,
            "routes": self._routes,
            "config-mode": _silently(lambda request: server.set_config_mode(bool(request["on"]))),
            "plc-stop": _silently(lambda _: server.set_state(AdsState.STOP)),
            "plc-run": _silently(lambda _: server.set_state(AdsState.RUN)),
            "online-change": _silently(lambda _: program.online_change()),
            "download": _silently(lambda _: program.download()),
            "remove-symbol": lambda request: {"removed": program.symbols.remove(request["name"])},
            "saturate": self._saturate,
            "drive-error": _silently(lambda request: program.fail_drive(_leg(request), int(request["number"]))),
            "emergency-stop": _silently(lambda request: program.press_emergency_stop(bool(request["on"]))),
        }

    def _drop(self, _request: Request) -> Answer:
        clients = list(self._server.traffic.clients)
        for client in clients:
            client.drop()
        return {"dropped": len(clients)}

    def _stall(self, request: Request) -> Answer:
        self._server.traffic.silent_until = time.monotonic() + float(request["seconds"])
        return {}

    def _routes(self, request: Request) -> Answer:
        self._server.traffic.routed = bool(request["known"])
        return self._drop(request)

    def _saturate(self, request: Request) -> Answer:
        self._server.program.machine.saturated[_leg(request)] = bool(request["on"])
        return {}


def _leg(request: Request) -> int:
    """Return the leg from 0."""
    leg = int(request["leg"]) - 1
    if leg not in range(6):
        raise ValueError(f"there is no leg {leg + 1}")
    return leg


def _silently(act: Callable[[Request], None]) -> Callable[[Request], Answer]:
    """Return an action that answers nothing."""

    def action(request: Request) -> Answer:
        act(request)
        return {}

    return action
