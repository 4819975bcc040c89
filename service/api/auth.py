"""Authentication: an API key, sent as a bearer token, asked for on every path that is not named as open.

The administrator's key comes from the settings or is generated once into ``data_dir/api-key`` (mode 0600), where
whoever may read the service's data may read it. Other keys, with roles and for some robots only, are kept in the
database as digests.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from fastapi.security import HTTPBearer
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.access import EVERYBODY, Principal, Role, key_digest, seeing
from service.api.docs import DOCS_PATH, ICON_PATH, SCRIPT_PATH, STYLE_PATH
from service.api.problems import problem_response
from service.api.rate_limit import RateLimit
from service.api.refreshed import Refreshed
from service.errors import StorageError
from service.settings import SHORTEST_KEY, ConfigurationError, Settings
from service.storage import Database, api_keys

KEY_FILE = "api-key"
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json", DOCS_PATH, SCRIPT_PATH, STYLE_PATH, ICON_PATH})
METRICS_PATH = "/metrics"
PRINCIPAL = "principal"
"""Where a request's state says who asks."""
ADMINISTRATOR = Principal("administrator", Role.ADMIN)
"""Who has the service's own key."""
_LOOK_SECONDS, _OLDEST_SECONDS = 0.5, 1.0
"""Age at which what is known of keys is looked up again, and at which a request waits for that."""
_WRONG_KEYS_PER_SECOND, _WRONG_KEYS_AT_ONCE = 1.0, 20
"""From one address, before it has to wait; a right key is let in all the same."""

bearer = HTTPBearer(
    auto_error=False,
    scheme_name="apiKey",
    description="An API key: the one in `data_dir/api-key`, or one made with `dynid keys add`.",
)
"""Declares the scheme in OpenAPI; the check itself is `Authentication`, which no route can forget."""


class Keys:
    """Whom each key stands for: the service's own, and those in the database.

    A key that another program makes is of use at once or half a second later; one that it revokes, a second at most.
    """

    def __init__(self, own: str | None, database: Database) -> None:
        self._own = None if own is None else key_digest(own)
        self._database = database
        self._known = Refreshed(self._look_up, after=_LOOK_SECONDS, oldest=_OLDEST_SECONDS)

    async def principal(self, key: bytes) -> Principal | None:
        """Return whom a key stands for; None for a wrong one, or for none while keys are asked for."""
        if self._own is None:
            return EVERYBODY
        digest = key_digest(key)
        # Of digests nothing about a key can be learned, however long the comparison takes.
        if hmac.compare_digest(digest, self._own):
            return ADMINISTRATOR
        found = _owner(digest, await self._known.value())
        return found or _owner(digest, await self._known.value(_LOOK_SECONDS))

    def changed(self) -> None:
        """Look keys up before the next request: one was made or revoked here."""
        self._known.outdate()

    def _look_up(self) -> dict[str, Principal]:
        with self._database.reading() as session:
            return api_keys.principals(session)


def _owner(digest: str, known: Mapping[str, Principal]) -> Principal | None:
    return next((who for other, who in known.items() if hmac.compare_digest(digest, other)), None)


class Authentication:
    """ASGI middleware: refuses a request without a key before anything else looks at it.

    What follows finds the principal in the scope's state, and sees only the robots that the principal may. ``keys`` is
    called for each request: they are known only once the service has started.
    """

    def __init__(self, app: ASGIApp, *, keys: Callable[[], Keys], metrics_public: bool) -> None:
        self._app = app
        self._keys = keys
        self._open = OPEN_PATHS | {METRICS_PATH} if metrics_public else OPEN_PATHS
        self._refused = RateLimit(per_second=_WRONG_KEYS_PER_SECOND, burst=_WRONG_KEYS_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._open:
            await self._app(scope, receive, send)
            return
        try:
            principal = await self._keys().principal(_bearer(scope))
        except StorageError as error:
            await problem_response(Request(scope), status=503, code=error.code, detail=error.detail)(
                scope, receive, send
            )
            return
        if principal is None:
            await self._refuse(scope, receive, send)
            return
        scope.setdefault("state", {})[PRINCIPAL] = principal
        with seeing(principal):
            await self._app(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = (scope.get("client") or ("",))[0]
        if _bearer(scope) and not self._refused.allows(client):
            response = problem_response(
                Request(scope),
                status=429,
                code="too-many-wrong-keys",
                detail="too many requests with a wrong key came from this address; try again in some seconds",
                headers={"Retry-After": "5"},
            )
        else:
            response = problem_response(
                Request(scope),
                status=401,
                code="unauthenticated",
                detail="send an API key in the header 'Authorization: Bearer KEY'; the administrator's is in the file "
                "api-key in the service's data folder, or in its settings, others are made with 'dynid keys add'",
                headers={"WWW-Authenticate": 'Bearer realm="dynid"'},
            )
        await response(scope, receive, send)


def principal_of(request: Request) -> Principal:
    """Return who asks."""
    principal: Principal = request.state.principal
    return principal


def _bearer(scope: Scope) -> bytes:
    """Return the key that a request was sent with; empty for none."""
    header: bytes = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    scheme, _, given = header.partition(b" ")
    return given.strip() if scheme.lower() == b"bearer" else b""


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
