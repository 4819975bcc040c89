"""Friction in C, in the smooth form that a controller needs: what ``columns`` of each law and term say.

Expressions use ``v`` (velocity of the joint), ``s`` (its smooth sign), ``load`` (rigid-body torque), ``q[j]`` and, for
terms that remember, ``state``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from core.errors import InputError
from core.friction import FrictionModel, JointFriction, VelocityLaw
from core.friction.hysteresis import THRESHOLDS
from core.friction.laws import SIGN_WIDTH

REMEMBERING = ("hysteresis", "warmup")
"""Terms whose torque depends on the motion so far."""


class FrictionSource(NamedTuple):
    """C statements that add friction to ``torque``.

    Attributes
    ----------
    fields : members of the state, each (joints, ...); empty where nothing is remembered.
    starts : statements for the first sample after a start.
    steps : statements for every sample after the first.
    adds : statements that add friction to ``torque[j]``.
    """

    fields: list[str]
    starts: list[str]
    steps: list[str]
    adds: list[str]


def friction_source(friction: FrictionModel, parameters: Sequence[float]) -> FrictionSource:
    """Return friction as C statements.

    Parameters
    ----------
    parameters : (k,) in the order of ``friction.names``.

    Raises
    ------
    InputError
        A law or term has no C form (code ``export-unsupported``).
    """
    source = FrictionSource([], [], [], [])
    rest = list(parameters)
    names = {term.name for joint in friction.joints for term in joint.terms}
    for name in REMEMBERING:
        if name in names:
            _remember(name, friction, source)
    for j, joint in enumerate(friction.joints):
        columns = _columns(joint, j)
        own, rest = rest[: len(columns)], rest[len(columns) :]
        if not columns:
            continue
        total = " + ".join(f"{number(value)} * {column}" for value, column in zip(own, columns, strict=True))
        source.adds.extend(
            [
                "{",
                f"    const double v = qd[{j}], s = tanh(v / {number(SIGN_WIDTH)}), load = torque[{j}];",
                f"    torque[{j}] = load + {total};",
                "    (void)v; (void)s;",
                "}",
            ]
        )
    return source


def number(value: float) -> str:
    """Return a C literal that reads back as the same double."""
    return f"({float(value)!r})" if value < 0.0 else repr(float(value))


def _columns(joint: JointFriction, j: int) -> list[str]:
    columns = _law(joint.law)
    for term in joint.terms:
        if term.name not in _TERMS:
            raise _unsupported(term.name)
        columns += _TERMS[term.name](term, joint.law, j)
    return columns


def _law(law: VelocityLaw) -> list[str]:
    if law.name not in _LAWS:
        raise _unsupported(law.name)
    return _LAWS[law.name](law)


def _none(law: Any) -> list[str]:
    return []


def _offset(law: Any) -> list[str]:
    return ["1.0"]


def _coulomb_viscous(law: Any) -> list[str]:
    return ["s", "v", "1.0"]


def _power_viscous(law: Any) -> list[str]:
    return ["s", f"s * pow(fabs(v), {number(law.shape('alpha'))})", "1.0"]


def _two_regime_cubic(law: Any) -> list[str]:
    limit = number(law.shape("threshold"))
    low = f"fmin(fmax(v, -{limit}), {limit})"
    powers = [low, f"{low} * fabs({low})", f"{low} * {low} * {low}"]
    beyond = [f"(v - {powers[0]})", f"(v * fabs(v) - {powers[1]})", f"(v * v * v - {powers[2]})"]
    return ["fmax(s, 0.0)", "fmin(s, 0.0)", *powers, *beyond]


def _arctan(law: Any) -> list[str]:
    return ["s", "v", f"atan({number(law.shape('f4'))} * v)", "1.0"]


def _stribeck(law: Any) -> list[str]:
    sticking = f"exp(-pow(fabs(v / {number(law.shape('vs'))}), {number(law.shape('d'))}))"
    return [f"(1.0 - {sticking}) * s", f"{sticking} * s", "v", "1.0"]


def _load(term: Any, law: VelocityLaw, j: int) -> list[str]:
    smooth = f"tanh(v / {number(term.shape('width'))})"
    columns = [f"fabs(load) * {smooth}"]
    if term.squared:
        columns.append(f"load * load * {smooth}")
    if term.drive:
        columns.append(f"load * fabs({smooth})")
    return columns


def _ripple(term: Any, law: VelocityLaw, j: int) -> list[str]:
    waves = [f"{wave}({number(order)} * q[{j}])" for order in term.orders for wave in ("sin", "cos")]
    return [*waves, *(f"fabs(load) * {wave}" for wave in waves)] if term.load_scaled else waves


def _hysteresis(term: Any, law: VelocityLaw, j: int) -> list[str]:
    stops = [f"state->stops[{j}][{k}]" for k in range(len(THRESHOLDS))]
    return [*stops, *(f"fabs(load) * {stop}" for stop in stops)] if term.load_scaled else stops


def _warmup(term: Any, law: VelocityLaw, j: int) -> list[str]:
    warmed = [
        column
        for name, column in zip(law.parameter_names, _law(law), strict=True)
        if f"{name.rstrip('_')}w_" in term.parameter_names(law)
    ]
    return [f"state->heat[{j}] * {column}" for column in warmed]


def _remember(name: str, friction: FrictionModel, source: FrictionSource) -> None:
    n, k = friction.n_joints, len(THRESHOLDS)
    if name == "hysteresis":
        thresholds = ", ".join(number(value) for value in THRESHOLDS.tolist())
        source.fields.extend([f"double q[{n}];", f"double stops[{n}][{k}];"])
        sign = f"tanh(qd[j] / {number(SIGN_WIDTH)})"
        source.starts.append(
            f"for (int j = 0; j < {n}; ++j) for (int k = 0; k < {k}; ++k) state->stops[j][k] = {sign};"
        )
        source.steps.extend(
            [
                f"static const double thresholds[{k}] = {{{thresholds}}};",
                f"for (int j = 0; j < {n}; ++j) for (int k = 0; k < {k}; ++k) {{",
                "    const double moved = state->stops[j][k] + (q[j] - state->q[j]) / thresholds[k];",
                "    state->stops[j][k] = fmin(fmax(moved, -1.0), 1.0);",
                "}",
            ]
        )
        return
    constants = [
        next((term.shapes["time_constant"] for term in joint.terms if term.name == "warmup"), 1.0)
        for joint in friction.joints
    ]
    source.fields.append(f"double heat[{n}];")
    source.starts.append(f"for (int j = 0; j < {n}; ++j) state->heat[j] = 0.0;")
    warm = [
        f"static const double time_constants[{n}] = {{{', '.join(map(number, constants))}}};",
        f"for (int j = 0; j < {n}; ++j) {{",
        "    const double cooling = exp(-state->period / time_constants[j]);",
        "    state->heat[j] = cooling * state->heat[j] + (1.0 - cooling) * time_constants[j] * qd[j] * qd[j];",
        "}",
    ]
    source.adds.extend(["{", *(f"    {line}" for line in warm), "}"])


def _unsupported(name: str) -> InputError:
    return InputError(
        f"the friction {name!r} has no form in C; there are {', '.join([*_LAWS, *_TERMS])}. Identify with those, or "
        "take a feedforward table, which knows every term",
        code="export-unsupported",
        term=name,
    )


_LAWS: Mapping[str, Callable[[Any], list[str]]] = MappingProxyType(
    {
        "coulomb_viscous": _coulomb_viscous,
        "power_viscous": _power_viscous,
        "two_regime_cubic": _two_regime_cubic,
        "arctan": _arctan,
        "stribeck": _stribeck,
        "none": _none,
        "offset": _offset,
    }
)
_TERMS: Mapping[str, Callable[[Any, VelocityLaw, int], list[str]]] = MappingProxyType(
    {"load": _load, "ripple": _ripple, "hysteresis": _hysteresis, "warmup": _warmup}
)
