"""Results for other programs: URDF, model files, C, CSV, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from core.errors import InputError

if TYPE_CHECKING:
    from core.pipelines.identification import Identification

__all__ = ["FORMATS", "export"]


def _json(identification: Identification) -> str:
    return json.dumps(identification.to_document(), indent=2, allow_nan=False) + "\n"


def _csv(identification: Identification) -> str:
    from core.export.parameter_table import parameter_table  # noqa: PLC0415 - only what is asked for is loaded

    return parameter_table(identification)


def _c(identification: Identification) -> str:
    from core.export.c_header import c_header  # noqa: PLC0415

    return c_header(identification)


def _urdf(identification: Identification) -> str:
    from core.export.standard_parameters import standard_parameters  # noqa: PLC0415
    from core.export.urdf import urdf_text  # noqa: PLC0415

    found = standard_parameters(identification)
    notes = [f"identified by dynid, model digest {identification.model.digest()}"]
    if found.not_identified:
        notes.append(f"not identified, as the prior has them: {', '.join(found.not_identified)}")
    if found.on_bound:
        notes.append(f"at a bound of what bodies can have: {', '.join(found.on_bound)}")
    if found.made_up:
        notes.append(f"links without a valid prior, which was made up: {', '.join(found.made_up)}")
    return urdf_text(found.chain, notes)


def _toml(identification: Identification) -> str:
    from core.export.model_toml import model_toml  # noqa: PLC0415
    from core.export.standard_parameters import standard_parameters  # noqa: PLC0415

    return model_toml(standard_parameters(identification).chain)


_WRITERS: Mapping[str, Callable[[Identification], str]] = MappingProxyType(
    {"json": _json, "csv": _csv, "urdf": _urdf, "toml": _toml, "c": _c}
)

FORMATS: tuple[str, ...] = tuple(_WRITERS)


def export(identification: Identification, format: str) -> str:
    """Return a result as text for another program.

    Parameters
    ----------
    format : ``json`` the whole result, which ``Identification.from_document`` reads; ``csv`` its parameters; ``urdf``
        and ``toml`` the robot with physically consistent inertials, for simulators and as a model file; ``c`` a header
        with the torque function, friction included.

    Raises
    ------
    InputError, ModelError, IdentificationError
        The format is unknown, or the result cannot be expressed in it.
    """
    if format not in _WRITERS:
        raise InputError(
            f"results cannot be exported as {format!r}; there are {', '.join(FORMATS)}",
            code="export-format-unknown",
            format=format,
        )
    return _WRITERS[format](identification)
