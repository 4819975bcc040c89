"""Physically consistent parameters by a semidefinite programme.

Standard parameters are sought that a real robot can have: every link's pseudo-inertia matrix positive
definite, rotor inertias and dissipating friction coefficients not negative. Least squares alone determines
base parameters, so a prior (CAD, or the nominal model) fills what the data cannot see. With J0 = L L^T the
prior's pseudo-inertia of a link, L^-1 J L^-T - 1 says in every direction by what share J differs from it,
whatever frame or unit (Lee, Wensing and Park 2019). Its ten numbers are the unknowns here: the prior is a
standard deviation for them, and positive definiteness one small cone per link.

The data enter through any R factor with ``R [K phi; friction] ~ t``: that of the observations, or the inverse
square root of the covariance of an estimate that is there already, whatever its friction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from core.dynamics.physical_consistency import completed_prior, inconsistent_links, inertial_parameters, pseudo_inertia
from core.errors import IdentificationError, InputError
from core.estimators.estimator import Estimator
from core.estimators.joint_factors import r_factor
from core.estimators.least_squares import WeightedLeastSquares
from core.estimators.linear import condition_numbers, residual_std
from core.estimators.observations import Observations, ParameterStructure
from core.models import SerialChain, serial_chain

Array = NDArray[np.float64]

_LEAST_SHARE = 0.01
"""Of the prior: a link's pseudo-inertia stays at least this far inside the cone, in every direction."""
_AT_BOUND = 1e-3
"""Slack, as a share of the prior or of the estimate's typical size, below which a bound is active."""
_FOLLOWS_PRIOR = 0.5
"""A parameter that keeps this share of its prior standard deviation is not identified."""
_ROTOR_UNKNOWN = 1e-3
"""Weight of a prior rotor inertia of zero, which stands for unknown."""
_TRIANGLE = [(row, column) for column in range(4) for row in range(column + 1)]


@dataclass(frozen=True, eq=False)
class ConsistentParameters:
    """Standard parameters that a real robot can have.

    Attributes
    ----------
    chain : the robot with these parameters; it loads into a simulator.
    coef : (p,) base parameters and friction that follow.
    covariance : (p, p) of ``coef``, bounds left aside.
    not_identified : names of standard parameters that follow the prior rather than the data.
    on_bound : names of parameters, and of links (``link 3``), that ended on a bound.
    prior_part : (p, p) what the uncertainty of the prior contributes to the covariance, where it is known.
    made_up : names of links whose prior had to be made up, as their model gives no inertia a body can have.
    """

    chain: SerialChain
    coef: Array
    covariance: Array
    not_identified: tuple[str, ...]
    on_bound: tuple[str, ...]
    made_up: tuple[str, ...]
    prior_part: Array | None = None

    def to_document(self) -> dict[str, Any]:
        """Return JSON-serialisable data."""
        parameters = zip(self.chain.parameter_names, self.chain.parameters.tolist(), strict=True)
        return {
            "standard_parameters": dict(parameters),
            "not_identified": list(self.not_identified),
            "on_bound": list(self.on_bound),
            "made_up": list(self.made_up),
        }


def consistent_parameters(
    structure: ParameterStructure,
    matrix: Array,
    target: Array,
    *,
    prior: ArrayLike | None = None,
    prior_deviation: float = 1.0,
) -> ConsistentParameters:
    """Solve ``min |matrix [K phi; friction] - target|^2 + |deviation from the prior|^2`` within physics.

    Parameters
    ----------
    matrix, target : (r, p) and (r,), weighted so that residuals have a variance of one.
    prior : standard parameters of the chain (p_standard,); by default its own.
    prior_deviation : standard deviation of a link's pseudo-inertia as a share of the prior.

    Raises
    ------
    InputError
        The prior has the wrong shape, or a given one is no body's.
    IdentificationError
        The solver gives up.
    """
    chain, made_up = _prior_chain(serial_chain(structure.chain, "a physically consistent estimate"), prior)
    unknowns = _Unknowns(chain, structure, prior_deviation)
    data = matrix @ scipy.linalg.block_diag(structure.base.projection, np.eye(matrix.shape[1] - structure.base.count))
    start = np.concatenate([chain.parameters, np.zeros(matrix.shape[1] - structure.base.count)])
    scale = np.linalg.norm(matrix[:, structure.base.count :], axis=0)
    directions = scipy.linalg.block_diag(unknowns.directions, np.diag(1.0 / np.where(scale > 0.0, scale, 1.0)))
    data, missing = data @ directions, target - data @ start
    weights = np.concatenate([unknowns.prior_weights, np.zeros(scale.size)])
    solution = _solve(data, missing, weights, chain.n_joints, unknowns.lower_bounds())
    values = start + directions @ solution
    standard = values[: chain.n_parameters]
    coef = np.concatenate([structure.base.project(standard), values[chain.n_parameters :]])
    inverse = np.linalg.inv(data.T @ data + np.diag(weights**2))
    spread = directions @ inverse @ directions.T
    reduce = scipy.linalg.block_diag(structure.base.projection, np.eye(scale.size))
    prior_std = np.sqrt(np.sum((unknowns.directions / unknowns.prior_weights) ** 2, axis=1))
    posterior = np.sqrt(np.diag(spread)[: chain.n_parameters])
    follows = np.flatnonzero(posterior > _FOLLOWS_PRIOR * prior_std)
    return ConsistentParameters(
        chain=chain.with_parameters(standard),
        coef=coef,
        covariance=reduce @ spread @ reduce.T,
        prior_part=reduce @ directions @ inverse @ np.diag(weights**2) @ inverse @ directions.T @ reduce.T,
        not_identified=tuple(chain.parameter_names[i] for i in follows),
        on_bound=unknowns.on_bound(solution),
        made_up=tuple(chain.joint_names[j] for j in made_up),
    )


def consistent_estimate(
    structure: ParameterStructure, coef: Array, covariance: Array, *, kept: Array | None = None, **options: Any
) -> ConsistentParameters:
    """Return the consistent parameters nearest to an estimate (p,), in the metric of its covariance (p, p).

    Parameters
    ----------
    kept : (r, p) sums of parameters that should stay as well, each to within one; such as torques in states that
        matter, over what they may be off by.
    options : as of ``consistent_parameters``.
    """
    values, vectors = np.linalg.eigh(covariance)
    if values[0] <= 0.0:
        raise InputError("the covariance of the estimate is not positive definite")
    matrix = (vectors / np.sqrt(values)).T
    if kept is not None:
        matrix = np.vstack([matrix, kept])
    return consistent_parameters(structure, matrix, matrix @ coef, **options)


class ConsistentLeastSquares(Estimator):
    """Weighted least squares over the parameters that a real robot can have.

    Needs observations that say what their parameters are (``ParameterStructure``).

    Parameters
    ----------
    prior : standard parameters (p_standard,), or None for those of the model.
    prior_deviation : its standard deviation, as a share of the prior.

    Attributes
    ----------
    consistent_ : ConsistentParameters, with the standard parameters and what bounds them.
    """

    consistent_: ConsistentParameters

    def __init__(self, prior: Sequence[float] | None = None, prior_deviation: float = 1.0) -> None:
        self.prior = prior
        self.prior_deviation = prior_deviation

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        names: Sequence[str] | None = None,
        structure: ParameterStructure | None = None,
    ) -> Self:
        """As usual, with the structure that says what the parameters are."""
        return self.fit_observations(Observations.of(X, y, names, structure=structure))

    def fit_observations(self, observations: Observations) -> Self:
        self._require(self.prior_deviation > 0.0, "prior_deviation must be positive")
        if observations.structure is None:
            raise IdentificationError(
                "physically consistent parameters need to know the robot they belong to; estimate with identify(), "
                "or give a ParameterStructure",
                code="structure-missing",
            )
        factors = observations.factors
        start = WeightedLeastSquares().fit_factors(factors, observations.names)
        matrix, effort = factors.stacked(start.weights_)
        found = consistent_parameters(
            observations.structure, matrix, effort, prior=self.prior, prior_deviation=self.prior_deviation
        )
        self.consistent_ = found
        self.coef_, self.covariance_, self.prior_part_ = found.coef, found.covariance, found.prior_part
        self.residual_std_ = residual_std(factors.squared_residuals(found.coef), factors)
        self.weights_ = start.weights_
        self.maps_ = start.weights_[:, None, None] ** 2 * found.covariance
        self.n_rows_, self.n_iter_ = factors.n_rows, 1
        self.condition_number_, self.normalised_condition_number_ = condition_numbers(factors.stacked()[0])
        return self


def _prior_chain(chain: SerialChain, prior: ArrayLike | None) -> tuple[SerialChain, Sequence[int]]:
    """Return the chain with prior parameters, and the links whose own had to be completed."""
    if prior is not None:
        chain = chain.with_parameters(prior)
        bad = inconsistent_links(chain.inertial_parameters)
        if bad:
            raise InputError(
                f"the prior of {', '.join(chain.joint_names[j] for j in bad)} belongs to no body: its pseudo-inertia "
                "matrix is not positive definite; correct it",
                code="prior-inconsistent",
            )
        return chain, ()
    parameters, made_up = completed_prior(chain)
    return replace(chain, inertial_parameters=parameters), made_up


class _Unknowns:
    """Dimensionless unknowns: ten per link (the triangle of L^-1 J L^-T - 1), one per rotor.

    Attributes
    ----------
    directions : (p_standard, u) standard parameters per unknown.
    prior_weights : (u,) inverse prior standard deviations.
    """

    def __init__(self, chain: SerialChain, structure: ParameterStructure, deviation: float) -> None:
        if not deviation > 0.0:
            raise InputError(f"prior_deviation must be positive, got {deviation}")
        self._chain = chain
        self._structure = structure
        basis = np.zeros((10, 4, 4))
        for k, (row, column) in enumerate(_TRIANGLE):
            basis[k, row, column] = basis[k, column, row] = 1.0 if row == column else 0.5**0.5
        roots = np.linalg.cholesky(pseudo_inertia(chain.inertial_parameters))
        links = [inertial_parameters(root @ basis @ root.T).T for root in roots]
        self._rotors = np.empty(0)
        blocks: list[Array] = list(links)
        if chain.rotor_inertia is not None:
            typical = np.einsum("njj->nj", chain.mass_matrix(np.zeros((1, chain.n_joints))))[0]
            self._typical = np.maximum(chain.rotor_inertia, typical)
            self._rotors = chain.rotor_inertia / self._typical
            blocks.append(np.diag(self._typical))
        self.directions = scipy.linalg.block_diag(*blocks)
        self.prior_weights = np.full(self.directions.shape[1], 1.0 / deviation)
        self.prior_weights[10 * chain.n_joints :][self._rotors == 0.0] *= _ROTOR_UNKNOWN

    def lower_bounds(self) -> list[tuple[int, float]]:
        """Return (unknown, lower bound) of rotors, then friction, whose unknowns follow those of the links."""
        first = 10 * self._chain.n_joints
        rotors = [(first + j, -value) for j, value in enumerate(self._rotors)]
        offset = self.directions.shape[1] - self._structure.base.count
        return rotors + [(offset + i, 0.0) for i in self._structure.nonnegative]

    def on_bound(self, solution: Array) -> tuple[str, ...]:
        """Return the names of links, rotors and friction coefficients that ended on their bound."""
        found = []
        for j in range(self._chain.n_joints):
            share = np.linalg.eigvalsh(_symmetric(solution[10 * j : 10 * j + 10]))[0] + 1.0
            if share < _LEAST_SHARE + _AT_BOUND:
                found.append(f"link {j + 1}")
        rotors = [f"Ia{j + 1}" for j in range(self._rotors.size)]
        names = rotors + [self._structure.names[i] for i in self._structure.nonnegative]
        bounds = zip(names, self.lower_bounds(), strict=True)
        found += [name for name, (i, low) in bounds if solution[i] - low < _AT_BOUND * max(1.0, abs(low))]
        return tuple(found)


def _symmetric(triangle: Array) -> Array:
    """Return the symmetric matrix of a scaled upper triangle (10,), column by column."""
    result = np.zeros((4, 4))
    for value, (row, column) in zip(triangle, _TRIANGLE, strict=True):
        result[row, column] = result[column, row] = value if row == column else value * 0.5**0.5
    return result


def _solve(data: Array, target: Array, weights: Array, links: int, bounds: Sequence[tuple[int, float]]) -> Array:
    """Minimise |data x - target|^2 + |weights x|^2 with every link's matrix and every bound respected."""
    import clarabel  # noqa: PLC0415 - a solver that few computations need

    u = data.shape[1]
    prior = np.column_stack([np.diag(weights), np.zeros(u)])
    triangle = r_factor(np.vstack([np.column_stack([data, target]), prior]))
    root, right = triangle[:u, :u], triangle[:u, -1]
    r = len(root)
    # unknowns x, and y = root x - right, so that the normal equations are never formed
    objective = scipy.sparse.block_diag([scipy.sparse.csc_matrix((u, u)), scipy.sparse.identity(r)], format="csc")
    residual = scipy.sparse.hstack([scipy.sparse.csc_matrix(root), -scipy.sparse.identity(r)])
    cones = -scipy.sparse.hstack(
        [scipy.sparse.identity(10 * links), scipy.sparse.csc_matrix((10 * links, u - 10 * links + r))]
    )
    rows = [residual, cones]
    inside = np.array([1.0 if row == column else 0.0 for row, column in _TRIANGLE]) * (1.0 - _LEAST_SHARE)
    sides = [right, np.tile(inside, links)]
    if bounds:
        index = np.array([i for i, _ in bounds])
        picked = scipy.sparse.csc_matrix(
            (-np.ones(index.size), (np.arange(index.size), index)), shape=(index.size, u + r)
        )
        rows.append(picked)
        sides.append(np.array([-low for _, low in bounds]))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(
        objective,
        np.zeros(u + r),
        scipy.sparse.vstack(rows, format="csc"),
        np.concatenate(sides),
        [
            clarabel.ZeroConeT(r),
            *[clarabel.PSDTriangleConeT(4)] * links,
            *([clarabel.NonnegativeConeT(len(bounds))] if bounds else []),
        ],
        settings,
    )
    result = solver.solve()
    if str(result.status) not in ("Solved", "AlmostSolved"):
        raise IdentificationError(
            f"no physically consistent parameters were found ({result.status}); check gains and units, or give a "
            "prior closer to the robot",
            code="consistency-failed",
        )
    return np.asarray(result.x)[:u]
