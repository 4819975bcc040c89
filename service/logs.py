"""The service's log: lines for people, or JSON for programs, each with the request, job and robot that it is about."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal

LogFormat = Literal["text", "json"]

_about: ContextVar[Mapping[str, str]] = ContextVar("about", default=MappingProxyType({}))


@contextmanager
def about(**identifiers: str | None) -> Iterator[None]:
    """Have all that is logged inside, by tasks begun there too, say which ``request``, ``job`` or ``robot`` it is of.

    Identifiers that are None are left as they are.
    """
    known = {name: identifier for name, identifier in identifiers.items() if identifier is not None}
    token = _about.set({**_about.get(), **known})
    try:
        yield
    finally:
        _about.reset(token)


def set_up_logging(level: str, form: LogFormat) -> None:
    """Log to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else _Text())
    logging.basicConfig(level=level.upper(), handlers=[handler])


class JsonLines(logging.Formatter):
    """One JSON object per line: time (UTC), level, logger, message, identifiers, and exception where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_about.get(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)  # ASCII: it may quote what UTF-8 cannot say


class _Text(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class's name
        identifiers = " ".join(f"{name}={identifier}" for name, identifier in _about.get().items())
        line = super().formatMessage(record)
        return f"{line} [{identifiers}]" if identifiers else line
