"""Loading a robot model from a file, whatever its format."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from core.errors import ModelError
from core.models.chain import SerialChain
from core.models.urdf import parse_urdf

_SIZE_LIMIT = 64 * 2**20


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
        raise ModelError(
            f"{file}: cannot be read: {reason}", code="model-unreadable", path=str(file)
        ) from error
    chain = parse_urdf(text, str(file), tool=tool)
    if not rotor_inertia:
        return chain.with_rotor_inertia(None)
    if chain.rotor_inertia is None:
        return chain.with_rotor_inertia(np.zeros(chain.n_joints))
    return chain
