"""Writing recordings to files of other programs, and to this project's own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from core.errors import RecordingError
from core.recordings.array_files import write_hdf5, write_npz, write_parquet
from core.recordings.csv_file import write_csv
from core.recordings.mcap_log import JOINT_NAMES, McapSampleWriter
from core.recordings.recording import Recording
from core.streaming.samples import JOINT_FIELDS, sample_dtype


def _write_mcap(recording: Recording, path: Path) -> None:
    samples = np.zeros(recording.t.size, sample_dtype(recording.n_joints))
    samples["sequence"] = 1 + np.arange(recording.t.size)
    samples["controller_time"] = recording.t
    samples["receive_time"] = np.rint((recording.t - recording.t[0]) * 1e9)
    present = recording.present()
    for name in JOINT_FIELDS:
        samples[name] = present.get(name, np.nan)
    context = {"converted_from": recording.name, "sha256": str(recording.provenance.get("sha256", ""))}
    if recording.joint_names is not None:
        context[JOINT_NAMES] = json.dumps(recording.joint_names)
    writer = McapSampleWriter.create(path, recording.n_joints, robot="converted", context=context)
    try:
        writer.write(samples)
        writer.finish()
    except BaseException:
        writer.discard()
        raise


_WRITERS: Mapping[str, Callable[[Recording, Path], None]] = MappingProxyType(
    {"mcap": _write_mcap, "csv": write_csv, "npz": write_npz, "hdf5": write_hdf5, "parquet": write_parquet}
)


def write_recording(recording: Recording, path: Path, format: str, *, overwrite: bool) -> None:
    """Write as ``core.recordings.write`` says; ``format`` is one of its names."""
    if path.exists() and not overwrite:
        raise RecordingError(
            f"{path}: there is such a file already; choose another name, or let it be overwritten",
            code="recording-exists",
            path=str(path),
        )
    draft = path.with_name(f".{os.getpid()}.{path.name}")  # an earlier file stays until this one is complete
    try:
        _WRITERS[format](recording, draft)
        draft.replace(path)
    except OSError as error:
        raise RecordingError(
            f"{path}: cannot be written: {error.strerror or error}", code="recording-unwritable", path=str(path)
        ) from error
    finally:
        draft.unlink(missing_ok=True)
