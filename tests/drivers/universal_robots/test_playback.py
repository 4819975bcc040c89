"""The servo loop against a clock of its own: what a stall does to the path. Its client only notes the commands."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivers.contract import ApproachSpeed, MotionFinish
from drivers.motion_orders import StopOrder
from drivers.motion_player import MotionOrder
from drivers.universal_robots import playback
from drivers.universal_robots.playback import LONGEST_STALL, WATCHDOG_HZ, Playback

RATE = 500.0
DURATION = 1.0
SPEED = 1.5  # rad/s, the fastest of the path


class Clock:
    """Stands still but for sleeping."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Client:
    """The part of the vendor's client that the player uses; before command ``at`` it is held up for ``stall`` s."""

    def __init__(self, clock: Clock, at: int, stall: float) -> None:
        self.poses: list[list[float]] = []
        self._clock = clock
        self._at = at
        self._stall = stall

    def __call__(self, host: str, rate: float) -> Client:
        return self

    def servoJ(self, pose: list[float], *_: float) -> bool:
        self.poses.append(pose)
        self._clock.now += 50e-6
        if len(self.poses) == self._at:
            self._clock.now += self._stall
        return True

    def operationId(self) -> int:
        self.calls = getattr(self, "calls", 0) + 1
        return self.calls

    def isAsyncOperationRunning(self) -> bool:
        return False

    def getAsyncOperationProgressEx(self) -> Client:
        return self

    def __getattr__(self, name: str) -> Any:
        if name in ("setWatchdog", "moveJ", "kickWatchdog", "servoStop", "stopScript", "stopJ"):
            return lambda *_: True
        raise AttributeError(name)


class Orders:
    def __init__(self) -> None:
        self.stop: StopOrder | None = None
        self.proceed = threading.Event()
        self.proceed.set()


class Outputs:
    def __init__(self) -> None:
        self.reconnects = threading.Event()

    def send_event(self, event: str, **fields: Any) -> None: ...


def played(
    monkeypatch: pytest.MonkeyPatch, folder: Path, stall: float, *, at: int = 250
) -> tuple[MotionFinish, np.ndarray[Any, np.dtype[np.float64]]]:
    """Play one sway, with one stall at its fastest; return how it ended and the poses that were sent."""
    t = np.arange(0.0, DURATION + 1e-9, 1.0 / RATE)
    w = 2.0 * np.pi / DURATION
    q = (SPEED / w) * np.outer(np.sin(w * t), np.ones(6))
    qd = SPEED * np.outer(np.cos(w * t), np.ones(6))
    np.savez(folder / "sway.npz", t=t, q=q, qd=qd)
    clock = Clock()
    client = Client(clock, at, stall)
    monkeypatch.setattr("rtde_control.RTDEControlInterface", client)
    monkeypatch.setattr(playback, "check_ready", lambda host: None)
    monkeypatch.setattr(playback, "time", clock)
    order = MotionOrder("nowhere", RATE, str(folder / "sway.npz"), ApproachSpeed(1.0, 1.0), 0.05, 0)
    finish = Playback(order, Orders(), Outputs()).run()
    return finish, np.array(client.poses)


def test_the_watchdog_never_notices_a_stall_before_the_player_does() -> None:
    assert LONGEST_STALL <= 0.7 / WATCHDOG_HZ


@pytest.mark.parametrize("stall", [0.0, 0.003, 0.02, LONGEST_STALL - 0.003])
def test_a_stall_delays_the_path_and_never_makes_it_jump(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stall: float
) -> None:
    finish, poses = played(monkeypatch, tmp_path, stall)
    assert (finish.outcome, finish.code) == ("completed", None)
    assert finish.late_cycles == max(0, int(stall * RATE) - 1)
    assert np.abs(np.diff(poses, axis=0)).max() <= SPEED / RATE * (1.0 + 1e-6)
    assert finish.cycles == len(poses) == round((DURATION + 0.05) * RATE) + 1  # every pose of the path, once
    np.testing.assert_allclose(poses[-1], 0.0, atol=1e-9)


def test_a_stall_that_is_too_long_ends_the_motion_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    finish, poses = played(monkeypatch, tmp_path, LONGEST_STALL + 0.001)
    assert (finish.outcome, finish.code) == ("faulted", "motion-too-late")
    assert len(poses) == 250
    assert np.abs(np.diff(poses, axis=0)).max() <= SPEED / RATE * (1.0 + 1e-6)
