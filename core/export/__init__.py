"""Results for other programs: URDF, model files, C, CSV, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from core.errors import InputError

if TYPE_CHECKING:
    from core.models import SerialChain, SixUPRU
    from core.pipelines.identification import Identification

__all__ = ["BODIES", "FORMATS", "Export", "export"]

BODIES = ("urdf", "toml")
"""The formats that describe bodies, which identified parameters need not be those of."""


class Export(NamedTuple):
    """A result as text, and what its reader should know; formats that have comments hold that too."""

    text: str
    notes: tuple[str, ...] = ()


def _json(identification: Identification) -> Export:
    return Export(json.dumps(identification.to_document(), indent=2, allow_nan=False) + "\n")


def _csv(identification: Identification) -> Export:
    from core.export.parameter_table import parameter_table  # noqa: PLC0415 - only what is asked for is loaded

    return Export(parameter_table(identification))


def _c(identification: Identification) -> Export:
    from core.export.c_header import c_header  # noqa: PLC0415

    return Export(c_header(identification))


def _platform(identification: Identification, robot: SixUPRU) -> Export:
    from core.export.platform_toml import platform_toml  # noqa: PLC0415

    if identification.unit != "N":
        raise InputError(
            f"the result is in {identification.unit}, not in N, so its parameters are no masses and inertias; identify "
            "from the forces of the sensors",
            code="unit-not-torque",
        )
    standard = identification.base.standard(identification.parameters_[: identification.base.count], robot.parameters)
    notes = (
        f"identified by dynid, model digest {robot.digest()}",
        "forces without friction are exactly as identified; parameters are the nearest to the model's that give them, "
        "and no bodies need have these",
    )
    return Export(platform_toml(robot.with_parameters(standard), notes), notes)


def _bodies(identification: Identification, format: str, allowed: float | None) -> Export:
    from core.models import SixUPRU  # noqa: PLC0415 - only what is asked for is loaded

    if format == "toml" and isinstance(identification.model, SixUPRU):
        return _platform(identification, identification.model)
    from core.export.deviation import torque_deviation  # noqa: PLC0415
    from core.export.model_toml import model_toml  # noqa: PLC0415
    from core.export.standard_parameters import standard_parameters  # noqa: PLC0415
    from core.export.urdf import urdf_text  # noqa: PLC0415

    found = standard_parameters(identification)
    deviation = torque_deviation(identification, found.chain)
    deviation.check(allowed)
    notes = [f"identified by dynid, model digest {identification.model.digest()}", deviation.note]
    if found.not_identified:
        notes.append(f"not identified, as the prior has them: {', '.join(found.not_identified)}")
    if found.on_bound:
        notes.append(f"at a bound of what bodies can have: {', '.join(found.on_bound)}")
    if found.made_up:
        notes.append(f"links without a valid prior, which was made up: {', '.join(found.made_up)}")
    write: Callable[[SerialChain, list[str]], str] = urdf_text if format == "urdf" else model_toml
    return Export(write(found.chain, notes), tuple(notes))


_WRITERS: Mapping[str, Callable[[Identification], Export]] = MappingProxyType({"json": _json, "csv": _csv, "c": _c})

FORMATS: tuple[str, ...] = (*_WRITERS, *BODIES)


def export(identification: Identification, format: str, *, allow_deviation: float | None = None) -> Export:
    """Return a result as text for another program.

    Parameters
    ----------
    format : ``json`` the whole result, which ``Identification.from_document`` reads; ``csv`` its parameters; ``urdf``
        and ``toml`` the robot with physically consistent inertials, for simulators and as a model file; ``c`` a header
        with the torque function, friction included. A 6-UPRU robot has a model file with exactly the identified
        parameters, and no URDF, which knows no closed loops.
    allow_deviation : N·m (N) RMS that the torque of each joint may differ by from what was identified, where bodies
        cannot have the identified parameters; by default the joint's residual, or 0.1 % of its torque. An estimate by
        ``consistent`` never differs.

    Raises
    ------
    InputError, ModelError, IdentificationError
        The format is unknown, the result cannot be expressed in it, or differs too much (``deviation-too-large``).
    """
    if format not in FORMATS:
        raise InputError(
            f"results cannot be exported as {format!r}; there are {', '.join(FORMATS)}",
            code="export-format-unknown",
            format=format,
        )
    if format in BODIES:
        return _bodies(identification, format, allow_deviation)
    if allow_deviation is not None:
        raise InputError(
            f"as {format} a result is exactly as identified; a deviation can be allowed for {', '.join(BODIES)} only",
            code="export-exact",
            format=format,
        )
    return _WRITERS[format](identification)
