"""Who may do what: roles, principals, and how far a principal sees."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum

from service.errors import ForbiddenError

KEY_PREFIX = "dynid_"
"""What a key begins with, so that one that leaks into a file is found."""


class Role(StrEnum):
    """Each may do all that those before it may.

    ``viewer`` looks, and may stop a robot, as anybody may; ``operator`` moves and records; ``engineer`` identifies and
    puts results and tables in force; ``admin`` gives keys and reads the audit.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    ENGINEER = "engineer"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return list(Role).index(self)


@dataclass(frozen=True)
class Principal:
    """Who asks. ``robots`` None stands for all of them."""

    name: str
    role: Role
    robots: frozenset[str] | None = None

    def require(self, role: Role, what: str) -> None:
        """Raise ForbiddenError ``role-too-low`` unless this principal has at least a role."""
        if self.role.rank < role.rank:
            raise ForbiddenError(
                f"{what} needs the role {role}; the key {self.name!r} has {self.role}",
                code="role-too-low",
                needed=str(role),
                role=str(self.role),
            )


EVERYBODY = Principal("everybody", Role.ADMIN)
"""Whoever asks while authentication is off."""
SERVICE = Principal("service", Role.ADMIN)
"""What the service does by itself."""

_robots_in_sight: ContextVar[frozenset[str] | None] = ContextVar("robots_in_sight", default=None)


def robots_in_sight() -> frozenset[str] | None:
    """Return the robots that the present request may know of; None for all."""
    return _robots_in_sight.get()


def in_sight(robot: str | None) -> bool:
    """Tell whether the present request may know of a robot; what belongs to none is everybody's."""
    seen = robots_in_sight()
    return seen is None or robot is None or robot in seen


@contextmanager
def seeing(principal: Principal) -> Iterator[None]:
    """Let what is done inside, tasks that it starts included, see no other robots than the principal may."""
    token = _robots_in_sight.set(principal.robots)
    try:
        yield
    finally:
        _robots_in_sight.reset(token)


def new_key() -> str:
    """Return a key that nobody guesses. It is shown once; only its digest is kept."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def key_digest(key: str | bytes) -> str:
    """Return the SHA-256 of a key, hexadecimal. Keys are random and long, so no salt and no slow hash are needed."""
    return hashlib.sha256(key.encode() if isinstance(key, str) else key).hexdigest()
