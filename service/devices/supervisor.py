"""The service's side of one robot: starts its host process, watches it, restarts it, passes calls on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

from service.devices.messages import DeviceStatus, MotionEvent, MotionRequest
from service.settings import RobotSettings


class DeviceSupervisor:
    """One robot, for as long as the service runs.

    A controller that cannot be reached is a status, never an exception: ``start`` succeeds, ``status`` says
    ``disconnected`` and why, and the host keeps trying.

    Parameters
    ----------
    robot : settings of this robot.
    runtime_dir : where the ring of live samples is made, best in memory (``/dev/shm``).
    on_status : called in the event loop whenever ``status`` has changed (at most about 10 times a second).
    """

    def __init__(
        self,
        robot: RobotSettings,
        runtime_dir: Path,
        on_status: Callable[[DeviceStatus], None] | None = None,
    ) -> None:
        self.robot = robot
        self.status = DeviceStatus(robot=robot.name, rate_hz=robot.rate_hz)
        self._runtime_dir = runtime_dir
        self._on_status = on_status

    async def start(self) -> None:
        """Start the host process; does not wait for the controller."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop a running motion, end the host; idempotent."""
        raise NotImplementedError

    async def wait_streaming(self, timeout: float) -> None:
        """Wait until samples arrive.

        Raises
        ------
        DriverError
            They do not within ``timeout`` s; the reason is the status's.
        """
        raise NotImplementedError

    def play(self, motion: MotionRequest) -> AsyncIterator[MotionEvent]:
        """Play a trajectory: ``MotionStarted``, ``MotionProgress`` ..., and always ``MotionFinished`` last.

        Authority (`set_authority`) must have been given. Leaving the iteration early stops the motion.

        Raises
        ------
        MotionRefused
            Before the first event, with nothing moved: code ``motion-disabled``, ``no-authority``,
            ``robot-busy``, ``device-faulted``, ``not-streaming``, ``not-at-start``, ``controller-not-ready``.
        """
        raise NotImplementedError

    async def stop(self, reason: str) -> None:
        """Stop the robot; always allowed, idempotent; returns when it is at rest.

        Raises
        ------
        StopUnconfirmed
            Every way was tried and the robot is not known to be at rest.
        """
        raise NotImplementedError

    async def reset_fault(self) -> None:
        """Forget a latched fault and release a protective stop; raises `DriverError` when that is refused."""
        raise NotImplementedError

    def set_authority(self, valid_until_monotonic: float | None) -> None:
        """Allow motion until that ``time.monotonic()``; None takes the permission away at once."""
        raise NotImplementedError
