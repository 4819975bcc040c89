"""Authentication: one API key, sent as a bearer token, asked for on every path that is not named as open.

The key comes from the settings or is generated once into ``data_dir/api-key`` (mode 0600), where whoever
may read the service's data may read it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from fastapi.security import HTTPBearer
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.docs import DOCS_PATH, ICON_PATH, SCRIPT_PATH, STYLE_PATH
from service.api.problems import problem_response
from service.settings import SHORTEST_KEY, ConfigurationError, Settings

KEY_FILE = "api-key"
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json", DOCS_PATH, SCRIPT_PATH, STYLE_PATH, ICON_PATH})
METRICS_PATH = "/metrics"

bearer = HTTPBearer(
    auto_error=False, scheme_name="apiKey", description="The service's API key, see `data_dir/api-key`."
)
"""Declares the scheme in OpenAPI; the check itself is `Authentication`, which no route can forget."""


class Authentication:
    """ASGI middleware: refuses a request without the key before anything else looks at it.

    ``key`` is called for each request: the key is known only once the service has started. None lets
    everybody in.
    """

    def __init__(self, app: ASGIApp, *, key: Callable[[], str | None], metrics_public: bool) -> None:
        self._app = app
        self._key = key
        self._open = OPEN_PATHS | {METRICS_PATH} if metrics_public else OPEN_PATHS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._open or self._allows(scope):
            await self._app(scope, receive, send)
            return
        response = problem_response(
            Request(scope),
            status=401,
            code="unauthenticated",
            detail="send the API key in the header 'Authorization: Bearer KEY'; "
            "the service keeps it in the file api-key in its data folder, or in its settings",
            headers={"WWW-Authenticate": 'Bearer realm="dynid"'},
        )
        await response(scope, receive, send)

    def _allows(self, scope: Scope) -> bool:
        key = self._key()
        if key is None:
            return True
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, given = header.partition(b" ")
        # Digests have one length, so that the comparison tells nothing about the length of the key either.
        same = hmac.compare_digest(_digest(given.strip()), _digest(key.encode()))
        return same and scheme.lower() == b"bearer"


def api_key(settings: Settings) -> str | None:
    """Return the key to ask for: the configured one, else that of the key file, made now if need be.

    None when authentication is switched off. ``data_dir`` must exist.

    Raises
    ------
    ConfigurationError
        The key file is readable by others, too short or cannot be read.
    """
    if not settings.authentication:
        return None
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    path = settings.data_dir / KEY_FILE
    _create_key(path)
    try:
        mode = path.stat().st_mode
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the API key in {path}: {error}", path=str(path)) from error
    if mode & 0o077:
        raise ConfigurationError(
            f"others may read the API key in {path}; run 'chmod 600 {path}', and delete it if they may have",
            path=str(path),
        )
    if len(key) < SHORTEST_KEY:
        raise ConfigurationError(
            f"the API key in {path} is shorter than {SHORTEST_KEY} characters; delete it to get a new one",
            path=str(path),
        )
    return key


def _create_key(path: Path) -> None:
    """Write a new key unless there is one; complete or not at all, whenever this is interrupted."""
    if path.exists():
        return
    scratch = path.with_name(f".{KEY_FILE}.{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
