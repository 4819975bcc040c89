"""``dynid identify``: what it prints, and that wrong input ends in one clear line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from core.estimators.identifiability import Conditioning
from core.models import SerialChain, catalogue
from core.recordings import Recording, write
from service.cli import app, main
from service.cli.options import read_result

RATE = 100.0


@pytest.fixture(scope="module")
def chain() -> SerialChain:
    return catalogue("three_joint")


@pytest.fixture(scope="module")
def record(chain: SerialChain) -> Callable[[int], Recording]:
    def record(seed: int) -> Recording:
        random = np.random.default_rng(seed)
        t = np.arange(int(12.0 * RATE)) / RATE
        rate = 2.0 * np.pi * random.uniform(0.1, 0.5, (3, 4))
        size, phase = random.uniform(0.05, 0.25, (2, 3, 4))
        angle = t[:, None, None] * rate + 20.0 * phase
        q = (size * np.sin(angle)).sum(axis=-1)
        qd, qdd = (size * rate * np.cos(angle)).sum(axis=-1), (-size * rate**2 * np.sin(angle)).sum(axis=-1)
        torque = chain.inverse_dynamics(q, qd, qdd) + 3.0 * np.tanh(20.0 * qd) + 2.0 * qd
        return Recording(f"run{seed}", t, q, qd, current=torque + random.normal(0.0, 0.2, q.shape))

    return record


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, record: Callable[[int], Recording]) -> Path:
    """A folder with two good files and many bad ones."""
    folder = tmp_path_factory.mktemp("runs")
    good = record(1)
    still = good.q * [1, 0, 1], good.qd * [1, 0, 1]
    kept = np.r_[0:20, 40:60, 90:110]
    variants = {
        "good": good,
        "other": record(2),
        "two_joints": replace(good, q=good.q[:, :2], qd=good.qd[:, :2], current=good.current[:, :2]),
        "other_names": replace(good, joint_names=("a", "b", "c")),
        "one_joint_still": replace(good, q=still[0], qd=still[1]),
        "no_current": replace(good, current=None),
        "zero_current": replace(good, current=0.0 * good.current),
        "milliamperes": replace(good, current=1e3 * good.current),
        "degrees_per_second": replace(good, qd=np.degrees(good.qd)),
        "milliseconds": replace(good, t=1e3 * good.t),
        "two_rows": good.rows(1, 2),
        "too_short": good.rows(1, 40),
        "gaps": replace(good, t=good.t[kept], q=good.q[kept], qd=good.qd[kept], current=good.current[kept]),
        "all_alike": replace(good, q=np.repeat(good.q[:, :1], 3, axis=1), qd=np.repeat(good.qd[:, :1], 3, axis=1)),
    }
    for name, recording in variants.items():
        write(recording, folder / f"{name}.csv", "csv")
    lines = (folder / "good.csv").read_text().splitlines()
    middle = lines[600].split(",")
    texts = {
        "empty": "",
        "header_only": lines[0],
        "reversed": "\n".join([lines[0], *reversed(lines[1:])]),
        "nan": "\n".join([*lines[:600], ",".join([*middle[:2], "nan", *middle[3:]]), *lines[601:]]),
        "fill_value": "\n".join([*lines[:600], ",".join([*middle[:2], "1e30", *middle[3:]]), *lines[601:]]),
        "repeated_row": "\n".join([*lines[:600], *lines[599:]]),
        "header_inside": "\n".join([*lines[:600], lines[0], *lines[600:]]),
        "underscore": "\n".join([*lines[:600], ",".join(["1_0", *middle[1:]]), *lines[601:]]),
        "torn": "\n".join(lines)[:-9],
        "no_time": "\n".join(line.partition(",")[2] for line in lines),
        "semicolons": "\n".join(lines).replace(",", ";"),
    }
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)
    (folder / "garbage.csv").write_bytes(np.random.default_rng(0).bytes(4000))
    return folder


def refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str | Path
) -> tuple[int | str | None, str]:
    """Run the command as from a shell; return the exit code and what it wrote to stderr."""
    monkeypatch.setattr(sys, "argv", ["dynid", "identify", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code, capsys.readouterr().err


def test_the_terminal_says_what_to_think_of_the_result(files, tmp_path):
    words = ["identify", "--model", "three_joint", "--rotor-inertia", "--format", "csv"]
    words += ["--train", files / "good.csv", "--validate", files / "other.csv", "--prefer-base", "Izz3", "mx2"]
    words += ["--essential", "--seed", "7", "--json", tmp_path / "result.json"]
    answer = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    said = " ".join(answer.output.split())
    document = json.loads((tmp_path / "result.json").read_text())
    assert f"verdict: {document['verdict']['grade']}, because on held-out motion" in said
    for advice in document["verdict"]["advice"]:
        assert advice in said
    figures = Conditioning(document["condition_number"], document["normalised_condition_number"], ())
    assert f"16 base parameters, {figures}" in said
    band = " ".join(f"{value:.3f}" for value in document["validate"]["confidence_band"])
    assert f"95 % confidence band of the expected torque on held-out motion: ± {band} N·m" in said
    assert "torque lags position by" in said
    assert f"essential parameters ({len(document['essential']['kept'])}): " in said
    assert {"fc1", "fv1"} <= set(document["essential"]["kept"])
    assert [row["name"] for row in document["base_parameters"][:2]] == ["Izz3", "mx2"]
    assert document["provenance"]["random_state"] == 7


def test_a_published_method_is_taken_by_its_name(files, tmp_path):
    words = ["identify", "--model", "three_joint", "--rotor-inertia", "--format", "csv"]
    words += ["--method", "coman_three_layer", "--train", files / "good.csv", "--validate", files / "other.csv"]
    words += ["--json", tmp_path / "result.json"]
    answer = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    document = json.loads((tmp_path / "result.json").read_text())
    method = document["method"]
    assert (method["name"], document["estimator"]["name"]) == ("coman_three_layer", "coman_three_layer")
    assert document["friction"][0].startswith("two_regime_cubic(threshold=")
    assert method["remark"] in " ".join(answer.output.split())
    read_result(tmp_path / "result.json")


def test_rows_that_a_repair_drops_are_said(files):
    words = ["identify", "--model", "three_joint", "--format", "csv", "--repair", "--train", files / "nan.csv"]
    answer = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    said = " ".join(answer.output.split())
    assert (
        "note: training data, 1199 samples: 1 torn, misordered or not finite, dropped by the repair; 1 missing" in said
    )


WRONG_FILES = {
    "two_joints": "it is of 2 joints, three_joint_representative has 3",
    "other_names": "it has no joint waist, shoulder, elbow",
    "one_joint_still": "shoulder never move faster than",
    "no_current": "there is no current in it",
    "zero_current": "the current of waist, shoulder, elbow is always zero",
    "milliamperes": "looks like mA, not A",
    "degrees_per_second": "velocity looks like deg/s beside positions in rad",
    "milliseconds": "looks like ms",
    "two_rows": "no uninterrupted part is as long as",
    "too_short": "no uninterrupted part is as long as",
    "gaps": "no uninterrupted part is as long as",
    "empty": "the file is empty",
    "header_only": "there is nothing below the header",
    "reversed": "time does not increase at row 2",
    "nan": "row 600, column q2: nan is not finite",
    "fill_value": "row 600, column q2: 1e+30 is beyond anything a sensor measures",
    "repeated_row": "time does not increase at row 600",
    "header_inside": "it is a header between the rows",
    "underscore": "'1_0' is not a number",
    "torn": "the last one, is torn",
    "no_time": "there is no column for t",
    "semicolons": "set delimiter in the column map",
    "garbage": "this is binary, not CSV text",
    "missing": "there is no such file",
}
HELD_OUT = ("two_joints", "no_current", "milliamperes", "degrees_per_second", "milliseconds", "too_short")


@pytest.mark.parametrize(
    ("use", "name"), [*(("train", name) for name in WRONG_FILES), *(("validate", name) for name in HELD_OUT)]
)
def test_wrong_files_end_in_one_clear_line(files, monkeypatch, capsys, use, name):
    words = ["--model", "three_joint", "--format", "csv", f"--{use}", files / f"{name}.csv"]
    words += ["--train", files / "other.csv"] if use == "validate" else []
    code, said = refused(monkeypatch, capsys, *words)
    assert code == 1
    assert said.startswith("dynid: ")
    assert said.count("\n") == 1
    assert WRONG_FILES[name] in said


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["--train", "good.csv", "--validate", "good.csv"], 1, "holds samples that"),
        (["--train", "good.csv", "good.csv"], 1, "train on each sample once"),
        (["--train", "good.csv:9-2"], 1, "rows are given as FILE:first-last"),
        (["--train", "."], 1, "cannot be read"),
        (["--train", "good.csv", "--friction", "magic"], 1, "unknown law 'magic'"),
        (["--train", "good.csv", "--gains", "1_0", "1", "1"], 1, "'1_0' is not a number"),
        (["--train", "good.csv", "--stop-margin", "nan"], 1, "neither 'auto' nor a number of seconds"),
        (["--train", "good.csv", "--prefer-base", "Izz9"], 1, "there is no parameter 'Izz9'"),
        (["--train", "good.csv", "--method", "magic"], 1, "unknown method 'magic'; there are coman_three_layer"),
        (
            ["--train", "good.csv", "--method", "abc_arctan", "--friction", "arctan", "--estimator", "ols"],
            1,
            "--method settles --friction, --estimator itself",
        ),
        (["--train", "missing.csv", "--json", "nowhere/result.json"], 1, "--json: there is no folder"),
        (["--train", "missing.csv", "--json", "."], 1, "is a folder; give the name of a file"),
        (["--train", "--rotor-inertia"], 2, "it needs a value, but --rotor-inertia follows it"),
        (["--train", "good.csv", "--json", "--essential"], 2, "it needs a value, but --essential follows it"),
        (["--train", "good.csv", "--seed", "-1"], 2, "--seed"),
        (["--train"], 2, "--train"),
        ([], 2, "--train"),
    ],
)
def test_a_wrong_command_line_is_explained(files, monkeypatch, capsys, words, code, problem):
    monkeypatch.chdir(files)
    found, said = refused(monkeypatch, capsys, "--model", "three_joint", "--format", "csv", *words)
    assert found == code
    assert problem in " ".join(said.replace("│", " ").split())


def test_a_result_file_that_may_not_be_written_is_refused_before_anything_is_read(files, monkeypatch, capsys, tmp_path):
    target = tmp_path / "result.json"
    target.touch()
    monkeypatch.setattr("service.cli.outputs.os.access", lambda path, mode: mode != os.W_OK or path != target)
    code, said = refused(monkeypatch, capsys, "--model", "three_joint", "--train", "missing.csv", "--json", target)
    assert code == 1
    assert f"--json: {target} may not be written" in said
