"""The process that moves the robot: ``python -m drivers.universal_robots.motion_process``.

It reads its order and then commands from stdin, writes events to stdout, and plays one trajectory with the
vendor's client. It stops the robot and ends when it is told to, when stdin ends or falls silent or its parent
dies, when the controller refuses a command, and when it cannot keep up. Should it hang instead, its parent halts the
controller, and the controller's own watchdog stops the program that no longer hears from here.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
import time
from dataclasses import asdict
from typing import IO, Any

from core.errors import DynidError
from drivers.contract import DriverError, MotionFinish
from drivers.universal_robots.dashboard import Dashboard
from drivers.universal_robots.motion import MotionOrder
from drivers.universal_robots.playback import Playback, StopOrder

RECONNECTS = "econnecting..."  # what the vendor's client prints when it does; a test compares it with the client
SILENCE_LIMIT = 0.3  # s without a word from the parent
LAST_LOOK = 0.1  # s more for what was said while this process itself was held up
ORPHAN_TIMEOUT = 2.0  # s for an orderly end after the parent has died

_PR_SET_PDEATHSIG = 1


class Orders:
    """What the parent says, read by a thread of its own, and that it says anything, watched by another."""

    def __init__(self, lines: IO[str], host: str) -> None:
        self.proceed = threading.Event()
        self.stop: StopOrder | None = None
        self._heard = threading.Event()
        self._lines = lines
        self._host = host

    def start(self) -> None:
        for work in (self._listen, self._watch):
            threading.Thread(target=work, name="orders", daemon=True).start()

    def end(self, reason: str, code: str | None = None) -> None:
        """Stop the robot, unless a stop was ordered before."""
        self.stop = self.stop or StopOrder(reason, immediately=False, code=code)

    def _watch(self) -> None:
        while self._heard.wait(SILENCE_LIMIT) or self._heard.wait(LAST_LOOK):
            self._heard.clear()
        self.end(f"the device host said nothing for {SILENCE_LIMIT} s; it hangs", "device-host-silent")

    def _listen(self) -> None:
        for line in self._lines:
            self._heard.set()
            order = json.loads(line)
            if order["command"] == "proceed":
                self.proceed.set()
            elif order["command"] == "stop":
                self.stop = StopOrder(order["reason"], order["immediately"])
        self.end("the device host is gone")
        time.sleep(ORPHAN_TIMEOUT)  # an orderly end takes this thread with it; otherwise:
        with contextlib.suppress(DriverError), Dashboard(self._host) as dashboard:
            dashboard.stop()
        os._exit(1)


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


def main() -> None:
    """Read the order, play, report, and end without the vendor's clean-up, which may block."""
    outputs = Outputs()
    order = MotionOrder.from_line(sys.stdin.readline())
    orders = Orders(sys.stdin, order.host)
    signal.signal(signal.SIGTERM, lambda *_: orders.end("the motion process was told to end"))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != order.parent:  # it died before the line above
        orders.end("the device host is gone")
    orders.start()
    try:
        playback = Playback(order, orders, outputs)  # kept: the vendor's destructor takes half a second
        finish = playback.run()
    except DynidError as error:
        finish = MotionFinish("faulted", error.detail, error.code)
    outputs.send_event("finished", **asdict(finish))
    os._exit(0)


if __name__ == "__main__":
    main()
