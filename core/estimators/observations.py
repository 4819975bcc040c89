"""Rows of regressor and torque that can be read as often as an estimator needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from core.dynamics.base_parameters import BaseParameters
from core.errors import IdentificationError, InputError
from core.estimators.joint_factors import JointFactors
from core.models import SerialChain

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

    chain: SerialChain
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
    """

    def __init__(
        self,
        names: Sequence[str],
        n_joints: int,
        blocks: Callable[[], Iterable[Block]],
        *,
        structure: ParameterStructure | None = None,
        instruments: Callable[[Array], Iterable[Array]] | None = None,
    ) -> None:
        self.names = tuple(names)
        self.n_joints = n_joints
        self.structure = structure
        self._blocks = blocks
        self._instruments = instruments
        self._kept: list[Block] | None = None

    @classmethod
    def of(
        cls, columns: Array, effort: Array, names: Sequence[str] | None = None, instruments: Array | None = None
    ) -> Self:
        """Return samples that are in memory: columns (samples, n, p), effort (samples, n), of one motion.

        instruments, where needed, have the shape of the columns.
        """
        if columns.ndim != 3:
            raise InputError(f"columns have shape {columns.shape}, expected (samples, joints, parameters)")
        labels = names or [f"parameter {i + 1}" for i in range(columns.shape[2])]
        if instruments is not None and instruments.shape != columns.shape:
            raise InputError(f"instruments have shape {instruments.shape}, expected {columns.shape}")
        simulated = None if instruments is None else lambda _: [instruments]
        return cls(labels, columns.shape[1], lambda: [Block(columns, effort)], instruments=simulated)

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
