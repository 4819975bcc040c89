"""What published methods have in common: settings by name, recordings in, a result out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.estimators import Estimator
from core.estimators.preset import PresetParameters
from core.friction import FrictionModel
from core.models import Mechanism
from core.pipelines.estimation import Progress
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.pipelines.published.result import PublishedResult
from core.recordings.recording import Recording
from core.signals import SignalSettings

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """What is given: see ``core.pipelines.identify.identify``, whose arguments these are."""

    model: Mechanism
    train: Sequence[Recording]
    validate: Sequence[Recording] = ()
    gains: ArrayLike | str | None = None
    random_state: int = 0
    progress: Progress | None = None

    def identified(
        self, signals: SignalSettings, friction: str | FrictionModel, estimator: str | Estimator
    ) -> Identification:
        """Return what the identification core makes of it."""
        return identify(
            self.model,
            self.train,
            self.validate,
            gains=self.gains,
            friction=friction.specification if isinstance(friction, FrictionModel) else friction,
            estimator=estimator,
            signals=signals,
            random_state=self.random_state,
            progress=self.progress,
        )


@dataclass(frozen=True)
class Method(ABC):
    """A published method; its fields are its settings, the published ones by default.

    Attributes
    ----------
    signals : how recordings are prepared.
    """

    signals: SignalSettings

    name: ClassVar[str]
    source: ClassVar[str]

    @abstractmethod
    def run(self, task: Task) -> PublishedResult:
        """Estimate; errors are those of ``core.pipelines.identify.identify``."""

    def settled(
        self, task: Task, friction: FrictionModel, parameters: Array, account: Mapping[str, Any]
    ) -> Identification:
        """Return the identification that parameters (p,) of the method's own make, judged like every other."""
        found = task.identified(self.signals, friction, PresetParameters(parameters))
        return self.signed(found, account)

    def signed(self, found: Identification, account: Mapping[str, Any]) -> Identification:
        """Return an identification that says which method, with which settings, made it."""
        settings = {key: value for key, value in asdict(self).items() if key != "signals"}
        return replace(
            found,
            estimator={"name": self.name, "params": settings},
            provenance={**found.provenance, "method": {"name": self.name, "source": self.source, **account}},
        )
