"""Essential parameters: those that the data call for (Pham and Gautier 1991)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from core.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EssentialParameters:
    """What is left of an estimate when parameters that might as well be zero are zero.

    Attributes
    ----------
    kept, dropped : names; those dropped in the order in which they went.
    coef : (p,) the estimate under that restriction, zero where dropped.
    covariance : (p, p) of ``coef``.
    p_value : probability of dropped parameters as large as these when all of them are zero.
    """

    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    coef: Array
    covariance: Array
    p_value: float


def essential_parameters(
    names: Sequence[str], coef: Array, covariance: Array, samples: float, *, level: float = 0.05
) -> EssentialParameters:
    """Eliminate parameters backward, the least certain first, as long as an F-test allows.

    All parameters dropped so far are tested together, so many small ones cannot add up to something that
    matters. The test needs an estimate and its covariance only, so it respects coloured residuals if that does.

    Parameters
    ----------
    coef, covariance : (p,), (p, p).
    samples : how many independent ones the estimate is from (``ColouredCovariance.effective_samples``).
    level : probability of keeping a parameter that is zero.

    Raises
    ------
    InputError
        Shapes disagree, or the covariance is not positive definite.
    """
    p = coef.size
    if covariance.shape != (p, p) or len(names) != p:
        raise InputError(f"{len(names)} names and a covariance of {covariance.shape} do not fit {p} parameters")
    if np.linalg.eigvalsh(covariance)[0] <= 0.0:
        raise InputError("the covariance of the estimate is not positive definite")
    freedom = max(samples - p, 1.0)
    dropped: list[int] = []
    restricted, spread, p_value = coef, covariance, 1.0
    while len(dropped) < p - 1:
        kept = [i for i in range(p) if i not in dropped]
        ratio = np.abs(restricted[kept]) / np.sqrt(np.diag(spread)[kept])
        candidates = [*dropped, kept[int(np.argmin(ratio))]]
        values, block = coef[candidates], covariance[np.ix_(candidates, candidates)]
        statistic = float(values @ np.linalg.solve(block, values)) / len(candidates)
        probability = float(scipy.stats.f.sf(statistic, len(candidates), freedom))
        if probability < level:
            break
        dropped, p_value = candidates, probability
        gain = np.linalg.solve(block, covariance[candidates]).T
        restricted = coef - gain @ values
        spread = covariance - gain @ covariance[candidates]
        restricted[dropped] = 0.0
    return EssentialParameters(
        kept=tuple(name for i, name in enumerate(names) if i not in dropped),
        dropped=tuple(names[i] for i in dropped),
        coef=restricted,
        covariance=spread,
        p_value=p_value,
    )
