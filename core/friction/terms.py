"""Terms without a memory of position: load, elasticity, warm-up and gear ripple."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from core.errors import InputError
from core.friction.term import Shape, Shaped, VelocityLaw, link_torque
from core.signals.motion import JointMotion

Array = NDArray[np.float64]


class WithoutMemory(ABC):
    """Columns of the present sample alone, so that sliding is a matter of another velocity."""

    def columns(self, motion: JointMotion, joint: int, law: VelocityLaw, *, sign_width: float) -> Array:
        return self._at(motion, joint, motion.qd[:, joint])

    def sliding(self, motion: JointMotion, joint: int, law: VelocityLaw, qd: Array) -> Array:
        return self._at(motion, joint, qd)

    def nonnegative(self, law: VelocityLaw) -> tuple[str, ...]:
        return ()

    @abstractmethod
    def _at(self, motion: JointMotion, joint: int, qd: Array) -> Array:
        """Return the columns (N, k) were the joint's velocity ``qd`` (N,)."""


@dataclass(frozen=True)
class Load(WithoutMemory, Shaped):
    """``(k1 |tau| + k2 tau^2) s(qd)``, tau the link torque and ``s = tanh(qd / width)``.

    Attributes
    ----------
    width : rad/s (m/s).
    squared : whether there is a k2.
    drive : a third column ``tau |s|``: a gear loses more when it drives its load than when the load drives it.
    """

    width: float | None = None
    squared: bool = True
    drive: bool = False

    name: ClassVar[str] = "load"
    SHAPES: ClassVar[tuple[Shape, ...]] = (Shape("width", 0.05, 0.005, 0.3, "speed"),)

    @property
    def options(self) -> tuple[str, ...]:
        return ("2" if self.squared else "1", *(("drive",) if self.drive else ()))

    @classmethod
    def from_options(cls, words: tuple[str, ...], shapes: dict[str, float]) -> Self:
        wrong = set(words) - {"1", "2", "drive"}
        if wrong or {"1", "2"} <= set(words):
            raise InputError(
                f"load takes 1 (|tau|) or 2 (tau^2 too), and drive; not {', '.join(words)}", code="friction-invalid"
            )
        return cls(squared="1" not in words, drive="drive" in words, **cls.checked(shapes))

    def parameter_names(self, law: VelocityLaw) -> tuple[str, ...]:
        return ("k1_", *(("k2_",) if self.squared else ()), *(("kd_",) if self.drive else ()))

    def nonnegative(self, law: VelocityLaw) -> tuple[str, ...]:
        return () if self.squared else ("k1_",)

    @property
    def needs_load(self) -> bool:
        return True

    def unloaded(self) -> None:
        return None

    def sliding(self, motion: JointMotion, joint: int, law: VelocityLaw, qd: Array) -> Array:
        return self._scaled(motion, joint, np.sign(qd))

    def _at(self, motion: JointMotion, joint: int, qd: Array) -> Array:
        return self._scaled(motion, joint, np.tanh(qd / self.shape("width")))

    def _scaled(self, motion: JointMotion, joint: int, s: Array) -> Array:
        torque = link_torque(motion, joint)
        columns = [np.abs(torque) * s]
        if self.squared:
            columns.append(torque**2 * s)
        if self.drive:
            columns.append(torque * np.abs(s))
        return np.column_stack(columns)


@dataclass(frozen=True)
class Elasticity(WithoutMemory, Shaped):
    """``e1 d tau/dt + e2 (d qdd/dt) / (1 + (qd / slow)^2)``, tau the link torque.

    The motor behind an elastic gear is ahead of the joint by tau / stiffness, so its speed, and with it its
    viscous drag, differs in proportion to the rate of the torque: e1. Drag is steepest at low speeds, where the
    fast part of that rate, the joint's own inertia, counts for more: e2.

    Attributes
    ----------
    slow : rad/s (m/s).
    """

    slow: float | None = None

    name: ClassVar[str] = "elasticity"
    SHAPES: ClassVar[tuple[Shape, ...]] = (Shape("slow", 0.2, 0.05, 1.0, "speed"),)

    def parameter_names(self, law: VelocityLaw) -> tuple[str, ...]:
        return ("e1_", "e2_")

    @property
    def needs_load(self) -> bool:
        return True

    def unloaded(self) -> None:
        return None

    def _at(self, motion: JointMotion, joint: int, qd: Array) -> Array:
        torque = link_torque(motion, joint)
        if torque.size < 2:
            return np.zeros((torque.size, 2))
        jerk = np.gradient(motion.qdd[:, joint], motion.period)
        rate = np.gradient(torque, motion.period)
        return np.column_stack([rate, jerk / (1.0 + (qd / self.shape("slow")) ** 2)])


@dataclass(frozen=True)
class Ripple(WithoutMemory, Shaped):
    """``rs sin(k q) + rc cos(k q)`` for each gear order k per turn of the joint, optionally load-scaled.

    Attributes
    ----------
    orders : k; a strain-wave gear ripples at twice its ratio.
    load_scaled : besides, the same columns times ``|link torque|``.
    """

    orders: tuple[int, ...] = ()
    load_scaled: bool = False

    name: ClassVar[str] = "ripple"

    @property
    def options(self) -> tuple[str, ...]:
        return (*map(str, self.orders), *(("load",) if self.load_scaled else ()))

    @classmethod
    def from_options(cls, words: tuple[str, ...], shapes: dict[str, float]) -> Self:
        cls.checked(shapes)
        orders = [word for word in words if word != "load"]
        if (
            not orders
            or not all(word.isdecimal() and int(word) > 0 for word in orders)
            or len(set(orders)) < len(orders)
        ):
            raise InputError(
                "ripple needs the orders of the gear per turn of the joint, such as ripple(202), each once",
                code="friction-invalid",
            )
        return cls(tuple(map(int, orders)), "load" in words)

    @property
    def needs_load(self) -> bool:
        return self.load_scaled

    def parameter_names(self, law: VelocityLaw) -> tuple[str, ...]:
        kinds = ("r", "rl") if self.load_scaled else ("r",)
        return tuple(f"{kind}{part}{k}_" for kind in kinds for k in self.orders for part in ("s", "c"))

    def unloaded(self) -> Self:
        return replace(self, load_scaled=False)

    def _at(self, motion: JointMotion, joint: int, qd: Array) -> Array:
        angle = np.outer(motion.q[:, joint], self.orders)
        waves = np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(len(angle), -1)
        if not self.load_scaled:
            return waves
        return np.hstack([waves, waves * np.abs(link_torque(motion, joint))[:, None]])


@dataclass(frozen=True)
class Warmup(Shaped):
    """The law's columns times the heat that motion has left in the gear: ``dE/dt = qd^2 - E / time_constant``.

    E counts from the start of the motion, where nobody knows what came before. The time constant is at most
    a minute: real ones are longer, but what short recordings show must not be extended to hours.
    """

    time_constant: float | None = None

    name: ClassVar[str] = "warmup"
    SHAPES: ClassVar[tuple[Shape, ...]] = (Shape("time_constant", 30.0, 5.0, 60.0),)

    def parameter_names(self, law: VelocityLaw) -> tuple[str, ...]:
        return tuple(f"{law.parameter_names[k].rstrip('_')}w_" for k in _without_offset(law))

    def unloaded(self) -> Self:
        return self

    def nonnegative(self, law: VelocityLaw) -> tuple[str, ...]:
        return ()

    def columns(self, motion: JointMotion, joint: int, law: VelocityLaw, *, sign_width: float) -> Array:
        columns = law.columns(motion.qd[:, joint], sign_width=sign_width)
        return self._heated(motion, joint, law, columns)

    def sliding(self, motion: JointMotion, joint: int, law: VelocityLaw, qd: Array) -> Array:
        return self._heated(motion, joint, law, law.columns(qd, sign_width=0.0))

    def _heated(self, motion: JointMotion, joint: int, law: VelocityLaw, columns: Array) -> Array:
        cooling = np.exp(-motion.period / self.shape("time_constant"))
        gained = (1.0 - cooling) * self.shape("time_constant") * motion.qd[:, joint] ** 2
        heat: Any = scipy.signal.lfilter([1.0], [1.0, -cooling], gained)
        return np.ascontiguousarray(columns[:, _without_offset(law)] * heat[:, None])


def _without_offset(law: VelocityLaw) -> list[int]:
    return [k for k, name in enumerate(law.parameter_names) if name not in {"b", "f0_"}]
