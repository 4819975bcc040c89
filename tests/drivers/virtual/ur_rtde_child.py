"""Scenarios for the unmodified ur_rtde client, each in a process of its own: the client may crash it.

    python ur_rtde_child.py HOST SCENARIO

Prints JSON lines; the last one is the result.
"""

from __future__ import annotations

import json
import math
import sys
import time
from typing import Any

from dashboard_client import DashboardClient
from rtde_control import RTDEControlInterface
from rtde_receive import RTDEReceiveInterface

GOAL = [0.3, -1.3, 1.3, -1.2, -1.2, 0.2]


def say(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def move(host: str) -> None:
    control, receive = RTDEControlInterface(host), RTDEReceiveInterface(host)
    facts: dict[str, Any] = {
        "robot_mode": receive.getRobotMode(),
        "start": receive.getActualQ(),
        "moved": control.moveJ(GOAL, 1.0, 2.0),
        "arrived": receive.getActualQ(),
        "running": control.isProgramRunning(),
        "within": control.isJointsWithinSafetyLimits(GOAL),
        "outside": control.isJointsWithinSafetyLimits([0.0, 0.0, 4.0, 0.0, 0.0, 0.0]),
    }
    back = list(facts["start"])
    facts["asynchronous"] = control.moveJ(back, 1.0, 2.0, True)
    operations = []
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        progress = control.getAsyncOperationProgressEx()
        if not operations or operations[-1] != progress.isAsyncOperationRunning():
            operations.append(progress.isAsyncOperationRunning())
        if operations[-2:] == [True, False]:
            break
        time.sleep(0.002)
    facts["operations"] = operations
    facts["returned"] = receive.getActualQ()
    path = [[*GOAL, 1.0, 2.0, 0.0], [*back, 1.0, 2.0, 0.0]]
    facts["path"] = control.moveJ(path)
    facts["after_path"] = receive.getTargetQ()
    control.stopScript()
    facts["stopped"] = not control.isProgramRunning()
    say(**facts)


def servo(host: str, cycles: int = 1000) -> None:
    control, receive = RTDEControlInterface(host), RTDEReceiveInterface(host)
    start = receive.getTargetQ()
    worst = 0.0
    periods = []
    before = time.perf_counter()
    for k in range(cycles):
        began = control.initPeriod()
        way = 0.2 * (1.0 - math.cos(2.0 * math.pi * k / cycles))
        command = [q + way for q in start]
        control.servoJ(command, 0.0, 0.0, 0.002, 0.03, 2000)
        control.waitPeriod(began)
        now = time.perf_counter()
        periods.append(now - before)
        before = now
        actual, target = receive.getActualQ(), receive.getTargetQ()
        worst = max(worst, *(abs(a - b) for a, b in zip(actual, target, strict=True)))
    farthest = max(abs(a - b) for a, b in zip(receive.getTargetQ(), start, strict=True))
    stopped = control.servoStop(10.0)
    periods.sort()
    say(
        worst_deviation=worst,
        end_distance=farthest,
        stopped=stopped,
        p50_ms=1e3 * periods[len(periods) // 2],
        p99_ms=1e3 * periods[int(len(periods) * 0.99)],
    )


def speed_with_watchdog(host: str) -> None:
    _speed(RTDEControlInterface(host), watchdog=True)


def speed_without_watchdog(host: str) -> None:
    _speed(RTDEControlInterface(host), watchdog=False)


def _speed(control: RTDEControlInterface, watchdog: bool) -> None:
    """Turn the wrist until killed."""
    if watchdog:
        control.setWatchdog(4.0)
    say(moving=True)
    while True:  # a single command could be wiped out by a kick before a controller that is held up has seen it
        control.speedJ([0.0, 0.0, 0.0, 0.0, 0.0, 0.5], 2.0)
        time.sleep(0.01)


def protective_stop(host: str) -> None:
    control, receive = RTDEControlInterface(host), RTDEReceiveInterface(host)
    beyond = receive.getTargetQ()
    beyond[2] = 3.5
    dashboard = DashboardClient(host)
    dashboard.connect()
    facts: dict[str, Any] = {"moved": control.moveJ(beyond, 1.0, 2.0)}
    facts["too_early"] = unlock(dashboard)
    deadline = time.monotonic() + 30.0
    while not receive.isProtectiveStopped() and time.monotonic() < deadline:
        time.sleep(0.01)
    facts["stopped"] = receive.isProtectiveStopped()
    facts["safety_mode"] = receive.getSafetyMode()
    while unlock(dashboard) is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    while receive.isProtectiveStopped() and time.monotonic() < deadline:
        time.sleep(0.01)
    facts["unlocked"] = not receive.isProtectiveStopped()
    facts["program_gone"] = not control.isProgramRunning()
    facts["uploaded"] = control.reuploadScript()
    while not control.isProgramRunning() and time.monotonic() < deadline:
        time.sleep(0.01)
    facts["moves_again"] = control.moveJ(GOAL, 1.0, 2.0)
    say(**facts)


def unlock(dashboard: DashboardClient) -> str | None:
    """Return the controller's refusal, or None."""
    try:
        dashboard.unlockProtectiveStop()
    except Exception as error:  # noqa: BLE001 - what the binding makes of std::logic_error
        return str(error)
    return None


def too_fast(host: str) -> None:
    control, receive = RTDEControlInterface(host), RTDEReceiveInterface(host)
    jump = [q + 0.5 for q in receive.getTargetQ()]
    control.servoJ(jump, 0.0, 0.0, 0.002, 0.03, 2000)
    deadline = time.monotonic() + 5.0
    while not receive.isProtectiveStopped() and time.monotonic() < deadline:
        time.sleep(0.01)
    say(stopped=receive.isProtectiveStopped())


def connect(host: str) -> None:
    try:
        RTDEControlInterface(host)
    except Exception as error:  # noqa: BLE001
        say(refused=str(error))
    else:
        say(refused=None)


if __name__ == "__main__":
    globals()[sys.argv[2]](sys.argv[1])
