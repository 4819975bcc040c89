"""What a small error of each parameter does to the torque (methods, section 6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.estimators.joint_factors import JointFactors

Array = NDArray[np.float64]


def torque_sensitivity(factors: JointFactors, parameters: Array, *, share: float = 0.01) -> Array:
    """Return the relative change (p,) of the torque's norm when each parameter changes by ``share`` of itself.

    Over the motion that the factors hold, all joints together: ``|W_i share phi_i| / |tau|``. A parameter that
    scores below the relative residual times ``share`` does not matter for predicting torque.
    """
    columns, effort = factors.stacked()
    size = float(np.linalg.norm(effort))
    change = share * np.abs(parameters) * np.linalg.norm(columns, axis=0)
    return np.asarray(change / size if size > 0.0 else np.full_like(change, np.nan))
