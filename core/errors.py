"""The error tree: every refusal says what is wrong, where, and what to do about it.

Each class carries a stable, machine-readable ``code`` (kebab-case), which the REST layer passes on
unchanged. ``context`` holds what a program needs to react: the joint, the time, the row, the path.
"""

from __future__ import annotations

from typing import Any


class DynidError(Exception):
    """Base of all errors that dynid raises on purpose.

    Parameters
    ----------
    detail
        One or two sentences for a person: what, where, what to do.
    code
        Overrides the class's code where one class covers several kinds.
    context
        JSON-serialisable facts about this occurrence.
    """

    code: str = "dynid-error"

    def __init__(self, detail: str, *, code: str | None = None, **context: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or type(self).code
        self.context = context

    def __reduce__(self) -> tuple[Any, ...]:  # errors cross process boundaries whole
        return (_rebuild, (type(self), self.detail, self.code, self.context))


def _rebuild(kind: type[DynidError], detail: str, code: str, context: dict[str, Any]) -> DynidError:
    return kind(detail, code=code, **context)


class ModelError(DynidError):
    """A robot model file is missing, malformed or describes something unsupported."""

    code = "model-invalid"


class KinematicsError(DynidError):
    """A mechanism is singular, or cannot be assembled, where it was asked to be; the context names the sample."""

    code = "pose-impossible"


class RecordingError(DynidError):
    """A recording is torn, foreign, empty or otherwise not what it claims to be."""

    code = "recording-invalid"


class InputError(DynidError):
    """An argument has the wrong shape, unit or value."""

    code = "input-invalid"


class IdentificationError(DynidError):
    """The data cannot support the estimate that was asked for."""

    code = "identification-failed"


class MotionLimitError(DynidError):
    """A motion leaves its limits; the context names the first offending joint and time."""

    code = "motion-outside-limits"
