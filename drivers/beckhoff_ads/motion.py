"""Motion, seen from the device host: the PLC plays a trajectory for as long as it hears this host's heartbeat.

The player is a thread, not a process: what moves the robot is the PLC, which stops it along its path when the heart
stops beating, however that came to be. So a crash of the vendor's library is one of the ways to stop.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass

from core.errors import DynidError
from drivers.beckhoff_ads.playback import Playback
from drivers.beckhoff_ads.session import AdsLink, SymbolsChanged
from drivers.contract import ApproachSpeed, MotionFinish, MotionListener
from drivers.motion_orders import LAST_LOOK, SILENCE_LIMIT, StopOrder, Stopped, realtime_priority
from drivers.trajectory import PlayableTrajectory

REQUEST_TIMEOUT = 0.2  # s


@dataclass(frozen=True)
class MotionPlan:
    """What is to be played: leg lengths in m; ``settle_time`` s of rest before and after."""

    trajectory: PlayableTrajectory
    approach: ApproachSpeed | None
    settle_time: float


class Orders:
    """What the device host has said so far; written by its thread, read by the player's."""

    def __init__(self) -> None:
        self.proceed = threading.Event()
        self.abandoned = False
        self.stop: StopOrder | None = None
        self._heard = time.monotonic()
        self._news = threading.Event()

    def hear(self) -> None:
        """The host lives."""
        self._heard = time.monotonic()

    def wake(self) -> None:
        """Something was ordered."""
        self._news.set()

    def wait(self, seconds: float) -> None:
        """Wait, unless something is ordered meanwhile. A host that has fallen silent orders to stop."""
        self._news.wait(seconds)
        self._news.clear()
        if self.stop is None and time.monotonic() - self._heard > SILENCE_LIMIT + LAST_LOOK:
            reason = f"the device host said nothing for {SILENCE_LIMIT} s; it hangs"
            self.stop = StopOrder(reason, immediately=False, code="device-host-silent")


class AdsMotionPlayer:
    """A `drivers.contract.MotionPlayer`."""

    def __init__(self, link: AdsLink, plan: MotionPlan) -> None:
        self._link = link
        self._plan = plan
        self._orders = Orders()

    def start(self, listener: MotionListener) -> None:
        self._orders.hear()
        threading.Thread(target=self._run, args=(listener,), name="motion", daemon=True).start()

    def keep_alive(self) -> None:
        self._orders.hear()

    def proceed(self) -> None:
        self._orders.proceed.set()
        self._orders.wake()

    def stop(self, reason: str, *, immediately: bool) -> None:
        self._orders.stop = StopOrder(reason, immediately)
        self._orders.wake()

    def kill(self) -> None:
        """Let the heart stop beating; the PLC then stops the robot."""
        self._orders.abandoned = True
        self._orders.wake()

    def _run(self, listener: MotionListener) -> None:
        with realtime_priority():
            listener.finished(self._play(listener))

    def _play(self, listener: MotionListener) -> MotionFinish:
        """Play in a session of this thread's own."""
        try:
            with contextlib.closing(self._link.session(REQUEST_TIMEOUT)) as session:
                return Playback(session, self._plan, self._orders, listener).run()
        except DynidError as error:
            return MotionFinish("faulted", error.detail, error.code)
        except SymbolsChanged as change:
            return MotionFinish("faulted", f"the PLC's program was changed ({change})", "plc-program-changed")
        except Stopped:
            stop = self._orders.stop
            assert stop is not None  # noqa: S101 - it is what raised
            return MotionFinish("faulted", f"stopped before it began: {stop.reason}", stop.code or "motion-stopped")
