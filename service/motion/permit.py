"""The motion permit of one robot: a latch that a motion needs and every motion uses up.

It works like the reset circuit of an emergency stop: whatever happens leads back to DISARMED, only a
deliberate act arms, and a fault stays until it is deliberately reset. It is not a safety function.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.errors import ConflictError

log = logging.getLogger(__name__)


class PermitState(StrEnum):
    """Where the permit stands; only ARMED lets a motion begin."""

    DISARMED = "disarmed"
    ARMED = "armed"
    MOVING = "moving"
    STOPPING = "stopping"
    FAULTED = "faulted"


ALLOWED: Mapping[PermitState, frozenset[PermitState]] = {
    PermitState.DISARMED: frozenset({PermitState.ARMED, PermitState.FAULTED}),
    PermitState.ARMED: frozenset({PermitState.MOVING, PermitState.DISARMED, PermitState.FAULTED}),
    PermitState.MOVING: frozenset({PermitState.STOPPING, PermitState.FAULTED}),
    PermitState.STOPPING: frozenset({PermitState.DISARMED, PermitState.FAULTED}),
    PermitState.FAULTED: frozenset({PermitState.DISARMED}),
}
"""The only transitions there are. A motion passes through STOPPING also when it ends by itself."""

UNARMED = frozenset({PermitState.DISARMED, PermitState.FAULTED})
"""The states in which no arming is in force."""


@dataclass(frozen=True)
class PermitChange:
    """One transition: what a log, an event row and a live view are told."""

    robot: str
    before: PermitState
    after: PermitState
    reason: str


class Permit:
    """Permit of one robot. Not thread-safe: it lives on the service's event loop.

    Parameters
    ----------
    robot : name, for messages.
    motion_enabled : the robot's own setting; without it nothing ever arms.
    arm_seconds : an arm that is not used within this time is taken back.
    on_change : told about every transition, after it happened.
    clock : monotonic seconds.
    """

    def __init__(
        self,
        robot: str,
        *,
        motion_enabled: bool,
        arm_seconds: float,
        on_change: Callable[[PermitChange], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.robot = robot
        self.motion_enabled = motion_enabled
        self.arm_seconds = arm_seconds
        self.reason = "not armed since the service started"
        self._on_change = on_change
        self._clock = clock
        self._state = PermitState.DISARMED
        self._armed_until = 0.0
        self._armings = 0

    @property
    def state(self) -> PermitState:
        """The present state; an arm whose time is over counts as DISARMED from that moment on."""
        self.expire_if_due()
        return self._state

    @property
    def armed_seconds_left(self) -> float | None:
        """Time until an unused arm is taken back, s; None unless ARMED."""
        if self.state is not PermitState.ARMED:
            return None
        return self._armed_until - self._clock()

    @property
    def arming(self) -> int | None:
        """Number of the arming that is in force, from ARMED until its motion is over; None otherwise.

        Every arming has a number larger than all before, so that what was asked for under one of them never
        passes under a later one.
        """
        return None if self._state in UNARMED else self._armings

    def arm(self) -> None:
        """Allow one motion, for a limited time.

        Raises
        ------
        ConflictError
            ``motion-disabled`` by the robot's settings, or ``permit-transition`` from any state but
            DISARMED.
        """
        self.require_enabled()
        if self.state is not PermitState.DISARMED:
            self._refuse(PermitState.ARMED)
        self._armed_until = self._clock() + self.arm_seconds
        self._armings += 1
        self._move_to(PermitState.ARMED, f"armed for {self.arm_seconds:g} s")

    def require_enabled(self) -> None:
        """Raise ConflictError ``motion-disabled`` unless the robot's settings allow motion."""
        if not self.motion_enabled:
            raise ConflictError(
                f"motion of {self.robot} is disabled in its settings; set motion_enabled = true for it "
                "once its surroundings are safe, and restart the service",
                code="motion-disabled",
                robot=self.robot,
            )

    def require_armed(self) -> None:
        """Raise ConflictError ``robot-disarmed`` unless a motion may begin now."""
        if self.state is PermitState.ARMED:
            return
        remedy = "reset the fault, then arm" if self._state is PermitState.FAULTED else "arm it first"
        raise ConflictError(
            f"{self.robot} is not armed but {self._state} ({self.reason}); {remedy}",
            code="robot-disarmed",
            robot=self.robot,
            permit=self._state.value,
        )

    def begin_motion(self, reason: str) -> None:
        """ARMED -> MOVING; anything else is refused as :meth:`require_armed` does."""
        self.require_armed()
        self._move_to(PermitState.MOVING, reason)

    def begin_stop(self, reason: str) -> None:
        """MOVING -> STOPPING; a motion that is stopping already goes on stopping."""
        if self.state is not PermitState.STOPPING:
            self._move_to(PermitState.STOPPING, reason)

    def end_stop(self, reason: str) -> None:
        """STOPPING -> DISARMED: the robot is at rest."""
        if self.state is not PermitState.STOPPING:
            self._refuse(PermitState.DISARMED)
        self._move_to(PermitState.DISARMED, reason)

    def disarm(self, reason: str) -> None:
        """ARMED -> DISARMED. Disarming what is disarmed changes nothing.

        What moves has to be stopped first, a fault to be reset.
        """
        if self.state is PermitState.DISARMED:
            return
        if self._state is not PermitState.ARMED:
            self._refuse(PermitState.DISARMED)
        self._move_to(PermitState.DISARMED, reason)

    def fault(self, reason: str) -> None:
        """Latch FAULTED from any state. The first reason is kept: later ones follow from it."""
        if self.state is not PermitState.FAULTED:
            self._move_to(PermitState.FAULTED, reason)

    def reset(self) -> None:
        """FAULTED -> DISARMED, the one way out of a fault."""
        self.require_faulted()
        self._move_to(PermitState.DISARMED, "fault reset")

    def require_faulted(self) -> None:
        """Raise ConflictError ``permit-transition`` when there is no fault to reset."""
        if self.state is not PermitState.FAULTED:
            raise ConflictError(
                f"{self.robot} is {self._state}, not faulted; there is nothing to reset",
                code="permit-transition",
                robot=self.robot,
                permit=self._state.value,
            )

    def expire_if_due(self) -> None:
        """Take back an arm that nobody used in time."""
        if self._state is PermitState.ARMED and self._clock() >= self._armed_until:
            self._move_to(PermitState.DISARMED, f"not used within {self.arm_seconds:g} s of arming")

    def _move_to(self, after: PermitState, reason: str) -> None:
        before = self._state
        if after not in ALLOWED[before]:
            self._refuse(after)
        self._state, self.reason = after, reason
        log.info("permit of %s: %s -> %s (%s)", self.robot, before, after, reason)
        if self._on_change is not None:
            self._on_change(PermitChange(self.robot, before, after, reason))

    def _refuse(self, after: PermitState) -> None:
        remedy = {
            PermitState.MOVING: "stop the motion first",
            PermitState.STOPPING: "wait until the robot is at rest",
            PermitState.FAULTED: "reset the fault first",
        }.get(self._state, "disarm it first")
        raise ConflictError(
            f"{self.robot} is {self._state} and cannot become {after} ({self.reason}); {remedy}",
            code="permit-transition",
            robot=self.robot,
            permit=self._state.value,
        )
