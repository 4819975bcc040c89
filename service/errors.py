"""Errors of the service, each of which the REST layer maps to one HTTP status by its class."""

from __future__ import annotations

from core.errors import DynidError


class NotFoundError(DynidError):
    """Something was named that does not exist (404)."""

    code = "not-found"


class ConflictError(DynidError):
    """The request is sound, but not in the present state (409)."""

    code = "conflict"


class ForbiddenError(DynidError):
    """Whoever asks is known, but may not do this (403)."""

    code = "forbidden"


class StorageError(DynidError):
    """The database or the data directory cannot be used: foreign, newer, full, locked, unwritable (503)."""

    code = "storage-unusable"


class StorageRefusedError(StorageError):
    """The database works, but does not take this: a constraint, a value. Repeating it does not help (500)."""

    code = "storage-refused"
