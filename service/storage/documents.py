"""Documents as JSON: the one form in which they are stored, and the digest that names their content."""

from __future__ import annotations

import hashlib
import json
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


def document_digest(document: dict[str, Any]) -> str:
    """SHA-256 of the document's JSON with sorted keys, hex: equal documents have equal digests."""
    return hashlib.sha256(to_json(document, sort_keys=True).encode()).hexdigest()
