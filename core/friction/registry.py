"""Friction by name: what a specification such as ``coulomb_viscous`` or ``law+term`` stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from core.errors import InputError
from core.friction.coulomb_viscous import CoulombViscous
from core.friction.model import FrictionModel, FrictionTerm

Factory = Callable[[], FrictionTerm]

LAWS: Mapping[str, Factory] = MappingProxyType({CoulombViscous.name: CoulombViscous})
"""Velocity laws; a specification starts with exactly one."""

TERMS: Mapping[str, Factory] = MappingProxyType({})
"""What may be added to any law."""


def friction_model(specification: str | Sequence[str], n_joints: int) -> FrictionModel:
    """Return the friction of a robot with ``n_joints`` joints.

    Parameters
    ----------
    specification : ``law+term+...`` for all joints alike, or one such text per joint.

    Raises
    ------
    InputError
        A name is unknown or repeated, or there are not as many texts as joints.
    """
    texts = [specification] * n_joints if isinstance(specification, str) else list(specification)
    if len(texts) != n_joints:
        raise InputError(
            f"friction is specified for {len(texts)} joints, the robot has {n_joints}; give one specification "
            "for all or one per joint",
            code="friction-invalid",
        )
    return FrictionModel(tuple(_terms(text) for text in texts))


def _terms(text: str) -> tuple[FrictionTerm, ...]:
    law, *added = (part.strip() for part in text.split("+"))
    if len(set(added)) != len(added):
        raise InputError(f"friction {text!r}: a term is repeated", code="friction-invalid", friction=text)
    return (
        _lookup(law, "law", LAWS, text),
        *(_lookup(name, "term", TERMS, text) for name in added),
    )


def _lookup(name: str, kind: str, known: Mapping[str, Factory], text: str) -> FrictionTerm:
    if name not in known:
        raise InputError(
            f"friction {text!r}: unknown {kind} {name!r}; there are {', '.join(known) or 'none'}",
            code="friction-unknown",
            friction=text,
            known=list(known),
        )
    return known[name]()
