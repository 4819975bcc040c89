"""The process that moves the robot: ``python -m drivers.vendor_socket.motion_process``.

It reads its order and then commands from stdin, writes events to stdout, and plays one trajectory as a stream of
servo points. It stops the robot and ends when it is told to, when stdin ends or falls silent or its parent dies,
when the controller stops or cannot be heard, and when it cannot keep up. Should it hang or be killed instead, the
points end with it, and its parent halts the controller.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import asdict
from typing import Any

from core.errors import DynidError
from drivers.contract import MotionFinish
from drivers.motion_orders import Orders
from drivers.motion_player import MotionOrder
from drivers.vendor_socket.layout import load_layout
from drivers.vendor_socket.playback import Playback, halt


def send_event(event: str, **fields: Any) -> None:
    with contextlib.suppress(BrokenPipeError):  # the parent is gone, which stdin tells
        os.write(1, (json.dumps({"event": event, **fields}) + "\n").encode())


def main() -> None:
    """Read the order, play, report."""
    order = MotionOrder.from_line(sys.stdin.readline())
    layout = load_layout(order.options["layout"])
    orders = Orders(sys.stdin, lambda: halt(order.host, layout))
    orders.start(order.parent)
    try:
        finish = Playback(order, layout, orders, send_event).run()
    except DynidError as error:
        finish = MotionFinish("faulted", error.detail, error.code)
    send_event("finished", **asdict(finish))
    os._exit(0)  # the threads that listen to the parent do not end by themselves


if __name__ == "__main__":
    main()
