"""Conditional requests (RFC 9110, section 13): a client that has it already is told so."""

from __future__ import annotations

from fastapi import Response


def not_modified(etag: str, if_none_match: str | None) -> Response | None:
    """Return the 304 for a client whose If-None-Match names ``etag``, else None. The comparison is weak."""
    if if_none_match is None:
        return None
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    same = "*" in tags or etag.removeprefix("W/") in tags
    return Response(status_code=304, headers={"ETag": etag}) if same else None
