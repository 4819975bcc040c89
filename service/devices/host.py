"""The device host: ``python -m service.devices.host --link FD``. One robot, the sole owner of its connections.

Its parent, the service, holds the other end of the socket ``FD``; when that end closes, however it came to,
the host stops a running motion and ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Coroutine
from typing import Any

from core.errors import DynidError
from core.streaming.ring import RingWriter
from drivers.contract import DriverError, RobotDriver, driver_named
from service.devices.acquisition import Acquisition, ask_for_priority
from service.devices.heat import JointHeat
from service.devices.messages import (
    Configure,
    ControllerStatus,
    Done,
    Failed,
    Heartbeat,
    LoadFeedforward,
    Message,
    Play,
    Recover,
    Report,
    Shutdown,
    Stop,
    line,
    to_host,
)
from service.devices.motion_control import MotionControl
from service.devices.watch import SampleWatch

REPORT_PERIOD = 0.1  # s
SMALLEST_RING = 2048  # samples: more than can arrive at once after this process was held up
PRIORITY = 20  # of SCHED_FIFO, below acquisition
CANNOT_START = 2  # exit code; the reason is the last line of stderr

_log = logging.getLogger("service.devices.host")


class Host:
    """The process's event loop: commands in, reports and motion events out."""

    def __init__(
        self, configuration: Configure, driver: RobotDriver, ring: RingWriter, writer: asyncio.StreamWriter
    ) -> None:
        self._driver = driver
        self._ring = ring
        self._writer = writer
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        source = driver.source()
        watch = SampleWatch(driver.capabilities.n_joints, driver.capabilities.unit)
        self._source = source
        self._watch = watch
        self._acquisition = Acquisition(
            source, ring, watch.update, lambda: loop.call_soon_threadsafe(self._changed.set)
        )
        self._control = MotionControl(
            driver,
            ring,
            watch,
            self._acquisition,
            self._send,
            self._start,
            JointHeat(source, configuration.temperature_limit),
            motion_enabled=configuration.motion_enabled,
            virtual=configuration.virtual,
        )

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Serve until the service says so or is gone; leaves the robot at rest if that can be had."""
        ask_for_priority(PRIORITY)  # this loop watches over the motion, and the motion stops when it is late
        self._acquisition.start()
        self._start(self._report())
        self._start(self._control.watch_over())
        with contextlib.suppress(ConnectionError):
            async for message in reader:
                command = to_host.validate_json(message)
                if isinstance(command, Shutdown):
                    break
                self._obey(command)
        if self._control.state != "idle":
            with contextlib.suppress(DriverError):
                await self._control.stop("the service has ended")
        await asyncio.to_thread(self._acquisition.finish)  # reports go on meanwhile
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _obey(self, command: Message) -> None:
        match command:
            case Heartbeat():
                self._control.heartbeat(command.authority_until, command.arming)
            case Play():
                self._start(self._answer(command.call, self._control.play(command.request)))
                asyncio.get_running_loop().call_soon(self._changed.set)
            case Stop():
                self._control.revoke()
                self._start(self._answer(command.call, self._control.stop(command.reason)))
            case Recover():
                self._start(self._answer(command.call, self._control.recover()))
            case LoadFeedforward():
                work = self._control.load_feedforward(command.trajectory, command.table)
                self._start(self._answer(command.call, work))
            case _:
                raise DynidError(f"the service sent '{type(command).__name__}' out of turn")

    async def _answer(self, call: int, work: Coroutine[Any, Any, int | None]) -> None:
        try:
            version = await work
        except DynidError as error:
            self._send(Failed(call=call, code=error.code, detail=error.detail, context=error.context))
        else:
            self._send(Done(call=call, version=version))

    async def _report(self) -> None:
        while True:
            self._send(self._status())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REPORT_PERIOD):
                    await self._changed.wait()
            self._changed.clear()

    def _status(self) -> Report:
        acquisition, info, state = self._acquisition, self._acquisition.info, self._source.state
        age = acquisition.sample_age
        safety = None if state is None else self._watch.safety_stop
        return Report(
            connection=acquisition.connection,
            reason=acquisition.reason,
            ring_epoch=self._ring.epoch,
            n_joints=self._ring.n_joints,
            samples=self._ring.head,
            lost=self._ring.lost,
            sample_age_ms=None if age is None else 1e3 * age,
            realtime=acquisition.realtime,
            controller=ControllerStatus(
                version=info and info.version,
                serial=info and info.serial,
                model=info and info.model,
                virtual=info and info.virtual,
                mode=state and state.robot_mode,
                safety=state and state.safety_mode,
                program_running=state and state.program_running,
                stop=safety and safety.reason,
                joint_temperatures=state and state.temperatures,
            ),
            motion=self._control.state,
            motion_id=self._control.motion_id,
        )

    def _send(self, message: Message) -> None:
        self._writer.write(line(message))
        if not isinstance(message, Report):
            self._changed.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _end_at_once("a task", error)


async def serve(link: socket.socket) -> None:
    """Take the configuration, run the host, leave nothing behind.

    Raises
    ------
    DynidError
        The configuration cannot be carried out.
    """
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: _end_at_once(context["message"], context.get("exception"))
    )
    reader, writer = await asyncio.open_unix_connection(sock=link)
    first = await reader.readline()
    if not first:
        return
    configuration = to_host.validate_json(first)
    if not isinstance(configuration, Configure):
        raise DynidError("the service did not begin with a configuration")
    make = driver_named(configuration.driver)
    driver = make(configuration.host, configuration.rate_hz, **configuration.driver_options)
    capacity = max(SMALLEST_RING, round(configuration.ring_seconds * configuration.rate_hz))
    with RingWriter.create(configuration.ring_path, driver.capabilities.n_joints, capacity) as ring:
        await Host(configuration, driver, ring, writer).run(reader)
        ring.unlink()
    writer.close()


def _end_at_once(what: str, error: BaseException | None) -> None:
    """A part that failed by a bug leaves a host that looks alive: let the service start a new one instead.

    A running motion stops, because the motion process notices that its parent is gone.
    """
    _log.critical("%s failed: %r", what, error, exc_info=error)
    os._exit(1)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--link", type=int, required=True, help="descriptor of the socket to the service")
    descriptor = arguments.parse_args().link
    os.set_inheritable(descriptor, False)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    for ending in (signal.SIGINT, signal.SIGTERM):  # sent to all processes of the service alike; it decides
        signal.signal(ending, signal.SIG_IGN)
    threading.excepthook = lambda failure: _end_at_once(f"{failure.thread}", failure.exc_value)
    try:
        asyncio.run(serve(socket.socket(fileno=descriptor)))
    except DynidError as error:
        _log.error("%s", error.detail)
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    main()
