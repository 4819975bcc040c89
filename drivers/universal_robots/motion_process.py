"""The process that moves the robot: ``python -m drivers.universal_robots.motion_process``.

It reads its order and then commands from stdin, writes events to stdout, and plays one trajectory with the
vendor's client. It stops the robot and ends when it is told to, when stdin ends or falls silent or its parent
dies, when the controller refuses a command, and when it cannot keep up. Should it hang instead, its parent halts the
controller, and the controller's own watchdog stops the program that no longer hears from here.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from dataclasses import asdict
from typing import Any

from core.errors import DynidError
from drivers.contract import MotionFinish
from drivers.motion_orders import Orders
from drivers.motion_player import MotionOrder
from drivers.universal_robots.dashboard import Dashboard
from drivers.universal_robots.playback import Playback

RECONNECTS = "econnecting..."  # what the vendor's client prints when it does; a test compares it with the client


class Outputs:
    """Takes stdout and stderr from the vendor's client, which prints on both.

    Events go to the stdout that was. What the client prints goes on to the stderr that was, and is read on
    the way: that it reconnects, behind the back of whoever uses it, is told nowhere else.
    """

    def __init__(self) -> None:
        self.reconnects = threading.Event()
        self._events = os.dup(1)
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
        reading, writing = os.pipe()
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.close(writing)
        threading.Thread(target=self._overhear, args=(reading,), name="vendor", daemon=True).start()

    def _overhear(self, descriptor: int) -> None:
        with os.fdopen(descriptor, errors="replace") as printed:
            for line in printed:
                if RECONNECTS in line:
                    self.reconnects.set()
                sys.stderr.write(f"WARNING {line}")

    def send_event(self, event: str, **fields: Any) -> None:
        line = json.dumps({"event": event, **fields}) + "\n"
        with contextlib.suppress(BrokenPipeError):  # the parent is gone, which stdin tells
            os.write(self._events, line.encode())


def _halt(host: str) -> None:
    with Dashboard(host) as dashboard:
        dashboard.stop()


def main() -> None:
    """Read the order, play, report, and end without the vendor's clean-up, which may block."""
    outputs = Outputs()
    order = MotionOrder.from_line(sys.stdin.readline())
    orders = Orders(sys.stdin, lambda: _halt(order.host))
    orders.start(order.parent)
    try:
        playback = Playback(order, orders, outputs)  # kept: the vendor's destructor takes half a second
        finish = playback.run()
    except DynidError as error:
        finish = MotionFinish("faulted", error.detail, error.code)
    outputs.send_event("finished", **asdict(finish))
    os._exit(0)


if __name__ == "__main__":
    main()
