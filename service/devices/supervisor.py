"""The service's side of one robot: starts its host process, watches it, restarts it, passes calls on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.streaming.ring import RingError, RingReader
from drivers.contract import DriverError, DriverUnreachable, MotionRefused, StopUnconfirmed, driver_named
from service.devices.link import HostGone, HostLink
from service.devices.messages import (
    Configure,
    ControllerStatus,
    DeviceStatus,
    FromHost,
    Heartbeat,
    LoadFeedforward,
    MotionEvent,
    MotionFinished,
    MotionRequest,
    Play,
    Recover,
    Report,
    Shutdown,
    Stop,
)
from service.logs import about
from service.settings import RobotSettings

HEARTBEAT_PERIOD = 0.1  # s
FIRST_RESTART, LAST_RESTART = 0.2, 10.0  # s before a new host, doubling
STEADY_AFTER = 30.0  # s of life after which the next restart is quick again
HOST_PATIENCE = 1.0  # s for the host to confirm a stop before the controller is told from here as well
CONFIRM_TIME = 5.0  # s after that for the host to confirm it all the same
ORPHAN_TIME = 1.0  # s in which a motion process without its host brings the robot to rest

_log = logging.getLogger(__name__)


@dataclass
class _Motion:
    """The motion under way, as the one who asked for it follows it."""

    request: MotionRequest
    accepted: bool = False
    events: asyncio.Queue[MotionEvent] = field(default_factory=asyncio.Queue)


class DeviceSupervisor:
    """One robot, for as long as the service runs.

    A controller that cannot be reached is a status, never an exception: ``start`` succeeds, ``status`` says
    ``disconnected`` and why, and the host keeps trying. A motion that ended as ``faulted`` is latched: no
    motion starts before ``reset_fault``, also over restarts of the host.

    Parameters
    ----------
    robot : settings of this robot.
    runtime_dir : where the ring of live samples is made, best in memory (``/dev/shm``).
    on_status : called in the event loop whenever ``status`` has changed (about 10 times a second).
    """

    def __init__(
        self,
        robot: RobotSettings,
        runtime_dir: Path,
        on_status: Callable[[DeviceStatus], None] | None = None,
    ) -> None:
        self.robot = robot
        self.status = DeviceStatus(robot=robot.name, rate_hz=robot.rate_hz)
        self._ring_path = runtime_dir / f"{robot.name}.ring"
        self._on_status = on_status
        self._link: HostLink | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()  # replaced at every change
        self._closing = asyncio.Event()
        self._authority_until: float | None = None
        self._arming: int | None = None
        self._fault: str | None = None
        self._motion: _Motion | None = None

    # --- life ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the host process; does not wait for the controller."""
        if self._task is not None:
            return
        self._ring_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with about(robot=self.robot.name):
            self._task = asyncio.create_task(self._supervise(), name=f"supervise-{self.robot.name}")

    async def close(self) -> None:
        """Stop a running motion, end the host; idempotent."""
        self._closing.set()
        task, self._task = self._task, None
        if task is None:
            return
        if self._link is not None:
            self._end_host(self._link)
        await task
        self._ring_path.unlink(missing_ok=True)

    async def wait_streaming(self, timeout: float) -> None:
        """Wait until samples arrive.

        Raises
        ------
        DriverError
            They do not within ``timeout`` s; the reason is the status's.
        """
        try:
            async with asyncio.timeout(timeout):
                while self.status.connection != "streaming":
                    await self._changed.wait()
        except TimeoutError:
            raise DriverUnreachable(
                f"{self.robot.name}: no samples within {timeout:g} s: {self.status.reason}",
                code="not-streaming",
                host=self.robot.host,
            ) from None

    # --- motion ----------------------------------------------------------------------------------------

    async def play(self, motion: MotionRequest) -> AsyncGenerator[MotionEvent, None]:
        """Play a trajectory: ``MotionStarted``, ``MotionProgress`` ..., and always ``MotionFinished`` last.

        The host is asked in the very turn of the event loop in which the first event is asked for. Authority
        (`set_authority`) must have been given and the motion's arming be in force (`set_arming`).
        ``MotionStarted`` is missing when the motion was stopped on its way to the first pose. Leaving the
        iteration early stops the motion.

        Raises
        ------
        MotionRefused
            Before the first event, with nothing moved. Codes: ``motion-disabled``, ``no-authority``,
            ``permit-withdrawn``, ``robot-busy``, ``device-faulted``, ``not-streaming``, ``not-at-start``,
            ``remote-control-off``, ``robot-not-running``, ``program-running``, ``protective-stop``, ...
        HostGone
            Before the first event; the robot may have begun to move, and was stopped.
        """
        if self._fault is not None:
            raise MotionRefused(
                f"{self.robot.name} is faulted ({self._fault}); reset the fault first", code="device-faulted"
            )
        if self._motion is not None:
            raise MotionRefused(
                f"{self.robot.name}: motion {self._motion.request.motion_id} is under way", code="robot-busy"
            )
        link = self._require_link(MotionRefused)
        under_way = self._motion = _Motion(motion)
        accepting = link.call(lambda number: Play(call=number, request=motion), MotionRefused)
        accepting.add_done_callback(lambda answered: self._answered(under_way, answered))
        try:
            await asyncio.shield(accepting)
            while True:
                event = await under_way.events.get()
                yield event
                if isinstance(event, MotionFinished):
                    return
        finally:
            if self._motion is under_way and link is self._link:  # nobody listens, but the robot moves
                link.send(Stop(call=0, reason="nobody follows the motion any more"))

    async def stop(self, reason: str) -> None:
        """Stop the robot; always allowed, idempotent; returns when it is at rest.

        A host that is not there, is starting or does not answer soon is not waited for: the controller is then
        told from here as well. A motion asked for under the present arming that has not begun never begins.

        Raises
        ------
        StopUnconfirmed
            Every way was tried and the robot is not known to be at rest.
        """
        link = self._link
        asked = None if link is None else link.call(lambda number: Stop(call=number, reason=reason), StopUnconfirmed)
        if link is not None and link.heard and await _done_within(HOST_PATIENCE, asked):
            return
        context: dict[str, Any] = {}
        try:
            await self._halt()
            done = "the controller was told to stop"
        except DriverError as error:
            done, context = f"the controller could not be told to stop either ({error.detail})", error.context
        if await _done_within(CONFIRM_TIME, asked):
            return
        raise StopUnconfirmed(
            f"{self.robot.name}: {done}, but without word from the device host "
            f"({self.status.reason or 'it does not answer'}) it is not known whether the robot is at rest; look at it",
            **context,
        )

    async def reset_fault(self) -> None:
        """Forget a latched fault and release a protective stop; raises `DriverError` when that is refused."""
        link = self._require_link(DriverError)
        await link.call(lambda number: Recover(call=number), DriverError)
        self._fault = None
        self._update(motion="idle", motion_id=None)

    async def load_feedforward(self, trajectory: Path | None, table: Path | None) -> int | None:
        """Have the controller add a table of currents whenever it plays ``trajectory``; None: none any more.

        Returns the version that the table bears in the controller. Nothing moves. Files as
        `messages.LoadFeedforward` says.

        Raises
        ------
        DriverError
            ``feedforward-unsupported``, ``robot-busy``, ``not-streaming``, or why the controller does not take it.
        """
        link = self._require_link(DriverError)
        call = link.call(lambda number: LoadFeedforward(call=number, trajectory=trajectory, table=table), DriverError)
        return await call

    def set_authority(self, valid_until_monotonic: float | None) -> None:
        """Allow motion until that ``time.monotonic()``; None takes the permission away at once."""
        self._authority_until = valid_until_monotonic
        self._heartbeat()

    def set_arming(self, number: int | None) -> None:
        """Say which arming is in force: the host plays only that one's motion, and ends any other at once."""
        self._arming = number
        self._heartbeat()

    # --- the host --------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        delay = FIRST_RESTART
        while True:
            born = time.monotonic()
            how = await self._live()
            if self._closing.is_set():
                return
            _log.error("%s: %s", self.robot.name, how)
            self._update(connection="crashed", reason=how, pid=None, restarts=self.status.restarts + 1)
            await self._rescue(how)
            if time.monotonic() - born > STEADY_AFTER:
                delay = FIRST_RESTART
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._closing.wait()
                return
            delay = min(2.0 * delay, LAST_RESTART)

    async def _live(self) -> str:
        """Run one host to its end and return how it ended."""
        try:
            link = await HostLink.open(self.robot.name)
        except OSError as error:
            return f"the device host cannot be started: {error}"
        self._link = link
        beat = asyncio.create_task(self._beat())
        try:
            link.send(self._configuration())
            self._update(connection="starting", reason="the device host is starting", pid=link.pid)
            if self._closing.is_set():
                self._end_host(link)
            async for message in link.messages():
                self._take(message)
        finally:
            self._link = None
            beat.cancel()
            how = await link.close()
        return how

    @staticmethod
    def _end_host(link: HostLink) -> None:
        """End it in good order, or at once while it starts and cannot have moved anything."""
        if link.heard:
            link.send(Shutdown())
        else:
            link.kill()

    async def _rescue(self, how: str) -> None:
        """After the death of a host: report its motion as faulted, and see to it that the robot stops."""
        if self.status.motion in ("idle", "faulted"):
            return
        self._finish(
            MotionFinished(
                motion_id=self.status.motion_id or "",
                outcome="faulted",
                reason=f"{how} while the robot moved",
                code=HostGone.code,
                ring_position=self._ring_head(),
            )
        )
        await asyncio.sleep(ORPHAN_TIME)
        with contextlib.suppress(DriverError):  # the robot's own watchdog stops it too
            await self._halt()

    def _configuration(self) -> Configure:
        return Configure(
            robot=self.robot.name,
            driver=self.robot.driver,
            driver_options=self.robot.driver_options,
            host=self.robot.host,
            rate_hz=self.robot.rate_hz,
            ring_path=self._ring_path,
            ring_seconds=self.robot.ring_seconds,
            motion_enabled=self.robot.motion_enabled,
            virtual=self.robot.virtual,
            temperature_limit=self.robot.temperature_limit,
        )

    async def _beat(self) -> None:
        while True:
            self._heartbeat()
            await asyncio.sleep(HEARTBEAT_PERIOD)

    def _heartbeat(self) -> None:
        if self._link is not None:
            self._link.send(Heartbeat(authority_until=self._authority_until, arming=self._arming))

    def _require_link(self, failure: type[DriverError]) -> HostLink:
        if self._link is None or not self._link.heard:
            raise failure(f"{self.robot.name}: {self.status.reason}", code="not-streaming")
        return self._link

    async def _halt(self) -> None:
        """Stop the controller's program from here, without the host."""
        make = driver_named(self.robot.driver)
        driver = make(self.robot.host, self.robot.rate_hz, **self.robot.driver_options)
        await asyncio.to_thread(driver.halt)

    # --- what the host says ----------------------------------------------------------------------------

    def _take(self, message: FromHost) -> None:
        if isinstance(message, Report):
            notice = self._mistaken(message.controller)
            if notice is not None and notice != self._mistaken(self.status.controller):
                _log.warning("%s: %s", self.robot.name, notice)
            reported = message.model_dump(exclude={"type", "motion", "motion_id", "controller"})
            faulted = self._fault is not None and message.motion == "idle"
            self._update(
                **reported | {"reason": message.reason or self._fault or notice},
                controller=message.controller,
                ring_path=self._ring_path,
                motion="faulted" if faulted else message.motion,
                motion_id=self.status.motion_id if faulted else message.motion_id,
            )
        elif isinstance(message, MotionFinished):
            self._finish(message)
        elif self._motion is not None and isinstance(message, MotionEvent):
            self._motion.events.put_nowait(message)

    def _mistaken(self, controller: ControllerStatus) -> str | None:
        """Return in what the settings are wrong about the controller, if anything."""
        if controller.virtual is None or controller.virtual == self.robot.virtual:
            return None
        if controller.virtual:
            return f"the settings call this robot real, but its controller ({controller.model}) is virtual"
        return f"the settings call this robot virtual, but its controller ({controller.model}) is not: it will not move"

    def _answered(self, under_way: _Motion, answer: asyncio.Future[int | None]) -> None:
        refused = answer.cancelled() or answer.exception() is not None
        under_way.accepted = not refused
        if refused and self._motion is under_way:
            self._motion = None

    def _finish(self, event: MotionFinished) -> None:
        if event.outcome == "faulted":
            self._fault = event.reason
            self._update(motion="faulted", motion_id=event.motion_id, reason=event.reason)
        else:
            self._update(motion="idle", motion_id=None)
        under_way, self._motion = self._motion, None
        if under_way is not None:
            under_way.events.put_nowait(event)

    def _ring_head(self) -> int:
        """Return how many samples the last host has written."""
        try:
            with RingReader.open(self._ring_path) as ring:
                return ring.head
        except RingError:
            return self.status.samples

    def _update(self, **changes: Any) -> None:
        self.status = self.status.model_copy(update=changes)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        if self._on_status is not None:
            self._on_status(self.status)


async def _done_within(seconds: float, answer: asyncio.Future[int | None] | None) -> bool:
    """Wait for the host's answer; False when it does not come, or the host is gone. Raises what it says."""
    if answer is None:
        return False
    with contextlib.suppress(TimeoutError, HostGone):
        async with asyncio.timeout(seconds):  # `wait_for` of Python 3.11 swallows a cancellation on answer
            await asyncio.shield(answer)
        return True
    return False
