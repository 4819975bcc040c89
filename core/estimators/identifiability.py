"""What a set of observations leaves undetermined, by name, and the condition number that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MAX_CONDITION_NUMBER = 1e4
"""Beyond it some parameters follow the noise rather than the robot (methods, section 6)."""
_TAKES_PART = 0.3
"""A parameter belongs to a direction when its share is at least this much of the largest one's."""


@dataclass(frozen=True)
class Conditioning:
    """Condition number of an observation matrix, and the parameters that it leaves undetermined.

    The one judged is that of columns of length one, which knows no units. Where all columns are in comparable
    units, as those of a rigid body with Coulomb and viscous friction are, the raw one is judged as well: it also
    sees parameters that hardly act.

    Attributes
    ----------
    raw, normalised : condition number as it is, and with columns of length one.
    undetermined : names; empty as long as what is judged does not exceed ``MAX_CONDITION_NUMBER``.
    """

    raw: float
    normalised: float
    undetermined: tuple[str, ...]

    @classmethod
    def of(cls, matrix: Array, raw: float, normalised: float, names: Sequence[str], *, comparable_units: bool) -> Self:
        """Return the conditioning of a matrix (r, p) without zero columns, whose condition numbers are known."""
        found: list[str] = []
        if normalised > MAX_CONDITION_NUMBER:
            found = undetermined(matrix / np.linalg.norm(matrix, axis=0), names, MAX_CONDITION_NUMBER)
        elif comparable_units and raw > MAX_CONDITION_NUMBER:
            found = undetermined(matrix, names, MAX_CONDITION_NUMBER)
        return cls(raw, normalised, tuple(found))

    def __str__(self) -> str:
        return f"condition number {_figure(self.normalised)} with columns of length one, {_figure(self.raw)} raw"

    @property
    def problem(self) -> str | None:
        """What is wrong in a sentence, None if nothing is."""
        if not self.undetermined:
            return None
        length_one = self.normalised > MAX_CONDITION_NUMBER
        judged, other = (self.normalised, self.raw) if length_one else (self.raw, self.normalised)
        kinds = ("with columns of length one", "raw") if length_one else ("raw", "with columns of length one")
        return (
            f"the condition number {kinds[0]}, {_figure(judged)}, exceeds {MAX_CONDITION_NUMBER:g} ({kinds[1]} it is "
            f"{_figure(other)}): {', '.join(self.undetermined)} are hardly determined by these data"
        )


def undetermined(matrix: Array, names: Sequence[str], limit: float) -> list[str]:
    """Return the parameters along which the singular values fall below the largest / ``limit``.

    Parameters
    ----------
    matrix : (r, p); raw, or with columns of length one where units should not matter.
    names : (p,).
    limit : condition number that is still good.
    """
    _, size, directions = np.linalg.svd(matrix)
    values = np.zeros(len(names))
    values[: size.size] = size
    found: set[int] = set()
    for direction in directions[values * limit < values[0]]:
        share = np.abs(direction)
        found.update(np.flatnonzero(share >= _TAKES_PART * share.max()).tolist())
    return [names[i] for i in sorted(found)]


def _figure(value: float) -> str:
    return f"{value:.1f}" if value < 1e3 else f"{value:.3g}"
