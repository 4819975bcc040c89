"""Motion in the device host: one at a time, watched by every means there is, stopped by three."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from core.streaming.ring import RingWriter
from drivers.contract import (
    KEEP_ALIVE_PERIOD,
    ApproachSpeed,
    DriverError,
    FeedforwardDriver,
    MotionFinish,
    MotionPlayer,
    MotionRefused,
    ProtectiveStop,
    RobotDriver,
    StopUnconfirmed,
)
from drivers.trajectory import PlayableTrajectory
from service.devices.acquisition import Acquisition
from service.devices.heat import JointHeat
from service.devices.messages import (
    MotionEvent,
    MotionFinished,
    MotionProgress,
    MotionRequest,
    MotionStarted,
    MotionState,
)
from service.devices.watch import Cause, SampleWatch

HEARTBEAT_LIMIT = 1.0  # s without a word from the service: it hangs; that it is gone is seen at once
READY_TIMEOUT = 15.0  # s for the motion process to connect to the controller
STOP_TIMEOUT = 1.5  # s for the motion process to stop the robot
HALT_TIMEOUT = 1.0  # s for the controller to stop its program and so the motion process
REST_TIMEOUT = 3.0  # s for the samples to show that the robot is at rest
RELEASE_TIMEOUT = 3.0  # s for the samples to show that a stop was released
TICK = 0.02  # s
HELD_UP = 0.1  # s for a tick: this process itself paused, and has yet to look at what came meanwhile

_log = logging.getLogger(__name__)


@dataclass
class Run:
    """The motion under way."""

    request: MotionRequest
    trajectory: PlayableTrajectory
    player: MotionPlayer
    accepted: asyncio.Future[None]
    ended: asyncio.Event  # the motion process is gone
    over: asyncio.Event  # ... and the robot at rest, and the service told
    phase: MotionState = "approaching"
    cause: Cause | None = None


class MotionControl:
    """Lives in the host's event loop.

    Parameters
    ----------
    send : takes a motion event for the service.
    start : runs a coroutine beside everything else.
    motion_enabled, virtual : as the settings say; a robot that should be virtual and is not never moves.
    """

    def __init__(
        self,
        driver: RobotDriver,
        ring: RingWriter,
        watch: SampleWatch,
        acquisition: Acquisition,
        send: Callable[[MotionEvent], None],
        start: Callable[[Coroutine[Any, Any, None]], None],
        heat: JointHeat,
        *,
        motion_enabled: bool,
        virtual: bool,
    ) -> None:
        self._authority_until: float | None = None
        self._arming: int | None = None  # in force, as the service says
        self._spent = 0  # the last arming that a motion used up or a stop ended
        self._last_heartbeat = time.monotonic()
        self._driver = driver
        self._ring = ring
        self._watch = watch
        self._acquisition = acquisition
        self._send = send
        self._start = start
        self._heat = heat
        self._motion_enabled = motion_enabled
        self._virtual = virtual
        self._run: Run | None = None

    @property
    def state(self) -> MotionState:
        return "idle" if self._run is None else self._run.phase

    @property
    def motion_id(self) -> str | None:
        return None if self._run is None else self._run.request.motion_id

    def heartbeat(self, authority_until: float | None, arming: int | None) -> None:
        """The service is alive, and allows the motion of ``arming`` until ``authority_until`` (CLOCK_MONOTONIC, s)."""
        self._last_heartbeat = time.monotonic()
        self._authority_until = authority_until
        self._arming = arming

    def revoke(self) -> None:
        """End the present arming: a motion that was asked for under it and arrives from now on is refused."""
        self._spent = self._arming or self._spent

    # --- play ------------------------------------------------------------------------------------------

    async def play(self, request: MotionRequest) -> None:
        """Start a motion; returns when the controller has accepted it, events follow.

        Raises
        ------
        DynidError
            Refused; nothing has moved.
        """
        self._refuse_unless_ready(request)
        n_joints = self._driver.capabilities.n_joints
        trajectory = PlayableTrajectory.load(request.trajectory, n_joints)
        if request.approach is None:
            self._refuse_unless_at_start(request, trajectory)
        speed = request.approach
        approach = None if speed is None else ApproachSpeed(speed.speed, speed.acceleration)
        player = self._driver.player(request.trajectory, approach, request.settle_time)
        loop = asyncio.get_running_loop()
        run = Run(request, trajectory, player, loop.create_future(), asyncio.Event(), asyncio.Event())
        self._run = run
        self.revoke()  # one arming, one motion
        player.start(_Listener(self, run, loop))
        self._start(self._keep_alive(run))
        try:
            async with asyncio.timeout(READY_TIMEOUT):
                await asyncio.shield(run.accepted)
        except TimeoutError:
            self._abort(run, Cause("faulted", "the controller did not accept the motion", "motion-timeout"))
            await run.accepted

    async def _keep_alive(self, run: Run) -> None:
        """Let the motion go on for as long as this event loop runs."""
        while not run.ended.is_set():
            run.player.keep_alive()
            await asyncio.sleep(KEEP_ALIVE_PERIOD)

    def _refuse_unless_ready(self, request: MotionRequest) -> None:
        self._refuse_unless_meant()
        now = time.monotonic()
        safety, heat = self._watch.safety_stop, self._heat.cause()
        n_joints = self._driver.capabilities.n_joints
        refusals = (
            (
                self._authority_until is None or self._authority_until <= now,
                "no-authority",
                "nobody holds a valid lease for this robot",
            ),
            (
                request.arming != self._arming or request.arming <= self._spent,
                "permit-withdrawn",
                "the permit for this motion is used up or was withdrawn: the robot was stopped or disarmed since",
            ),
            (
                self._acquisition.connection != "streaming",
                "not-streaming",
                f"the robot is not streaming: {self._acquisition.reason}",
            ),
            (safety is not None, getattr(safety, "code", None), getattr(safety, "reason", None)),
            (heat is not None, getattr(heat, "code", None), getattr(heat, "reason", None)),
            (
                len(request.tracking_limit) != n_joints,
                "input-invalid",
                f"{len(request.tracking_limit)} tracking limits for {n_joints} joints",
            ),
        )
        for refused, code, reason in refusals:
            if refused:
                raise MotionRefused(str(reason), code=code)

    def _refuse_unless_meant(self) -> None:
        """Refuse what would move another robot than the settings mean, or one that moves already."""
        info = self._acquisition.info
        if not self._motion_enabled:
            raise MotionRefused("motion is not enabled for this robot", code="motion-disabled")
        if self._run is not None:
            raise MotionRefused(f"motion {self.motion_id} is under way", code="robot-busy")
        if self._acquisition.connection == "streaming" and self._virtual and not (info is not None and info.virtual):
            raise MotionRefused(
                "the settings call this robot virtual, but its controller does not say that it is "
                f"(model: {info and info.model}); correct the address or the settings",
                code="not-virtual",
            )

    def _refuse_unless_at_start(self, request: MotionRequest, trajectory: PlayableTrajectory) -> None:
        problem = self._start_problem(request, trajectory)
        if problem is not None:
            raise MotionRefused(f"{problem}; move it there or ask for an approach", code="not-at-start")

    def _start_problem(self, request: MotionRequest, trajectory: PlayableTrajectory) -> str | None:
        assert self._watch.pose is not None  # noqa: S101 - samples are streaming
        error = np.abs(self._watch.pose - trajectory.q[0])
        joint = int(np.argmax(error))
        if error[joint] <= request.start_tolerance:
            return None
        unit = self._driver.capabilities.unit
        return (
            f"joint {joint + 1} is {error[joint]:.4f} {unit} off the first pose, allowed are "
            f"{request.start_tolerance:.4f}"
        )

    # --- what the player tells -------------------------------------------------------------------------

    def on_accepted(self, run: Run) -> None:
        run.accepted.set_result(None)
        loop = asyncio.get_running_loop()
        limit = np.array(run.request.tracking_limit)
        self._watch.guard(limit, lambda cause: loop.call_soon_threadsafe(self._abort, run, cause))

    def on_start(self, run: Run) -> None:
        """The approach is over: begin, if it ended where it should."""
        if run.cause is not None:
            return
        problem = self._start_problem(run.request, run.trajectory)
        if problem is not None:
            self._abort(run, Cause("faulted", f"after the approach {problem}", "not-at-start"))
            return
        run.phase = "playing"
        self._send(MotionStarted(motion_id=run.request.motion_id, ring_position=self._ring.head))
        run.player.proceed()

    def on_progress(self, run: Run, path_time: float) -> None:
        fraction = path_time / run.trajectory.duration
        self._send(MotionProgress(motion_id=run.request.motion_id, fraction=fraction, time=path_time))

    def on_finished(self, run: Run, finish: MotionFinish) -> None:
        self._watch.unguard()
        run.ended.set()
        if run.accepted.done():
            self._start(self._conclude(run, finish))
            return
        self._run = None
        run.over.set()
        refusal = run.cause or finish
        run.accepted.set_exception(MotionRefused(refusal.reason, code=refusal.code or "motion-stopped"))

    async def _conclude(self, run: Run, finish: MotionFinish) -> None:
        """Make sure the robot is at rest, then report."""
        outcome, reason, code = finish.outcome, finish.reason, finish.code
        if run.cause is not None:
            outcome, reason, code = run.cause.outcome, run.cause.reason, run.cause.code
        elif (safety := self._watch.safety_stop) is not None:
            outcome, reason, code = safety.outcome, safety.reason, safety.code
        if outcome == "faulted":
            reason += await self._halt_after_fault()
        if not await self._comes_to_rest():
            outcome = "faulted"
            reason += "; it is not known whether the robot is at rest"
        self._run = None
        self._send(
            MotionFinished(
                motion_id=run.request.motion_id,
                outcome=outcome,
                reason=reason,
                code=code,
                ring_position=self._ring.head,
                cycles=finish.cycles,
                late_cycles=finish.late_cycles,
                period_ms=finish.period_ms,
                max_tracking_error=tuple(self._watch.worst_tracking_error.tolist()),
            )
        )
        run.over.set()

    async def _halt_after_fault(self) -> str:
        """Stop the controller's program whatever the motion process did; return what to add to the reason."""
        try:
            await asyncio.to_thread(self._driver.halt)
        except DriverError as error:
            return f"; the controller could not be halted either: {error.detail}"
        return ""

    # --- stop ------------------------------------------------------------------------------------------

    async def stop(self, reason: str) -> None:
        """Stop whatever moves the robot, return when it is at rest.

        Raises
        ------
        StopUnconfirmed
        """
        if self._run is not None:
            run = self._run
            self._abort(run, Cause("stopped", reason, "stopped"))
            await run.over.wait()
        elif self._watch.program_running or not self._watch.at_rest:
            try:
                await asyncio.to_thread(self._driver.halt)
            except DriverError as error:
                raise StopUnconfirmed(error.detail, **error.context) from error
        if not await self._comes_to_rest():
            raise StopUnconfirmed(
                "the stop was sent, but the samples do not show the robot at rest "
                f"({self._acquisition.connection}: {self._acquisition.reason}); look at the robot"
            )

    async def recover(self) -> None:
        """Release a protective stop; returns when samples show that nothing stops the robot any more.

        Raises
        ------
        DriverError
            ``fault-persists``, or why the controller refuses.
        """
        await asyncio.to_thread(self._driver.recover)
        released = time.monotonic()
        while not self._watch.free_since(released):
            if time.monotonic() - released > RELEASE_TIMEOUT:
                safety = self._watch.safety_stop
                raise ProtectiveStop(
                    f"samples show no released robot within {RELEASE_TIMEOUT:g} s: "
                    f"{self._acquisition.reason or (safety and safety.reason)}",
                    code="fault-persists",
                )
            await asyncio.sleep(TICK)

    async def load_feedforward(self, trajectory: Path | None, table: Path | None) -> int | None:
        """Have the controller add the table to that trajectory, or nothing any more; not while it moves.

        Returns the version that the table bears in the controller; None without one.

        Raises
        ------
        DynidError
            ``feedforward-unsupported``, ``motion-disabled``, ``robot-busy``, ``not-streaming``, ``not-virtual``, or
            why the controller does not take it.
        """
        if not self._driver.capabilities.feedforward:
            raise DriverError("this robot's controller takes no feedforward table", code="feedforward-unsupported")
        if self._acquisition.connection != "streaming":
            raise MotionRefused(
                f"the robot is not streaming: {self._acquisition.reason}; what its controller is, is not known",
                code="not-streaming",
            )
        self._refuse_unless_meant()
        driver = cast(FeedforwardDriver, self._driver)
        if trajectory is None or table is None:
            await asyncio.to_thread(driver.clear_feedforward)
            return None
        return await asyncio.to_thread(driver.load_feedforward, trajectory, table)

    async def watch_over(self) -> None:
        """Stop the motion under way when the service, its authority or the samples are missing, or a joint is too hot;
        endless.
        """
        held_up = False
        while True:
            begun = time.monotonic()
            await asyncio.sleep(TICK)
            held_up = not held_up and time.monotonic() - begun > HELD_UP
            if self._run is not None and self._run.cause is None and not held_up:
                cause = self._hindrance()
                if cause is not None:
                    self._abort(self._run, cause)

    def _hindrance(self) -> Cause | None:
        now = time.monotonic()
        if now - self._last_heartbeat > HEARTBEAT_LIMIT:
            return Cause("faulted", f"the service was silent for {HEARTBEAT_LIMIT} s", "heartbeat-lost")
        if self._authority_until is None or self._authority_until <= now:
            return Cause("stopped", "the lease lapsed, and the authority to move the robot with it", "authority-lapsed")
        if self._run is not None and self._run.request.arming != self._arming:
            return Cause("stopped", "the permit for this motion was withdrawn", "permit-withdrawn")
        if self._acquisition.connection != "streaming":
            return Cause("faulted", f"samples are missing: {self._acquisition.reason}", "samples-stale", True)
        return self._heat.cause()

    def _abort(self, run: Run, cause: Cause) -> None:
        """Begin to stop ``run``, unless that has begun."""
        if run.cause is not None or run.ended.is_set():
            return
        _log.warning("motion %s: %s", run.request.motion_id, cause.reason)
        run.cause = cause
        run.phase = "stopping"
        run.player.stop(cause.reason, immediately=cause.immediately)
        self._start(self._escalate(run))

    async def _escalate(self, run: Run) -> None:
        """Ask the motion process; then the controller; then end the process and ask the controller again."""
        if await _within(STOP_TIMEOUT, run.ended):
            return
        _log.error("motion %s: the motion process does not stop the robot", run.request.motion_id)
        await self._halt_after_fault()
        if await _within(HALT_TIMEOUT, run.ended):
            return
        _log.error("motion %s: ending the motion process", run.request.motion_id)
        run.player.kill()
        await self._halt_after_fault()

    async def _comes_to_rest(self) -> bool:
        deadline = time.monotonic() + REST_TIMEOUT
        while not self._watch.at_rest:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(TICK)
        return True


class _Listener:
    """Carries a player's calls from its thread into the event loop."""

    def __init__(self, control: MotionControl, run: Run, loop: asyncio.AbstractEventLoop) -> None:
        self._control = control
        self._run = run
        self._loop = loop

    def accepted(self) -> None:
        self._loop.call_soon_threadsafe(self._control.on_accepted, self._run)

    def at_start(self) -> None:
        self._loop.call_soon_threadsafe(self._control.on_start, self._run)

    def progress(self, time: float) -> None:
        self._loop.call_soon_threadsafe(self._control.on_progress, self._run, time)

    def finished(self, finish: MotionFinish) -> None:
        self._loop.call_soon_threadsafe(self._control.on_finished, self._run, finish)


async def _within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
