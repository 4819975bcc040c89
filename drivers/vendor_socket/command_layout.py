"""Commands in a layout file: what is sent for which purpose, and how an answer is read. See ``layout``."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from drivers.vendor_socket.feedback_layout import Part, Port, Positive

PLACEHOLDERS = {
    "start_feedback": {"rate_hz", "period_ms"},
    "servo_begin": {"period", "period_ms", "lookahead", "lookahead_ms"},
    "servo_point": {"q", "qd", "period", "period_ms", "lookahead", "lookahead_ms"},
}


class Text(Part):
    text: Annotated[str, Field(min_length=1)]
    replies: bool = True
    accepted: str | None = None
    answers: str | None = None


class Texts(Part):
    """What is sent for each purpose."""

    read_state: Text | str | None = None
    start_feedback: Text | str | None = None
    stop_feedback: Text | str | None = None
    enable: Text | str | None = None
    servo_begin: Text | str | None = None
    servo_point: Text | str | None = None
    servo_end: Text | str | None = None
    stop: Text | str | None = None
    release: Text | str | None = None

    def get(self, name: str) -> Text | None:
        """Return a text by name, None where the controller has no such command."""
        text: Text | str | None = getattr(self, name)
        return Text(text=text) if isinstance(text, str) else text


class Identity(Part):
    version: str | None = None
    serial: str | None = None
    model: str | None = None


class Commands(Part):
    port: Port
    end: str = "\n"
    reply_end: Annotated[str, Field(min_length=1)] = "\n"
    accepted: str
    answers: str | None = None
    angle: Literal["rad", "deg"] = "rad"
    period: Positive | None = None
    lookahead: Annotated[float | None, Field(ge=0, le=1)] = None
    texts: Texts
    identity: Identity = Identity()

    @model_validator(mode="after")
    def _can_be_filled_in(self) -> Self:
        for name in Texts.model_fields:
            text = self.texts.get(name)
            if text is None:
                continue
            allowed = PLACEHOLDERS.get(name, set()) | {"id"}
            unknown = sorted(set(placeholders(text.text)) - allowed)
            if unknown:
                raise ValueError(
                    f"texts.{name}: unknown placeholder <{unknown[0]}>; known: {', '.join(sorted(allowed))}"
                )
            _compile(f"texts.{name}.accepted", text.accepted)
            _compile(f"texts.{name}.answers", text.answers)
        _compile("accepted", self.accepted)
        _compile("answers", self.answers)
        for name, expression in self.identity:
            if _compile(f"identity.{name}", expression) not in (None, 1):
                raise ValueError(f"identity.{name}: needs one group, around what is to be read")
        if self.texts.servo_point is not None and (self.period is None or self.lookahead is None):
            raise ValueError("texts.servo_point needs period and lookahead")
        return self


def placeholders(text: str) -> list[str]:
    """Return the names between angle brackets."""
    return re.findall(r"<([a-z_]+)>", text)


def _compile(where: str, expression: str | None) -> int | None:
    """Return how many groups a regular expression has."""
    if expression is None:
        return None
    try:
        return re.compile(expression).groups
    except re.error as error:
        raise ValueError(f"{where}: '{expression}' is not a regular expression: {error}") from error
