"""Loading a robot model: from a file, whatever its format, or from the catalogue that comes along."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np

from core.errors import ModelError
from core.models.chain import SerialChain
from core.models.model_file import parse_model_file
from core.models.urdf import parse_urdf

_SIZE_LIMIT = 64 * 2**20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_CATALOGUE = resources.files("core.models") / "catalogue"


def load(path: str | Path, *, rotor_inertia: bool = False, tool: str | None = None) -> SerialChain:
    """Return the serial chain described by a URDF file or by a model file in this project's TOML format.

    The format follows from the content: XML is URDF, anything else TOML.

    Parameters
    ----------
    path : the file.
    rotor_inertia : whether the model has rotor inertias among its parameters (11 n instead of 10 n). Their
        values are the file's; zero, that is unknown, where it gives none, as URDF never does.
    tool : URDF only: the link that is the end of the arm, see ``parse_urdf``.

    Raises
    ------
    ModelError
        The file is missing, unreadable, malformed, or not a serial chain on a fixed base.
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
    return _with_rotors(parse_model_file(text, str(file)), rotor_inertia)


def catalogue_names() -> tuple[str, ...]:
    """Return the names that ``catalogue`` knows, sorted."""
    files = (entry.name for entry in _CATALOGUE.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def catalogue(name: str, *, rotor_inertia: bool = False) -> SerialChain:
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


def resolve(model: str | Path, *, rotor_inertia: bool = False) -> SerialChain:
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


def _with_rotors(chain: SerialChain, wanted: bool) -> SerialChain:
    if not wanted:
        return chain.with_rotor_inertia(None)
    if chain.rotor_inertia is None:
        return chain.with_rotor_inertia(np.zeros(chain.n_joints))
    return chain
