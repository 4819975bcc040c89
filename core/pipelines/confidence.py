"""How sure the expected torque is along a motion, by the covariance of the parameters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.estimators import JointFactors

Array = NDArray[np.float64]

_NORMAL_95 = 1.96


def confidence_band(factors: JointFactors, covariance: Array) -> Array:
    """Return the half-width (n,) of the 95 % band of the expected torque, RMS over the samples of ``factors``.

    The variance of a sample with columns x is x' C x; its mean over samples is that of the rows of an R factor, so
    no sample is needed again.
    """
    band = np.empty(factors.n_joints)
    for j in range(factors.n_joints):
        rows, _ = factors.of_joint(j)
        band[j] = np.sqrt(max(float(np.sum((rows @ covariance) * rows)), 0.0) / factors.n_rows)
    return _NORMAL_95 * band
