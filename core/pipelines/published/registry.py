"""Published methods by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from numpy.typing import ArrayLike

from core.errors import InputError
from core.models import Mechanism
from core.pipelines.estimation import Progress
from core.pipelines.published.abc_arctan import AbcArctan
from core.pipelines.published.coman_three_layer import ComanThreeLayer
from core.pipelines.published.method import Method, Task
from core.pipelines.published.recursive_six_axis import RecursiveSixAxis
from core.pipelines.published.result import PublishedResult
from core.pipelines.published.ur10e_power_friction import Ur10ePowerFriction
from core.recordings.recording import Recording

METHODS: Mapping[str, type[Method]] = MappingProxyType(
    {method.name: method for method in (ComanThreeLayer, Ur10ePowerFriction, AbcArctan, RecursiveSixAxis)}
)


def published_method(name: str, **settings: Any) -> Method:
    """Return the method called ``name``, with some of its published settings replaced.

    Raises
    ------
    InputError
        The name or a setting is unknown.
    """
    if name not in METHODS:
        raise InputError(
            f"unknown method {name!r}; there are {', '.join(METHODS)}", code="method-unknown", known=list(METHODS)
        )
    known = [field.name for field in fields(METHODS[name])]
    unknown = [setting for setting in settings if setting not in known]
    if unknown:
        raise InputError(f"{name} has no setting {', '.join(unknown)}; it has {', '.join(known)}")
    return METHODS[name](**settings)


def identify_by(
    method: str | Method,
    model: Mechanism,
    train: Sequence[Recording],
    validate: Sequence[Recording] = (),
    *,
    gains: ArrayLike | str | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> PublishedResult:
    """Identify a robot by a published method; arguments and errors as of ``core.pipelines.identify.identify``."""
    chosen = published_method(method) if isinstance(method, str) else method
    return chosen.run(Task(model, train, validate, gains, random_state, progress))
