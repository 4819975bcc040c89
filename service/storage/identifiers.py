"""Identifiers that sort by time of creation: prefix, 48-bit millisecond stamp, 80 random bits (a ULID)."""

from __future__ import annotations

import secrets
import threading
import time

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: no I, L, O, U, and in ASCII order, so that text sorts like the number."""

_RANDOM_BITS = 80
_LENGTH = 26

_lock = threading.Lock()
_last = 0


def new_id(prefix: str) -> str:
    """Return ``prefix_`` and 26 characters; within a process, later identifiers are always larger."""
    global _last  # noqa: PLW0603 - two identifiers of one millisecond must still be ordered
    with _lock:
        fresh = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        _last = max(fresh, _last + 1)
        number = _last
    digits = (ALPHABET[number >> 5 * place & 31] for place in reversed(range(_LENGTH)))
    return f"{prefix}_{''.join(digits)}"
