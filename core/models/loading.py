"""Loading a robot model: from a file, whatever its format, or from the catalogue that comes along."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import ModelError
from core.models.chain import SerialChain
from core.models.leg_drives import LegDrives
from core.models.mechanism import Mechanism
from core.models.model_file import parse_model_file
from core.models.six_upru import SixUPRU
from core.models.upru_file import parse_six_upru_json
from core.models.urdf import parse_urdf

_SIZE_LIMIT = 64 * 2**20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_CATALOGUE = resources.files("core.models") / "catalogue"


def load(path: str | Path, *, rotor_inertia: bool = False, tool: str | None = None) -> Mechanism:
    """Return the robot described by a URDF file, or by a model file in this project's TOML format.

    The format follows from the content: XML is URDF, an opening brace the JSON layout of ``core.models.upru_file``,
    anything else TOML.

    Parameters
    ----------
    path : the file.
    rotor_inertia : whether the model has rotor inertias among its parameters (11 n instead of 10 n). Their
        values are the file's; zero, that is unknown, where it gives none, as URDF never does. A parallel robot
        has none.
    tool : URDF only: the link that is the end of the arm, see ``parse_urdf``.

    Raises
    ------
    ModelError
        The file is missing, unreadable, malformed, or describes no robot on a fixed base that is known here.
    """
    file = Path(path)
    try:
        if file.stat().st_size > _SIZE_LIMIT:
            raise ModelError(f"{file}: larger than any robot model should be (64 MiB)", path=str(file))
        text = file.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ModelError(f"{file}: cannot be read: {reason}", code="model-unreadable", path=str(file)) from error
    if text.lstrip(_BYTE_ORDER_MARK + _BLANKS).startswith(b"<"):
        return _with_rotors(parse_urdf(text, str(file), tool=tool), rotor_inertia)
    if tool is not None:
        raise ModelError(
            f"{file}: a model file states its tool itself; a tool link can be chosen in URDF only",
            path=str(file),
        )
    if text.lstrip(_BYTE_ORDER_MARK + _BLANKS).startswith(b"{"):
        return _with_rotors(parse_six_upru_json(text, str(file)), rotor_inertia)
    return _with_rotors(parse_model_file(text, str(file)), rotor_inertia)


def catalogue_names() -> tuple[str, ...]:
    """Return the names that ``catalogue`` knows, sorted."""
    files = (entry.name for entry in _CATALOGUE.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def catalogue(name: str, *, rotor_inertia: bool = False) -> Mechanism:
    """Return a robot of the catalogue, such as ``"ur10e"``; its file says which figures are published.

    Raises
    ------
    ModelError
        There is no such robot (code ``model-unknown``).
    """
    names = catalogue_names()
    if name not in names:
        raise ModelError(
            f"there is no robot {name!r} in the catalogue; there are: {', '.join(names)}",
            code="model-unknown",
            name=name,
        )
    text = (_CATALOGUE / f"{name}.toml").read_bytes()
    return _with_rotors(parse_model_file(text, f"catalogue/{name}.toml"), rotor_inertia)


def resolve(model: str | Path, *, rotor_inertia: bool = False) -> Mechanism:
    """Return a robot by the catalogue's name or by a model file's path, as settings and commands name it.

    A bare word without a suffix is a name; anything with a folder or a suffix is a path.

    Raises
    ------
    ModelError
        As ``catalogue`` and ``load`` do.
    """
    path = Path(model)
    if isinstance(model, str) and path.name == model and not path.suffix:
        return catalogue(model, rotor_inertia=rotor_inertia)
    return load(path, rotor_inertia=rotor_inertia)


def model_from_document(document: Mapping[str, Any]) -> Mechanism:
    """Return the robot, of whatever kind, that its ``to_document`` described.

    Raises
    ------
    ModelError
        The document is of no known kind or version, or incomplete.
    """
    known = (SerialChain, SixUPRU, LegDrives)
    kinds: dict[str, type[SerialChain | SixUPRU | LegDrives]] = {kind.KIND: kind for kind in known}
    kind = document.get("kind")
    if kind not in kinds:
        raise ModelError(f"a document of kind {kind!r} is no robot; known are {', '.join(kinds)}")
    return kinds[kind].from_document(document)


def serial_chain(model: Mechanism, purpose: str) -> SerialChain:
    """Return the model if it is a serial chain.

    Raises
    ------
    ModelError
        It is none (code ``serial-chain-needed``); the message names the purpose, such as "URDF".
    """
    if isinstance(model, SerialChain):
        return model
    raise ModelError(
        f"{model.name} is a parallel robot; {purpose} is for serial chains only", code="serial-chain-needed"
    )


def _with_rotors(model: Mechanism, wanted: bool) -> Mechanism:
    if not isinstance(model, SerialChain):
        if wanted:
            raise ModelError(
                f"{model.name}: the model of a parallel robot ends at its force sensors and has no rotor inertias; "
                "leave them out",
                code="rotor-inertia-foreign",
            )
        return model
    if not wanted:
        return model.with_rotor_inertia(None)
    if model.rotor_inertia is None:
        return model.with_rotor_inertia(np.zeros(model.n_joints))
    return model
