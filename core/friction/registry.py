"""Friction by name: what a specification such as ``arctan+load(1)+ripple(202)`` stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from core.errors import InputError
from core.friction.hysteresis import Hysteresis
from core.friction.laws import Arctan, CoulombViscous, Frictionless, Offset, PowerViscous, Stribeck, TwoRegimeCubic
from core.friction.model import FrictionModel, JointFriction
from core.friction.term import Shaped
from core.friction.terms import Elasticity, Load, Ripple, Warmup

Law = CoulombViscous | PowerViscous | TwoRegimeCubic | Arctan | Stribeck | Frictionless | Offset
Term = Load | Hysteresis | Warmup | Ripple | Elasticity

LAWS: Mapping[str, type[Law]] = MappingProxyType(
    {law.name: law for law in (CoulombViscous, PowerViscous, TwoRegimeCubic, Arctan, Stribeck, Frictionless, Offset)}
)
"""Velocity laws; a specification starts with exactly one."""

FRICTIONLESS = (Frictionless.name, Offset.name)
"""Those that know no velocity, for sensors that carry no friction; never chosen for a drive."""

TERMS: Mapping[str, type[Term]] = MappingProxyType(
    {term.name: term for term in (Load, Hysteresis, Warmup, Ripple, Elasticity)}
)
"""What may be added to any law."""

K = TypeVar("K")
P = TypeVar("P", bound=Shaped)

_PART = re.compile(r"\s*(\w*)\s*(?:\(([^()]*)\))?\s*")


class _Part(NamedTuple):
    """One part of a specification: ``name(word, ..., shape=value, ...)``."""

    name: str
    words: tuple[str, ...]
    shapes: dict[str, float]


def friction_model(specification: str | Sequence[str], n_joints: int) -> FrictionModel:
    """Return the friction of a robot with ``n_joints`` joints.

    Parameters
    ----------
    specification : ``law+term+...`` for all joints alike, or one such text per joint. Brackets hold options
        and given shapes, such as ``arctan(f4=5)+load(1)+hysteresis(plain)+ripple(202, load)``; shapes that
        are not given are to be fitted. Hysteresis is load-scaled where there is a load term, unless told.

    Raises
    ------
    InputError
        A name or option is unknown, a term is repeated, or there are not as many texts as joints.
    """
    texts = [specification] * n_joints if isinstance(specification, str) else list(specification)
    if len(texts) != n_joints:
        raise InputError(
            f"friction is specified for {len(texts)} joints, the robot has {n_joints}; give one specification "
            "for all or one per joint",
            code="friction-invalid",
        )
    return FrictionModel(tuple(_joint(text) for text in texts))


def _joint(text: str) -> JointFriction:
    law, *added = (_parse(part, text) for part in re.split(r"\+(?![^(]*\))", text))
    names = [part.name for part in added]
    if len(set(names)) != len(names):
        raise InputError(f"friction {text!r}: a term is repeated", code="friction-invalid", friction=text)
    chosen = _made(_lookup(law.name, "law", LAWS, text), law, text)
    if law.name in FRICTIONLESS and Warmup.name in names:
        raise InputError(
            f"friction {text!r}: {law.name} has nothing that could warm up; leave {Warmup.name} out",
            code="friction-invalid",
            friction=text,
        )
    terms = [_made(_lookup(part.name, "term", TERMS, text), part, text) for part in added]
    loaded = any(isinstance(term, Load) for term in terms)
    settled = (
        replace(term, load_scaled=loaded) if isinstance(term, Hysteresis) and term.load_scaled is None else term
        for term in terms
    )
    return JointFriction(chosen, tuple(settled))


def _parse(part: str, text: str) -> _Part:
    found = _PART.fullmatch(part)
    if found is None:
        raise InputError(
            f"friction {text!r}: {part.strip()!r} is no term; write name or name(option, shape=value)",
            code="friction-invalid",
            friction=text,
        )
    words: list[str] = []
    shapes: dict[str, float] = {}
    for item in (item.strip() for item in (found[2] or "").split(",")):
        name, equals, value = item.partition("=")
        if not equals:
            words += [item] if item else []
            continue
        try:
            shapes[name.strip()] = float(value)
        except ValueError as error:
            raise InputError(
                f"friction {text!r}: {name.strip()} is {value.strip()!r}, which is no number",
                code="friction-invalid",
                friction=text,
            ) from error
    return _Part(found[1], tuple(words), shapes)


def _made(kind: type[P], part: _Part, text: str) -> P:
    try:
        return kind.from_options(part.words, part.shapes)
    except InputError as error:
        raise InputError(f"friction {text!r}: {error.detail}", code="friction-invalid", friction=text) from error


def _lookup(name: str, kind: str, known: Mapping[str, K], text: str) -> K:
    if name not in known:
        raise InputError(
            f"friction {text!r}: unknown {kind} {name!r}; there are {', '.join(known)}",
            code="friction-unknown",
            friction=text,
            known=list(known),
        )
    return known[name]
