"""The lease: who may move a robot, for how long.

One holder at a time. Whoever has the token may act; a name proves nothing. Each grant gets a fencing
number larger than every earlier one, also across restarts, so that a late command of a former holder
can be told from one of the present holder.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from core.errors import InputError
from service.errors import ConflictError

MIN_SECONDS, MAX_SECONDS = 1.0, 3600.0
"""Shortest and longest time to live of a lease: a lease that never lapses would be no lease."""


@dataclass(frozen=True)
class LeaseGrant:
    """What the holder is given. ``token`` is secret and appears in no representation or log."""

    robot: str
    holder: str
    fencing: int
    seconds: float
    valid_until: float  # monotonic s of this process
    token: str = field(repr=False)


class Lease:
    """Lease of one robot. Not thread-safe: it lives on the service's event loop.

    Expiry is judged by the monotonic clock, so that setting the wall clock neither ends nor
    prolongs a lease.
    """

    def __init__(self, robot: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.robot = robot
        self._clock = clock
        self._grant: LeaseGrant | None = None
        self._last_fencing = 0

    @property
    def current(self) -> LeaseGrant | None:
        """The grant in force, None when there is none or its time is over."""
        grant = self._grant
        return grant if grant is not None and self._clock() < grant.valid_until else None

    @property
    def valid_until(self) -> float | None:
        """Monotonic time at which the present holder's authority ends; None when nobody holds it."""
        grant = self.current
        return None if grant is None else grant.valid_until

    @property
    def seconds_left(self) -> float:
        """Remaining time of the present holder, s; 0 when nobody holds it."""
        until = self.valid_until
        return 0.0 if until is None else until - self._clock()

    def require_free(self) -> None:
        """Raise ConflictError ``lease-held``, naming holder and remaining seconds, while someone holds it."""
        grant = self.current
        if grant is None:
            return
        left = self.seconds_left
        raise ConflictError(
            f"{self.robot} is leased to {grant.holder!r} for {left:.1f} s more; wait or ask for its release",
            code="lease-held",
            robot=self.robot,
            holder=grant.holder,
            seconds_left=round(left, 3),
        )

    def acquire(self, holder: str, seconds: float, *, fencing: int) -> LeaseGrant:
        """Grant the lease to ``holder`` for ``seconds``, with a fencing number never used before.

        Raises
        ------
        ConflictError
            ``lease-held`` by someone, be it under the same name: the token decides, not the name.
        InputError
            No holder, a time out of range, or a fencing number that does not increase.
        """
        self.require_free()
        if not holder.strip():
            raise InputError("a lease needs a holder: say who will move the robot", code="lease-holder-missing")
        _require_seconds(seconds)
        if fencing <= self._last_fencing:
            raise InputError(
                f"fencing numbers of {self.robot} must increase, got {fencing} after {self._last_fencing}",
                code="fencing-not-monotone",
            )
        self._last_fencing = fencing
        self._grant = LeaseGrant(
            self.robot, holder, fencing, seconds, self._clock() + seconds, secrets.token_urlsafe(24)
        )
        return self._grant

    def require(self, token: str | None) -> LeaseGrant:
        """Return the grant that ``token`` proves.

        Raises
        ------
        ConflictError
            ``lease-required`` without a token, ``lease-invalid`` with one that is not (or no longer)
            the present holder's.
        """
        if not token:
            raise ConflictError(
                f"this needs the lease of {self.robot}: acquire it and send its token",
                code="lease-required",
                robot=self.robot,
            )
        grant = self.current
        if grant is None or not hmac.compare_digest(grant.token.encode(), token.encode()):
            raise ConflictError(
                f"the lease token is not the one in force for {self.robot}: it has lapsed, was released, or "
                "belongs to another robot; acquire the lease again",
                code="lease-invalid",
                robot=self.robot,
            )
        return grant

    def renew(self, token: str | None, seconds: float | None = None) -> LeaseGrant:
        """Let the lease last ``seconds`` from now (as long as first granted when None)."""
        grant = self.require(token)
        seconds = grant.seconds if seconds is None else seconds
        _require_seconds(seconds)
        self._grant = replace(grant, seconds=seconds, valid_until=self._clock() + seconds)
        return self._grant

    def release(self, token: str | None) -> None:
        """End the lease now."""
        self.require(token)
        self._grant = None


def _require_seconds(seconds: float) -> None:
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise InputError(
            f"a lease lasts between {MIN_SECONDS:g} and {MAX_SECONDS:g} s, got {seconds:g} s; renew it",
            code="lease-seconds-out-of-range",
        )
