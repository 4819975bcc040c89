"""What workers compute: from files and documents to documents. Nothing here knows the database.

The web process imports this module to name its functions, so the numerical packages are imported inside.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError, RecordingError

if TYPE_CHECKING:
    from core.pipelines.identification import Identification
    from core.recordings import Recording
    from service.jobs.worker import TaskChannel

SHARES: Mapping[str, tuple[float, float]] = {
    "preparing signals": (0.0, 0.1),
    "choosing friction": (0.1, 0.2),
    "fitting friction": (0.3, 0.2),
    "cross-validating": (0.5, 0.1),
    "reading motion": (0.6, 0.3),
    "estimating": (0.9, 0.1),
    "validating": (0.0, 1.0),
}
"""Where each phase of the pipelines begins within its computation, and its length."""


@dataclass(frozen=True)
class RecordingSource:
    """A recorded file and what its SHA-256 has to be."""

    id: str
    path: Path
    sha256: str


@dataclass(frozen=True)
class IdentifiedModel:
    """An identification: the document that stands alone, and its first figures."""

    document: dict[str, Any]
    base_parameters: int
    condition_number: float
    normalised_condition_number: float
    rms: list[float | None]


@dataclass(frozen=True)
class Judgement:
    """What a validation found; ``reasons`` why the result does not pass, empty when it does."""

    report: dict[str, Any]
    reasons: list[str]
    rms_moving: list[float | None]
    relative_moving: list[float | None]


@dataclass(frozen=True)
class TableData:
    """A feedforward table as it is stored."""

    samples: int
    n_joints: int
    crc32: int
    digest: str
    torque: bytes
    current: bytes | None
    document: dict[str, Any]


def identify_recordings(
    channel: TaskChannel,
    *,
    model: str,
    rotor_inertia: bool,
    sources: Sequence[RecordingSource],
    gains: str | Sequence[float] | None,
    friction: str | list[str],
    cross_validate: bool,
    estimator: str,
    signals: dict[str, Any],
    sensors: Mapping[str, Any] | None,
    choices: dict[str, Any],
) -> IdentifiedModel:
    """Estimate parameters from recorded files; arguments, and ``choices``, as `core.pipelines.identify.identify`.

    ``sensors``, where given, has tare and gain (n,) of the sensors and gravity (3,): see `true_forces`.
    """
    from core.models import resolve
    from core.pipelines.identify import identify
    from core.signals import SignalSettings

    robot, recordings = resolve(model, rotor_inertia=rotor_inertia), read_all(sources)
    if sensors is not None:
        robot, recordings = robot.with_gravity(sensors["gravity"]), true_forces(recordings, sensors)
    identification = identify(
        robot,
        recordings,
        gains=gains,
        friction=friction,
        cross_validate=cross_validate,
        estimator=estimator,
        signals=SignalSettings.from_document(signals),
        progress=reporter(channel),
        **choices,
    )
    return identified(identification)


def identified(identification: Identification) -> IdentifiedModel:
    """Return an identification as it is stored."""
    document = identification.to_document()
    return IdentifiedModel(
        document=document,
        base_parameters=identification.base.count,
        condition_number=identification.condition_number_,
        normalised_condition_number=identification.normalised_condition_number_,
        rms=document["train"]["rms"],
    )


def validate_result(
    channel: TaskChannel,
    *,
    document: dict[str, Any],
    sources: Sequence[RecordingSource],
    sensors: Mapping[str, Any] | None,
    max_relative_residual: float | list[float],
    min_moving_samples: int,
) -> Judgement:
    """Judge an identification on recorded files, joint by joint, on the samples in which the joint moves.

    ``sensors`` are those that it was identified with.
    """
    from core.pipelines.identification import Identification

    identification = Identification.from_document(document)
    limits = _per_joint(max_relative_residual, identification.model.n_joints)
    recordings = read_all(sources) if sensors is None else true_forces(read_all(sources), sensors)
    report = identification.validate(recordings, reporter(channel)).to_document()
    relative = report["relative_moving"]
    reasons = []
    for joint, (samples, found, limit) in enumerate(
        zip(report["samples_moving"], relative, limits, strict=True), start=1
    ):
        if samples < min_moving_samples:
            reasons.append(
                f"joint {joint} moves in {samples} samples, {min_moving_samples} are needed to judge it; "
                "validate on a motion of all joints"
            )
        elif found is None or found > limit:
            shown = "undefined" if found is None else f"{found:.3f}"
            reasons.append(f"joint {joint}: relative residual {shown} while moving, allowed {limit:g}")
    return Judgement(report, reasons, report["rms_moving"], relative)


def drift_of(
    channel: TaskChannel,
    *,
    document: dict[str, Any],
    sources: Sequence[RecordingSource],
    sensors: Mapping[str, Any] | None,
    level: float,
) -> dict[str, Any]:
    """Compare a robot with what was identified; return the document of a ``DriftTest``."""
    from core.pipelines.drift import drift
    from core.pipelines.identification import Identification

    recordings = read_all(sources)
    true = recordings if sensors is None else true_forces(recordings, sensors)
    channel.report(0.2, "comparing")
    return drift(Identification.from_document(document), true, level=level).to_document()


def build_feedforward(
    channel: TaskChannel, *, document: dict[str, Any], definition: dict[str, Any], cycle_time: float
) -> TableData:
    """Predict the torque of a trajectory at the controller's cycle."""
    from core.excitation import trajectory_from_definition
    from core.excitation.motion_check import joint_samples
    from core.feedforward import build_table
    from core.pipelines.identification import Identification

    identification = Identification.from_document(document)
    channel.report(0.2, "sampling")
    samples = trajectory_from_definition(definition).sample(cycle_time)
    channel.report(0.4, "predicting")
    table = build_table(identification, joint_samples(samples, identification.model))
    return TableData(
        samples=table.samples,
        n_joints=table.n_joints,
        crc32=table.crc32,
        digest=table.digest,
        torque=table.torque_bytes,
        current=table.current_bytes,
        document=table.to_document(),
    )


def find_payload(
    channel: TaskChannel,
    *,
    document: dict[str, Any],
    loaded: Sequence[RecordingSource],
    unloaded: Sequence[RecordingSource],
) -> dict[str, Any]:
    """Return the document of what an identified robot carries."""
    from core.pipelines.identification import Identification
    from core.pipelines.payload import identify_payload

    robot = Identification.from_document(document)
    channel.report(0.1, "reading runs")
    carrying, bare = read_all(loaded), read_all(unloaded)
    channel.report(0.3, "estimating")
    return identify_payload(robot, carrying, bare).to_document()


def find_drive_gains(
    channel: TaskChannel,
    *,
    document: dict[str, Any],
    loaded: Sequence[RecordingSource],
    unloaded: Sequence[RecordingSource],
    mass: float,
    com: Sequence[float] | None,
) -> dict[str, Any]:
    """Return the document of a robot's drive gains, from a payload of known mass and perhaps centre of mass."""
    from core.pipelines.identification import Identification
    from core.pipelines.paired_drive_gains import from_paired_runs, known_payload

    robot = Identification.from_document(document)
    channel.report(0.1, "reading runs")
    carrying, bare = read_all(loaded), read_all(unloaded)
    channel.report(0.3, "comparing")
    return from_paired_runs(robot, carrying, bare, known_payload(mass, com)).to_document()


def export_result(document: dict[str, Any], format: str, allow_deviation: float | None) -> str:
    """Write an identification for another program; arguments and errors as of ``core.export.export``."""
    from core.export import export
    from core.pipelines.identification import Identification

    return export(Identification.from_document(document), format, allow_deviation=allow_deviation).text


def read_all(sources: Sequence[RecordingSource]) -> list[Recording]:
    """Read recorded files, named by their identifiers.

    Raises
    ------
    RecordingError
        A file is missing or damaged, or (``recording-altered``) not the one that was recorded.
    """

    from core.recordings import read

    recordings = []
    for source in sources:
        recording = read(source.path, "mcap")
        found = recording.provenance["sha256"]
        if found != source.sha256:
            raise RecordingError(
                f"{source.path} is not the file that was recorded as {source.id}: its SHA-256 is {found}, "
                f"recorded was {source.sha256}",
                code="recording-altered",
                id=source.id,
                path=str(source.path),
            )
        recordings.append(replace(recording, name=source.id))
    return recordings


def true_forces(recordings: Sequence[Recording], sensors: Mapping[str, Any]) -> list[Recording]:
    """Return recordings with what sensors of known tare and gain (n,) carry, in place of what they show.

    Raises
    ------
    InputError
        ``sensors-invalid``: these are of another number of sensors, or a recording has no measured force.
    """
    import numpy as np

    tare, gain = np.array(sensors["tare"]), np.array(sensors["gain"])
    corrected = []
    for recording in recordings:
        if recording.torque is None or recording.n_joints != tare.size:
            raise InputError(
                f"{recording.name}: figures of {tare.size} sensors are given, and need as many measured forces",
                code="sensors-invalid",
            )
        provenance = {**recording.provenance, "sensors": dict(sensors)}
        corrected.append(replace(recording, torque=(recording.torque - tare) / gain, provenance=provenance))
    return corrected


def _per_joint(value: float | list[float], n_joints: int) -> list[float]:

    values = [value] * n_joints if isinstance(value, int | float) else value
    if len(values) != n_joints:
        raise InputError(
            f"criteria are given for {len(values)} joints, the result is of {n_joints}; give one for all or "
            "one per joint",
            code="criteria-invalid",
        )
    return values


def reporter(channel: TaskChannel) -> Callable[[str, float], None]:
    """Turn the pipelines' progress, phase by phase, into that of the computation."""

    def report(phase: str, fraction: float) -> None:
        begin, length = SHARES.get(phase, (0.0, 0.0))
        channel.report(min(begin + length * fraction, 0.99), phase)

    return report
