"""The result of an identification: parameters that predict a robot's torque, and how far to trust them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.dynamics.base_parameters import BaseParameters
from core.errors import DynidError, IdentificationError, InputError
from core.estimators import JointFactors
from core.estimators.essential import EssentialParameters, essential_parameters
from core.estimators.identifiability import Conditioning
from core.friction import FrictionModel, friction_model
from core.models import Mechanism, model_from_document
from core.pipelines.confidence import confidence_band
from core.pipelines.effort import Effort
from core.pipelines.estimation import Progress, compared, report
from core.pipelines.sample_account import account_of_samples
from core.pipelines.shape_uncertainty import FittedShapes
from core.pipelines.stops import JoltedStop
from core.pipelines.torque_model import TorqueModel
from core.pipelines.torque_slopes import ShapeNames
from core.pipelines.training import prepared
from core.recordings.recording import Recording
from core.signals import Preparation, SignalSettings
from core.signals.motion import JointMotion
from core.validation import ValidationReport, Verdict, judge, validation_report

Array = NDArray[np.float64]
_KIND = "identification"
_VERSION = 1
_NOT_IDENTIFIABLE = 10.0
"""Standard deviation, over the size of a parameter, from which on data say nothing about it."""
_SLOW = 5.0
"""Speed at which friction is asked for its direction, over that from which on a joint moves."""
_CERTAINLY = 3.0
"""Standard deviations by which friction has to drive a joint before that is said."""


@dataclass(frozen=True, eq=False)
class Identification:
    """A result that stands alone: model, parameters, uncertainty, errors and where all of it came from.

    Attributes
    ----------
    model, base, friction : what ``parameters_`` multiply; see ``TorqueModel``.
    parameters_ : (p,) base parameters, then friction, in the order of ``names``; SI units, with A for N·m
        where ``effort.unit`` is A.
    covariance_ : (p, p), for residuals that are coloured, as those of filtered torque are; drift from one
        recording to the next is not in it. ``covariance_kind`` says how it was found.
    shapes_ : uncertainty of fitted shapes of friction; None where torque is linear in all that was estimated.
    residual_std_ : (n,) of the training residual.
    sensitivity_ : (p,) relative change of the training torque's norm when a parameter changes by 1 %.
    condition_number_, normalised_condition_number_ : of the observation matrix, raw and with columns of
        length one.
    undetermined_ : parameters that the data hardly determine, where the condition number exceeds 1e4; see
        ``Conditioning`` for which one is judged.
    estimator : name and parameters of the estimator.
    consistent : standard parameters that a real robot can have, and what bounds them (the document of
        ``ConsistentParameters``), where the estimator found such; otherwise None.
    effort : the recorded signal that is explained, its gains and its unit.
    signals : how signals are prepared.
    moving_threshold : rad/s (m/s); a joint faster than this moves.
    train, validation : errors on the training data, and on held-out motion where there was any.
    cross_validation : scores on left-out recordings, where they were asked for.
    friction_selection : the compositions that were compared for friction ``auto``, with their scores.
    provenance : recordings with their hashes, signal processing, digests, software.
    """

    model: Mechanism
    base: BaseParameters
    friction: FrictionModel
    parameters_: Array
    covariance_: Array
    covariance_kind: str
    residual_std_: Array
    sensitivity_: Array
    condition_number_: float
    normalised_condition_number_: float
    undetermined_: tuple[str, ...]
    estimator: Mapping[str, Any]
    consistent: Mapping[str, Any] | None
    effort: Effort
    signals: SignalSettings
    moving_threshold: float
    train: ValidationReport
    validation: ValidationReport | None
    cross_validation: Mapping[str, Any] | None
    friction_selection: Mapping[str, Any] | None
    provenance: Mapping[str, Any]
    shapes_: FittedShapes | None = None

    @property
    def torque_model(self) -> TorqueModel:
        return TorqueModel(self.model, self.base, self.friction)

    @property
    def names(self) -> tuple[str, ...]:
        """Names (p,) of the parameters."""
        return self.torque_model.names

    @property
    def unit(self) -> str:
        """Unit of predicted torque."""
        return self.effort.unit

    @property
    def relative_std_(self) -> Array:
        """Standard deviation of each parameter (p,) as a share of its value."""
        deviation = np.sqrt(np.diag(self.covariance_))
        size = np.abs(self.parameters_)
        return np.divide(deviation, size, out=np.full_like(size, np.inf), where=size > 0.0)

    @property
    def not_identifiable(self) -> dict[str, float]:
        """Base parameters that these data do not tell, with their standard deviation as a share of their size.

        Their size is what bodies like those of the model would make of them without cancelling each other; what is
        not even known to ten times that is noise. Estimate the rest ``without`` them. A model without masses tells
        no sizes, and a parameter that is zero and known to be small is told well.
        """
        deviation = np.sqrt(np.diag(self.covariance_))[: self.base.count]
        size = np.abs(self.base.projection) @ self.model.parameter_sizes
        share = np.divide(deviation, size, out=np.zeros_like(size), where=size > 0.0)
        rows = zip(self.base.base_names, share.tolist(), strict=True)
        return {name: value for name, value in rows if value > _NOT_IDENTIFIABLE}

    @property
    def verdict(self) -> Verdict:
        """What to think of this result, in plain words."""
        terms = [{term.name for term in joint.terms} for joint in self.friction.joints]
        return judge(self.train, self.validation, self.conditioning, terms, self.driven_by_friction)

    @property
    def driven_by_friction(self) -> tuple[int, ...]:
        """Joints, from 0, whose friction as estimated drives them certainly instead of braking them.

        The law alone counts, at a slow speed; an offset does not.
        """
        speed = _SLOW * self.moving_threshold
        start, found = self.base.count, []
        for number, joint in enumerate(self.friction.joints):
            own = slice(start, start + len(joint.law.parameter_names))
            start += len(joint.parameter_names)
            forth, back = joint.law.columns(np.array([speed, -speed]), sign_width=0.0)
            odd = 0.5 * (forth - back)
            deviation = float(np.sqrt(odd @ self.covariance_[own, own] @ odd))
            if odd @ self.parameters_[own] < -_CERTAINLY * deviation:
                found.append(number)
        return tuple(found)

    def require_braking(self) -> None:
        """Refuse to be used for control where friction drives.

        Raises
        ------
        IdentificationError
            ``friction-drives``.
        """
        if self.driven_by_friction:
            joint = self.driven_by_friction[0]
            raise IdentificationError(
                f"the friction of joint {joint + 1} ({self.model.joint_names[joint]}) drives it instead of braking: a "
                "controller that adds this torque would not be safe; check the signs of the recorded signals",
                code="friction-drives",
            )

    @property
    def conditioning(self) -> Conditioning:
        """How well the observations determine the parameters."""
        return Conditioning(self.condition_number_, self.normalised_condition_number_, self.undetermined_)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should look at before relying on the result."""
        found = []
        if self.conditioning.problem:
            found.append(self.conditioning.problem)
        if self.not_identifiable:
            shares = ", ".join(f"{name} ({share:.3g} times its size)" for name, share in self.not_identifiable.items())
            found.append(
                f"not identifiable from these data, by the standard deviation: {shares}; leave them out by "
                f"without (--without {' '.join(self.not_identifiable)}), or excite them"
            )
        if self.consistent:
            found += _limits_of(self.consistent)
        found += self.provenance["suspicions"]
        found += [str(JoltedStop(**jolted)) for jolted in self.provenance["jolted_stops"]]
        found += self._accounts()
        if self.cross_validation and self.cross_validation["scheme"] == "block":
            found.append(
                "left out were blocks of a single recording, which have more in common than recordings: these scores "
                "flatter; give several recordings"
            )
        reports = (self.train, self.validation) if self.validation else (self.train,)
        found += [str(jolt) for report in reports for jolt in report.jolts]
        return tuple(found)

    def _accounts(self) -> list[str]:
        told = self.provenance
        groups = (("training data", "train", "preparation"), ("held-out data", "validate", "validation_preparation"))
        found = [account_of_samples(which, told[sources], told[accounts]) for which, sources, accounts in groups]
        return [sentence for sentence in found if sentence]

    def predict(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        *,
        period: float | None = None,
        smooth: bool = False,
    ) -> Array:
        """Return torques (N, n) along a motion, in the result's unit.

        Parameters
        ----------
        q, qd, qdd : (N, n) consecutive samples.
        period : s between them, for friction that remembers; by default that of the estimate's rows.
        smooth : round off the jump of dry friction at a reversal, as a controller needs it.

        Raises
        ------
        InputError
            A shape is wrong.
        """
        return self.torque_model.torque(self._motion(q, qd, qdd, period), self.parameters_, smooth=smooth)

    def predict_std(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, *, period: float | None = None) -> Array:
        """Return the standard deviation (N, n) of ``predict``; arguments as there.

        It is that of the expected torque, by the covariance of parameters and fitted shapes: 1.96 times it on both
        sides is a 95 % confidence band. A single measured torque scatters by ``residual_std_`` around it.
        """
        motion = self._motion(q, qd, qdd, period)
        return self.torque_model.torque_std(motion, self.parameters_, self.joint_covariance, self.shape_names)

    @property
    def shape_names(self) -> ShapeNames:
        """Names of each joint's fitted shapes of friction; s in all."""
        return self.shapes_.names if self.shapes_ else ((),) * self.model.n_joints

    @property
    def joint_covariance(self) -> Array:
        """Covariance (p + s, p + s) of the parameters and of the logarithms of fitted shapes."""
        return self.shapes_.joint(self.covariance_) if self.shapes_ else self.covariance_

    def essential_parameters(self, level: float = 0.05) -> EssentialParameters:
        """Return which parameters the data call for, by backward elimination with F-tests at ``level``."""
        samples = float(self.provenance["effective_samples"])
        return essential_parameters(self.names, self.parameters_, self.covariance_, samples, level=level)

    def _motion(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, period: float | None) -> JointMotion:
        position, rate, acceleration = (np.atleast_2d(np.asarray(v, dtype=np.float64)) for v in (q, qd, qdd))
        expected = (len(position), self.model.n_joints)
        for name, value in (("q", position), ("qd", rate), ("qdd", acceleration)):
            if value.shape != expected:
                raise InputError(f"{name} has shape {value.shape}, expected {expected}")
        return JointMotion(period or 1.0 / self.signals.rate, position, rate, acceleration)

    def validate(self, recordings: Sequence[Recording], progress: Progress | None = None) -> ValidationReport:
        """Return the errors on other recordings, prepared like those of the training.

        Raises
        ------
        RecordingError, IdentificationError
            A recording cannot be prepared, is in impossible units, lacks the signal, or is of a robot with other
            joints.
        """
        return self.judged_on([prepared(r, self.model, self.effort, self.signals) for r in recordings], progress)

    def judged_on(self, preparations: Sequence[Preparation], progress: Progress | None = None) -> ValidationReport:
        """Return the errors on recordings that are prepared already."""
        motions, model = [], self.torque_model
        factors = JointFactors(self.model.n_joints, len(self.joint_covariance))
        for i, preparation in enumerate(preparations):
            for segment in preparation.segments:
                motions.append(compared(segment, model, self.parameters_, self.moving_threshold))
                for columns, effort in model.linearised(segment, self.parameters_, self.shape_names):
                    factors.add(columns, effort)
            report(progress, "validating", (i + 1) / len(preparations))
        return validation_report(motions, confidence_band=confidence_band(factors, self.joint_covariance))

    def summary(self) -> dict[str, Any]:
        """Return the figures that people and programs look at first, JSON-serialisable."""
        train, validation = self.train.to_document(), self.validation
        rows = zip(self.names, self.parameters_, self.relative_std_, strict=True)
        parameters = [
            {"name": name, "value": float(value), "relative_std": _finite(share)} for name, value, share in rows
        ]
        relations = zip(parameters[: self.base.count], self.base.relations, strict=True)
        return {
            "unit": self.unit,
            "base_parameters": [{**row, "relation": relation} for row, relation in relations],
            "friction_parameters": parameters[self.base.count :],
            "friction_composition": self.friction.composition,
            "friction_shapes": [joint.shapes for joint in self.friction.joints],
            "friction_selection": self.friction_selection,
            "cross_validation": self.cross_validation,
            "condition_number": self.condition_number_,
            "normalised_condition_number": self.normalised_condition_number_,
            "train": {"rms": train["rms_all"], "relative": train["relative_all"], **train},
            "validate": validation.to_document() if validation else None,
            "warnings": list(self.warnings),
            "verdict": self.verdict.to_document(),
        }

    def to_document(self) -> dict[str, Any]:
        """Return everything as JSON-serialisable data; ``from_document`` gives the same result back."""
        return {
            "kind": _KIND,
            "version": _VERSION,
            **self.summary(),
            "model": self.model.to_document(),
            "base": self.base.to_document(),
            "friction": self.friction.specification,
            "parameters": self.parameters_.tolist(),
            "covariance": self.covariance_.tolist(),
            "covariance_kind": self.covariance_kind,
            "shapes": self.shapes_.to_document() if self.shapes_ else None,
            "residual_std": self.residual_std_.tolist(),
            "sensitivity": self.sensitivity_.tolist(),
            "undetermined": list(self.undetermined_),
            "estimator": dict(self.estimator),
            "consistent": dict(self.consistent) if self.consistent else None,
            "effort": self.effort.to_document(),
            "signals": self.signals.to_document(),
            "moving_threshold": self.moving_threshold,
            "provenance": dict(self.provenance),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the result that ``to_document`` described.

        Raises
        ------
        InputError
            The document is of another kind or version, incomplete, or damaged.
        """
        if document.get("kind") != _KIND or document.get("version") != _VERSION:
            raise InputError(
                f"not an identification of version {_VERSION}: kind {document.get('kind')!r}, version "
                f"{document.get('version')!r}",
                code="document-foreign",
            )
        try:
            result = cls._read(document)
            result._check()
        except DynidError as error:
            raise InputError(f"damaged identification: {error.detail}", code="document-damaged") from error
        except KeyError as error:
            raise InputError(f"incomplete identification: {error} is missing", code="document-foreign") from error
        except (TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            raise InputError(f"damaged identification: {error}", code="document-damaged") from error
        return result

    @classmethod
    def _read(cls, document: Mapping[str, Any]) -> Self:
        model = model_from_document(document["model"])
        validation = document["validate"]
        return cls(
            model=model,
            base=BaseParameters.from_document(document["base"]),
            friction=friction_model(document["friction"], model.n_joints),
            parameters_=np.array(document["parameters"], dtype=np.float64),
            covariance_=np.array(document["covariance"], dtype=np.float64),
            covariance_kind=document["covariance_kind"],
            residual_std_=np.array(document["residual_std"], dtype=np.float64),
            sensitivity_=np.array(document["sensitivity"], dtype=np.float64),
            condition_number_=document["condition_number"],
            normalised_condition_number_=document["normalised_condition_number"],
            undetermined_=tuple(document["undetermined"]),
            estimator=document["estimator"],
            consistent=document["consistent"],
            effort=Effort.from_document(document["effort"]),
            signals=SignalSettings.from_document(document["signals"]),
            moving_threshold=document["moving_threshold"],
            train=ValidationReport.from_document(document["train"]),
            validation=ValidationReport.from_document(validation) if validation else None,
            cross_validation=document["cross_validation"],
            friction_selection=document["friction_selection"],
            provenance=document["provenance"],
            shapes_=FittedShapes.from_document(document["shapes"]) if document.get("shapes") else None,
        )

    def _check(self) -> None:
        """Refuse what no identification can be: another shape, numbers that are none, another model than was used."""
        n, p = self.model.n_joints, len(self.names)
        shapes = {"parameters": (p,), "covariance": (p, p), "residual_std": (n,)}
        index = self.base.independent
        problems = [
            f"{name} has shape {np.shape(value)}, expected {shape}"
            for (name, shape), value in zip(
                shapes.items(), (self.parameters_, self.covariance_, self.residual_std_), strict=True
            )
            if np.shape(value) != shape
        ]
        if not problems:
            problems += [
                f"{name} holds a value that is no finite number"
                for name, value in (("parameters", self.parameters_), ("covariance", self.covariance_))
                if not np.all(np.isfinite(value))
            ]
            if self.shapes_:
                self.shapes_.check(self.friction, p)
            if np.any(np.diag(self.covariance_) < 0.0):
                problems.append("covariance has a negative variance")
        if index.size and not (index.min() >= 0 and index.max() < self.model.n_parameters):
            problems.append("base parameters refer to standard parameters that the model does not have")
        if self.provenance["model_digest"] != self.model.digest():
            problems.append("the model is not the one that was identified, by its digest")
        if problems:
            raise InputError(problems[0])


def _limits_of(consistent: Mapping[str, Any]) -> list[str]:
    """Return what standard parameters owe to the prior and to physics rather than to the data."""
    reasons = {
        "not_identified": "follow the prior, the data do not identify them",
        "on_bound": "end on a bound of what is physically possible",
        "made_up": "have no inertia in the model that a body can have; a plausible prior was made up",
    }
    return [f"{', '.join(consistent[key])} {why}" for key, why in reasons.items() if consistent[key]]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
