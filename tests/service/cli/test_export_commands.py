"""``dynid export`` and ``dynid convert``, and what ``dynid identify`` reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from core.errors import InputError
from core.models import catalogue
from core.pipelines.identify import identify
from core.recordings import Recording, read, write
from service.cli import app


@pytest.fixture(scope="module")
def recording() -> Recording:
    chain = catalogue("ur10e")
    t = np.arange(1500) / 100.0
    rng = np.random.default_rng(0)
    rate, phase = rng.uniform(1.0, 4.0, (2, 6)), rng.uniform(0.0, 6.0, 6)
    angle = t[:, None] * rate.sum(axis=0) / 2.0 + phase
    speed = rate.sum(axis=0) / 2.0
    q, qd, qdd = np.sin(angle), speed * np.cos(angle), -(speed**2) * np.sin(angle)
    slow = 0.3 * np.sin(0.7 * t[:, None] + phase)
    q, qd, qdd = q + slow, qd + 0.21 * np.cos(0.7 * t[:, None] + phase), qdd - 0.49 * slow
    torque = chain.inverse_dynamics(q, qd, qdd) + 2.0 * np.sign(qd) + rng.normal(0.0, 0.2, q.shape)
    return Recording("run", t, q, qd, torque=torque)


def run(*words: str | Path) -> str:
    answer = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_a_result_becomes_files(tmp_path, recording):
    result = identify(catalogue("ur10e").with_drive_gains(None), [recording])
    document = tmp_path / "result.json"
    document.write_text(json.dumps({**result.to_document(), "seconds": 1.0}))
    for to, begin in (("urdf", "<?xml"), ("toml", "# identified by"), ("c", "/*"), ("csv", "name,kind"), ("json", "{")):
        out = tmp_path / f"out.{to}"
        assert f"written to {out}" in run("export", document, "--to", to, out).replace("\n", "")
        assert out.read_text().startswith(begin)
        assert ("torque without friction differs" in out.read_text()) == (to in ("urdf", "toml"))
    assert "torque without friction differs" in run(
        "export", document, "--to", "urdf", "--force", tmp_path / "out.urdf"
    )
    with pytest.raises(InputError, match="or allow a deviation of"):
        run("export", document, "--to", "urdf", "--allow-deviation", "1e-9", "--force", tmp_path / "out.urdf")
    with pytest.raises(InputError, match="there is such a file already"):
        run("export", document, "--to", "csv", tmp_path / "out.csv")
    run("export", document, "--to", "csv", "--force", tmp_path / "out.csv")
    for broken, message in (("[]", "not the document"), ("{", "not JSON"), ("{}", "not an identification")):
        document.write_text(broken)
        with pytest.raises(InputError, match=message):
            run("export", document, "--to", "csv", tmp_path / "new.csv")
    assert not (tmp_path / "new.csv").exists()


def test_recordings_are_converted_by_rows_and_columns(tmp_path, recording):
    write(recording, tmp_path / "run.csv", "csv")
    out = tmp_path / "run.npz"
    answer = run("convert", f"{tmp_path / 'run.csv'}:11-60", "--format", "csv", "--to", "npz", out)
    assert answer.startswith("50 samples of 6 joints (q, qd, torque)")
    assert np.array_equal(read(out, "npz").q, recording.q[10:60])
    columns = tmp_path / "map.toml"
    columns.write_text('t = "t"\nq = { columns = "q{1-2}", unit = "deg" }\n')
    run("convert", tmp_path / "run.csv", "--format", "csv", "--columns", columns, "--to", "npz", "--force", out)
    assert read(out, "npz").q == pytest.approx(np.radians(recording.q[:, :2]))


def test_identify_takes_a_column_map_and_signal_settings(tmp_path, recording):
    chain = catalogue("ur10e")
    current = recording.torque / chain.drive_gains
    order = [2, 0, 1, 5, 4, 3]
    columns = {"time": recording.t * 1e3}
    columns |= {f"pos_{j}": np.degrees(recording.q[:, j]) for j in range(6)}
    columns |= {f"amp_{j}": current[:, j] * 1e3 for j in range(6)}
    names = ["time", *(f"{kind}_{j}" for kind in ("pos", "amp") for j in order)]
    rows = np.column_stack([columns[name] for name in names])
    np.savetxt(tmp_path / "run.csv", rows, delimiter=";", header=";".join(names), comments="", fmt="%.9g")
    column_map = {
        "delimiter": ";",
        "joint_names": [chain.joint_names[j] for j in order],
        "t": {"column": "time", "unit": "ms"},
        "q": {"columns": [2, 3, 4, 5, 6, 7], "unit": "deg"},
        "current": {"columns": [8, 9, 10, 11, 12, 13], "unit": "mA"},
    }
    (tmp_path / "map.json").write_text(json.dumps({**column_map, "header": True}))
    words = ["identify", "--model", "ur10e", "--format", "csv", "--columns", tmp_path / "map.json"]
    words += ["--train", tmp_path / "run.csv", "--signals", "torque_cutoff=8", "marked=leave_out"]
    run(*words, "--json", tmp_path / "result.json")
    document = json.loads((tmp_path / "result.json").read_text())
    assert document["signals"]["torque_cutoff"] == 8.0
    (account,) = document["provenance"]["preparation"]
    assert account["velocity"] == "differentiated: the recording has none"
    assert account["marked"]["treatment"] == "leave_out"
    assert max(document["train"]["rms"]) < 0.5
    with pytest.raises(InputError, match="'torque_cutoff' is not NAME=VALUE"):
        run(*words[:-2], "torque_cutoff")
