"""Permit, lease and device of one robot brought together: who may move it, whether it may move, and stop.

The guard keeps the three consistent while nobody asks: an arm belongs to the lease under which it was
given, a motion does not outlive its lease, a device or controller that reports a fault latches the permit. The device
host is told which arming is in force and until when the lease lasts, and enforces both by itself as well,
should this process hang or die, or a stop overtake the motion that it should prevent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from core.errors import DynidError
from drivers.contract import MotionRefused
from service.devices import DeviceStatus, DeviceSupervisor
from service.errors import ConflictError
from service.logs import about
from service.motion.lease import Lease, LeaseGrant
from service.motion.permit import Permit, PermitChange, PermitState
from service.settings import RobotSettings

log = logging.getLogger(__name__)

WATCH_SECONDS = 0.1
"""How often lapse, expiry and faults are looked for. The host's own deadline does not depend on it."""

ARM_SECONDS = 120.0
"""How long an arm waits to be used: long enough for a preflight check that has to compile its kernels first,
too short to be forgotten."""

RESET_SECONDS = 5.0
"""How long the device may take to report that its fault is gone."""


class MotionGuard:
    """Guard of one robot; lives on the service's event loop.

    Parameters
    ----------
    settings, device : the robot.
    next_fencing : returns a number larger than every earlier one, also across restarts. Blocks: it is
        called in a thread.
    on_change : told about every transition of the permit.
    """

    def __init__(
        self,
        settings: RobotSettings,
        device: DeviceSupervisor,
        *,
        next_fencing: Callable[[], int],
        on_change: Callable[[PermitChange], None] | None = None,
        arm_seconds: float = ARM_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.robot = settings.name
        self.device = device
        self.permit = Permit(
            settings.name,
            motion_enabled=settings.motion_enabled,
            arm_seconds=arm_seconds,
            on_change=self._permit_changed,
            clock=clock,
        )
        self.lease = Lease(settings.name, clock=clock)
        self._next_fencing = next_fencing
        self._on_change = on_change
        self._waiting: list[Callable[[str], None]] = []  # whoever prepares a motion under the present arming
        self._granting = asyncio.Lock()
        self._armed_by = 0  # fencing number of the lease under which the permit was armed
        self._watch: asyncio.Task[None] | None = None

    # --- life ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to watch."""
        self._watch = asyncio.create_task(self._watch_forever(), name=f"guard of {self.robot}")

    async def close(self) -> None:
        """Stop watching and withdraw all authority to move."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            self._watch = None
        self.device.set_authority(None)

    # --- lease --------------------------------------------------------------------------------------

    async def acquire_lease(self, holder: str, seconds: float) -> LeaseGrant:
        """Grant the lease; refusals as `Lease.acquire`."""
        async with self._granting:
            self.lease.require_free()
            await self._enforce_lease()  # a motion of the former holder must not live on the new authority
            fencing = await asyncio.to_thread(self._next_fencing)
            grant = self.lease.acquire(holder, seconds, fencing=fencing)
        self.device.set_authority(grant.valid_until)
        log.info("lease %d of %s granted to %r for %g s", fencing, self.robot, holder, seconds)
        return grant

    def renew_lease(self, token: str | None, seconds: float | None = None) -> LeaseGrant:
        """Prolong the lease from now; refusals as `Lease.renew`."""
        grant = self.lease.renew(token, seconds)
        self.device.set_authority(grant.valid_until)
        return grant

    async def release_lease(self, token: str | None) -> None:
        """End the lease; what was armed is disarmed, what moves under it is stopped."""
        self.lease.release(token)
        await self._authority_ended(f"the lease of {self.robot} was released")

    # --- permit -------------------------------------------------------------------------------------

    def arm(self, token: str | None) -> None:
        """Allow one motion.

        Raises
        ------
        ConflictError
            ``motion-disabled``, ``lease-required``, ``lease-invalid``, ``robot-not-streaming``, or
            ``permit-transition`` (faulted or stopped by its controller, moving, armed already).
        """
        self.permit.require_enabled()
        grant = self.lease.require(token)
        self._require_streaming()
        self._adopt_fault()
        self.permit.arm()
        self._armed_by = grant.fencing

    def disarm(self, reason: str) -> None:
        """Take an unused arm back; refused while moving (stop it) and when faulted (reset it)."""
        self.permit.disarm(reason)

    async def reset(self, token: str | None) -> None:
        """Leave FAULTED for DISARMED, after the device itself has given up its fault. Needs the lease.

        Raises
        ------
        ConflictError
            No valid lease, not faulted, or the device still reports a fault.
        DriverError
            The controller refuses.
        """
        self.lease.require(token)
        self._adopt_fault()
        self.permit.require_faulted()
        await self.device.reset_fault()
        deadline = time.monotonic() + RESET_SECONDS
        while (fault := _fault(self.device.status)) is not None:
            if time.monotonic() > deadline:
                raise ConflictError(
                    f"{self.robot} still reports a fault: {fault}",
                    code="fault-persists",
                    robot=self.robot,
                )
            await asyncio.sleep(WATCH_SECONDS)
        self.permit.reset()

    # --- motion -------------------------------------------------------------------------------------

    def require_ready(self, token: str | None) -> int:
        """Return the number of the arming under which a motion may be prepared now; refuse otherwise.

        Raises
        ------
        ConflictError
            ``robot-disarmed``, ``lease-required`` or ``lease-invalid``.
        """
        self.permit.require_armed()
        self.lease.require(token)
        return self._require_arming(self.permit.arming)

    def require_authority(self, token: str | None) -> None:
        """Refuse whoever may not change what the controller does when it moves.

        Raises
        ------
        ConflictError
            ``motion-disabled``, ``lease-required`` or ``lease-invalid``.
        """
        self.permit.require_enabled()
        self.lease.require(token)

    @contextmanager
    def preparing(self, arming: int, give_up: Callable[[str], None]) -> Iterator[None]:
        """While a motion is prepared under this arming: ``give_up(why)`` is called should the arming end.

        Raises
        ------
        ConflictError
            ``arming-ended`` already.
        """
        self._require_arming(arming)
        self._waiting.append(give_up)
        try:
            yield
        finally:
            self._waiting.remove(give_up)

    def begin_motion(self, arming: int, reason: str) -> None:
        """ARMED -> MOVING for a motion that was asked for under this arming, if it is still in force.

        Raises
        ------
        ConflictError
            ``arming-ended``: the robot was stopped or disarmed since, or the lease has ended. Nothing has moved.
        """
        self._require_arming(arming)
        self.permit.begin_motion(reason)

    def require_moving(self, arming: int) -> None:
        """Refuse a motion that was stopped between `begin_motion` and its way to the device.

        To be called in the very turn of the event loop in which the device is asked to play.

        Raises
        ------
        MotionRefused
            ``motion-stopped``; nothing has moved.
        """
        if self.permit.state is not PermitState.MOVING or self.permit.arming != arming:
            raise MotionRefused(
                f"{self.robot} was stopped before the motion began ({self.permit.reason})", code="motion-stopped"
            )

    def _require_arming(self, arming: int | None) -> int:
        """Return ``arming`` if the permit is ARMED under it and its lease lasts."""
        grant = self.lease.current
        if self.permit.state is not PermitState.ARMED:
            why = self.permit.reason
        elif arming is None or arming != self.permit.arming:
            why = "it was disarmed, and armed again since"
        elif grant is None or grant.fencing != self._armed_by:
            why = "the lease has ended"
        else:
            return arming
        raise ConflictError(
            f"the arming under which this motion of {self.robot} was asked for is no longer in force ({why}); "
            "nothing was moved. Arm again and submit it again if it is still wanted",
            code="arming-ended",
            robot=self.robot,
        )

    def end_motion(self, reason: str) -> None:
        """MOVING or STOPPING -> DISARMED, the robot being at rest; a fault stays latched."""
        if self.permit.state is PermitState.FAULTED:
            return
        self.permit.begin_stop(reason)
        self.permit.end_stop(reason)

    async def stop(self, reason: str) -> None:
        """Stop the robot, whoever moves it, and disarm. Needs neither lease nor permit; idempotent.

        Also ends whatever is prepared under the arming: a motion asked for before the stop never begins after it.
        Returns when the robot is at rest.

        Raises
        ------
        StopUnconfirmed
            It is not known to be at rest; if this service moved it, the permit is FAULTED.
        """
        state = self.permit.state
        if state is PermitState.MOVING:
            self.permit.begin_stop(reason)
        elif state is PermitState.ARMED:
            self.permit.disarm(reason)
        try:
            await self.device.stop(reason)
        except DynidError as error:
            if self.permit.state is PermitState.STOPPING:
                self.permit.fault(f"could not be stopped: {error.detail}")
            raise

    def _require_streaming(self) -> None:
        status = self.device.status
        if status.connection != "streaming":
            raise ConflictError(
                f"{self.robot} is {status.connection} ({_reason(status)}); "
                "only a robot whose samples arrive may be armed",
                code="robot-not-streaming",
                robot=self.robot,
                connection=status.connection,
            )

    def _permit_changed(self, change: PermitChange) -> None:
        self.device.set_arming(self.permit.arming)
        if change.before is PermitState.ARMED and change.after is not PermitState.MOVING:
            for give_up in list(self._waiting):
                give_up(change.reason)
        if self._on_change is not None:
            self._on_change(change)

    # --- watching -----------------------------------------------------------------------------------

    async def _watch_forever(self) -> None:
        with about(robot=self.robot):
            while True:
                try:
                    await self._watch_once()
                except Exception:
                    # The guard must go on guarding; what failed is on record and is tried again.
                    log.exception("guard of %s", self.robot)
                await asyncio.sleep(WATCH_SECONDS)

    async def _watch_once(self) -> None:
        self._adopt_fault()
        status = self.device.status
        if self.permit.state is PermitState.ARMED and status.connection != "streaming":
            self.permit.disarm(f"{self.robot} is {status.connection}: {_reason(status)}")
        await self._enforce_lease()

    def _adopt_fault(self) -> None:
        """FAULTED from any state while the device or its controller reports a fault, so that the permit is true."""
        fault = _fault(self.device.status)
        if fault is not None:
            self.permit.fault(fault)

    async def _enforce_lease(self) -> None:
        grant = self.lease.current
        in_force = grant is not None and grant.fencing == self._armed_by
        if not in_force and self.permit.state in (PermitState.ARMED, PermitState.MOVING):
            await self._authority_ended(f"the lease of {self.robot} lapsed")

    async def _authority_ended(self, reason: str) -> None:
        """What was armed is disarmed and what moves is stopped before the device loses its authority."""
        try:
            if self.permit.state is PermitState.ARMED:
                self.permit.disarm(reason)
            elif self.permit.state is PermitState.MOVING:
                await self.stop(reason)
        finally:
            self.device.set_authority(self.lease.valid_until)


def _fault(status: DeviceStatus) -> str | None:
    """Return why the robot must not move before somebody has looked, if so."""
    return _reason(status) if status.motion == "faulted" else status.controller.stop


def _reason(status: DeviceStatus) -> str:
    return status.reason or "no reason given"
