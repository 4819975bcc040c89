"""All published pipelines, and friction models beside them, on the recorded UR10e."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from benchmarks.reproduce.table import Section
from core.models import Mechanism, load
from core.pipelines.identify import identify
from core.pipelines.published import PublishedResult, identify_by, mean_moving, published_method
from core.recordings import Recording, parse_source, read
from core.signals import SignalSettings, cut_before_stop
from core.validation import ValidationReport

GAINS = (11.976, 11.976, 9.839, 10.763, 10.76, 11.33)
TRAIN = (
    "excitation/ur-20_02_06-20sec_5harm.csv:545-2417",
    "excitation/ur-20_02_06-20sec_10harm.csv:713-2800",
    "excitation/ur-20_02_10-30sec_12harm.csv:635-3510",
    "excitation/ur-20_02_12-40sec_12harm.csv:500-4460",
    "excitation/ur-20_02_12-50sec_12harm.csv:355-5090",
)
HELD_OUT = "point_to_point/ur-20_01_17-ptp_10_points.csv:700-4200"


@dataclass(frozen=True)
class Reports:
    """Errors on training data and on held-out motion."""

    train: ValidationReport
    validation: ValidationReport


@dataclass(frozen=True)
class Data:
    """The recordings and the model used with them."""

    model: Mechanism
    train: Sequence[Recording]
    held_out: Sequence[Recording]

    def friction(self, composition: str, estimator: str = "wls") -> Reports:
        found = identify(self.model, self.train, self.held_out, gains=GAINS, friction=composition, estimator=estimator)
        assert found.validation is not None
        return Reports(found.train, found.validation)

    def method(self, name: str, **settings: object) -> PublishedResult:
        same = SignalSettings()
        method = published_method(name, signals=same, **settings)
        return identify_by(method, self.model, self.train, self.held_out, gains=GAINS)

    def published(self, name: str, **settings: object) -> Reports:
        found = self.method(name, **settings).identification
        assert found.validation is not None
        return Reports(found.train, found.validation)


CASES: Mapping[str, Callable[[Data], Reports]] = MappingProxyType(
    {
        "least squares, Coulomb + viscous": lambda data: data.friction("coulomb_viscous", "ols"),
        "weighted, Coulomb + viscous": lambda data: data.friction("coulomb_viscous"),
        "weighted, arctan": lambda data: data.friction("arctan"),
        "weighted, Stribeck": lambda data: data.friction("stribeck"),
        "weighted, two-regime cubic": lambda data: data.friction("two_regime_cubic"),
        "weighted, arctan+load": lambda data: data.friction("arctan+load"),
        "weighted, arctan+load+hysteresis": lambda data: data.friction("arctan+load+hysteresis"),
        "`ur10e_power_friction`": lambda data: data.published("ur10e_power_friction"),
        "`abc_arctan`, bee colony": lambda data: data.published("abc_arctan"),
        "`abc_arctan`, variable projection": lambda data: data.published("abc_arctan", search="variable_projection"),
        "`recursive_six_axis`": lambda data: data.published("recursive_six_axis"),
    }
)


def folder() -> Path:
    root = os.environ.get("DYNID_SHARED_DATA")
    return (Path(root) if root else Path(__file__).parents[3] / "shared" / "data") / "ur10e"


def run(_: Sequence[int]) -> Section:
    section = Section(
        "The recorded UR10e",
        "Trained on the five excitation recordings, each cut 0.25 s before its stop, judged on the point-to-point run. "
        "Grid and filters are the same for all: 100 Hz, 10 Hz on torque, 15 Hz on position. RMS while moving, N·m.",
        headings=("", "training, mean", "held out, mean", "held out, joints 1 to 6"),
    )
    if not folder().is_dir():
        section.remarks.append("Skipped: the recordings are not on this machine (set DYNID_SHARED_DATA).")
        return section
    data = Data(
        load(folder() / "ur10e.urdf", rotor_inertia=True),
        [_read(source) for source in TRAIN],
        [_read(HELD_OUT)],
    )
    found = {name: case(data) for name, case in CASES.items()}
    for label, settings in (("", {}), (", regimes together", {"regimes": "together"})):
        layers = data.method("coman_three_layer", **settings)
        compensated, plain = layers.compensated, layers.identification
        assert compensated is not None
        assert compensated.validation is not None
        assert plain.validation is not None
        name = f"`coman_three_layer`{label}"
        found[f"{name}, layers 1 and 2"] = Reports(plain.train, plain.validation)
        found[f"{name}, with layer 3"] = Reports(compensated.train, compensated.validation)
        section.remarks.append(f"{name}: {layers.remark}.")
    for name, reports in found.items():
        joints = " ".join(f"{value:.3f}" for value in reports.validation.pooled["moving"].rms)
        section.rows.append(
            (name, f"{mean_moving(reports.train):.3f}", f"{mean_moving(reports.validation):.3f}", joints)
        )
    best = min(found, key=lambda name: mean_moving(found[name].validation))
    methods = [name for name in found if name.startswith("`")]
    published = min(methods, key=lambda name: mean_moving(found[name].validation))
    section.remarks.append(
        f"Best on held-out motion: {best}. Best of the published methods: {published}; none of them knows that "
        "friction grows with the load, which is the largest single gain on this robot."
    )
    section.remarks.append(
        "Whether layer 3 is used is decided on the same motion that judges it; both figures are given, so nothing is "
        "hidden by that. The bee colony fails here: it has not come near the optimum of all its "
        "parameters after G = 200."
    )
    reference = found["least squares, Coulomb + viscous"]
    over = [name for name in found if _overfits(found[name], reference)]
    section.remarks.append(
        f"Over-fits, that is leaves less in training and more out of it than plain least squares: "
        f"{', '.join(over) or 'none'}."
    )
    return section


def _overfits(reports: Reports, reference: Reports) -> bool:
    less = np.less(mean_moving(reports.train), mean_moving(reference.train))
    return bool(less and mean_moving(reports.validation) > mean_moving(reference.validation))


def _read(source: str) -> Recording:
    path, rows = parse_source(str(folder() / source))
    return cut_before_stop(read(path, "ur-log", rows), 0.25)
