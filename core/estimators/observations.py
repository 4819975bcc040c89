"""Rows of regressor and torque that can be read as often as an estimator needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.dynamics.base_parameters import BaseParameters
from core.errors import IdentificationError, InputError
from core.estimators.joint_factors import JointFactors
from core.models import Mechanism

Array = NDArray[np.float64]

_KEPT_BYTES = 1 << 28
"""Rows up to this size stay in memory after the first reading; more are made anew each time."""


class Block(NamedTuple):
    """Consecutive samples: columns (m, n, p), effort (m, n), and the number of the motion they are part of."""

    columns: Array
    effort: Array
    motion: int = 0


@dataclass(frozen=True, eq=False)
class ParameterStructure:
    """What the p parameters are: the base parameters of a chain first, then coefficients of friction.

    Attributes
    ----------
    chain, base : geometry, and how standard parameters combine into base parameters.
    names : (p,).
    nonnegative : indices of parameters that physics forbids to be negative, such as a viscous coefficient.
    """

    chain: Mechanism
    base: BaseParameters
    names: tuple[str, ...]
    nonnegative: tuple[int, ...] = ()


class Observations:
    """Samples of n joints in blocks, in the order of time within each motion.

    Parameters
    ----------
    names : (p,) of the parameters.
    n_joints : n.
    blocks : makes the blocks anew whenever it is called.
    structure : what the parameters are, where an estimator has to know.
    instruments : for parameters (p,), the instruments (m, n, p) block by block: the columns along a motion
        that is simulated with these parameters.
    oversampling : how many consecutive rows tell no more than one would: those that a filter has made alike.
    """

    def __init__(
        self,
        names: Sequence[str],
        n_joints: int,
        blocks: Callable[[], Iterable[Block]],
        *,
        structure: ParameterStructure | None = None,
        instruments: Callable[[Array], Iterable[Array]] | None = None,
        oversampling: float = 1.0,
    ) -> None:
        self.names = tuple(names)
        self.n_joints = n_joints
        self.structure = structure
        self.oversampling = oversampling
        self._blocks = blocks
        self._instruments = instruments
        self._kept: list[Block] | None = None

    @classmethod
    def of(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        names: Sequence[str] | None = None,
        *,
        structure: ParameterStructure | None = None,
        instruments: ArrayLike | None = None,
    ) -> Self:
        """Return samples that are in memory, of one motion: X (samples, n, p) and y (samples, n).

        Where there is one joint, (samples, p) and (samples,) will do. instruments, where needed, have the shape of X.

        Raises
        ------
        InputError
            A shape is wrong, or a value is not finite.
        """
        columns, effort = checked_samples(X, y)
        p = columns.shape[2]
        labels = names or (structure.names if structure else [f"parameter {i + 1}" for i in range(p)])
        if len(labels) != p:
            raise InputError(f"there are {len(labels)} names for the {p} parameters of X")
        simulated = None
        if instruments is not None:
            aside = np.asarray(instruments, dtype=np.float64).reshape(-1, *columns.shape[1:])
            if aside.shape != columns.shape:
                raise InputError(f"instruments have shape {np.shape(instruments)}, expected {np.shape(X)}")
            simulated = lambda _: [aside]  # noqa: E731
        blocks = [Block(columns, effort)]
        return cls(labels, columns.shape[1], lambda: blocks, structure=structure, instruments=simulated)

    @property
    def n_parameters(self) -> int:
        return len(self.names)

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Block] | None = []
        size = 0
        for block in self._blocks():
            size += block.columns.nbytes + block.effort.nbytes
            if kept is not None:
                kept.append(block)
                kept = kept if size <= _KEPT_BYTES else None
            yield block
        self._kept = kept

    def instruments(self, parameters: Array) -> Iterator[Array]:
        """Yield instruments (m, n, p), aligned with ``blocks``.

        Raises
        ------
        IdentificationError
            Nobody said how to simulate them.
        """
        if self._instruments is None:
            raise IdentificationError(
                "an instrumental variable needs columns along a simulated motion; give instruments, or choose "
                "another estimator",
                code="instruments-missing",
            )
        yield from self._instruments(parameters)

    @cached_property
    def factors(self) -> JointFactors:
        """The R factors of all rows."""
        factors = JointFactors(self.n_joints, self.n_parameters)
        for block in self.blocks():
            factors.add(block.columns, block.effort)
        return factors

    def residuals(self, parameters: Array) -> Array:
        """Return measured minus explained torque (samples, n)."""
        return np.concatenate([block.effort - block.columns @ parameters for block in self.blocks()])


def checked_samples(X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """Return X as (samples, n, p) and y as (samples, n), contiguous.

    Raises
    ------
    InputError
        They are not numbers, do not belong together, or hold a value that is not finite; it says where the first is.
    """
    for name, given in (("X", X), ("y", y)):
        if np.iscomplexobj(given):
            raise InputError(f"{name} is complex; a regressor and torques are real numbers")
    try:
        columns = np.ascontiguousarray(X, dtype=np.float64)
        effort = np.ascontiguousarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"X and y must be rectangular arrays of numbers: {error}") from error
    if columns.ndim == 2 and effort.ndim == 1:
        columns, effort = columns[:, None, :], effort[:, None]
    if columns.ndim != 3 or effort.shape != columns.shape[:2] or 0 in columns.shape:
        raise InputError(
            f"X has shape {np.shape(X)}, y {np.shape(y)}; they must be (samples, joints, parameters) and (samples, "
            "joints), or (samples, parameters) and (samples,) for one joint, none of them zero"
        )
    for name, values in (("X", columns), ("y", effort)):
        finite = np.isfinite(values)
        if not finite.all():
            wrong = np.argwhere(~finite)
            where = zip(("sample", "joint", "parameter"), wrong[0] + 1, strict=False)
            raise InputError(
                f"{name} holds {len(wrong)} values that are not finite, the first at "
                f"{', '.join(f'{axis} {index}' for axis, index in where)}; leave out what was not measured"
            )
    return columns, effort
