"""Documents as JSON: the one form in which they are stored, and the digest that names their content."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from core.errors import InputError


def to_json(value: Any, *, sort_keys: bool = False) -> str:
    """Return compact JSON.

    Raises
    ------
    InputError
        ``document-invalid``: not JSON-serialisable, or a number that is not finite.
    """
    try:
        return json.dumps(value, sort_keys=sort_keys, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InputError(f"a document cannot be stored as JSON: {error}", code="document-invalid") from error


def plain_json(value: Any) -> Any:
    """Return ``value`` with what JSON cannot hold made plain: null for NaN and infinity, else text.

    For what is only told, as the context of an error; what is stored is never changed on the way.
    """
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_json(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def document_digest(document: dict[str, Any]) -> str:
    """SHA-256 of the document's JSON with sorted keys, hex: equal documents have equal digests."""
    return hashlib.sha256(to_json(document, sort_keys=True).encode()).hexdigest()
