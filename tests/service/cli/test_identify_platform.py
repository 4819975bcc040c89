"""``dynid identify``, ``export`` and ``payload`` on recordings of a 6-UPRU robot: leg lengths and sensor forces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from core.models import SixUPRU, catalogue, load
from core.pipelines.identification import Identification
from core.recordings import Recording, write
from service.cli import main

MASS, COM = 15.0, [0.05, -0.04, 0.1]


def recorded(robot: SixUPRU, name: str, seed: int) -> Recording:
    """Ten seconds of a platform that moves in all coordinates, noise of 1 N."""
    random = np.random.default_rng(seed)
    t = np.arange(1000) * 0.01
    rate = 2.0 * np.pi * random.uniform(0.2, 0.5, 6)
    amplitude = np.array([0.06, 0.06, 0.05, 0.09, 0.08, 0.09])
    phase = t[:, None] * rate + random.uniform(0.0, 6.0, 6)
    states = (
        robot.home + amplitude * np.sin(phase),
        amplitude * rate * np.cos(phase),
        -amplitude * rate**2 * np.sin(phase),
    )
    lengths, rates, _ = robot.joint_motion(*states)
    force = robot.inverse_dynamics(*states) + np.random.default_rng(seed + 10).normal(0.0, 1.0, (1000, 6))
    return Recording(name, t, lengths, rates, torque=force, joint_names=robot.joint_names)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("platform")
    robot = catalogue("upru6")
    assert isinstance(robot, SixUPRU)
    write(recorded(robot, "train", 1), folder / "train.csv", "csv")
    write(recorded(robot, "other", 2), folder / "other.csv", "csv")
    write(recorded(robot.with_payload(MASS, COM), "loaded", 1), folder / "loaded.csv", "csv")
    return folder


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str]:
    monkeypatch.setattr("sys.argv", ["dynid", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    told = capsys.readouterr()
    return int(stop.value.code or 0), " ".join((told.out + told.err).split())


@pytest.fixture
def dynid(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: run(capsys, monkeypatch, *map(str, words))


def identified(dynid: Callable[..., tuple[int, str]], folder: Path, file: str, *more: object) -> Path:
    result = folder / f"{file}.json"
    code, text = dynid(
        *("identify", "--model", "upru6", "--format", "csv", "--train", folder / f"{file}.csv"),
        *("--friction", "none", "--without", "Ia1", "Ia2+Ia3+Ia4", "--json", result, *more),
    )
    assert code == 0, text
    return result


def test_forces_are_identified_in_newtons(folder: Path, dynid: Callable[..., tuple[int, str]]) -> None:
    code, text = dynid(
        *("identify", "--model", "upru6", "--format", "csv", "--train", folder / "train.csv"),
        *("--validate", folder / "other.csv", "--friction", "offset"),
    )
    assert code == 0, text
    for told in ("17 base parameters", "[N]", "1 leg1", "6 leg6", "friction: offset", "verdict: good"):
        assert told in text
    assert "not identifiable from these data" in text
    assert "--without Ia1 Ia2+Ia3+Ia4" in text


def test_results_are_exported_or_refused_clearly(
    folder: Path, dynid: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    result = identified(dynid, folder, "train")
    code, text = dynid("export", result, tmp_path / "robot.csv", "--to", "csv")
    assert code == 0, text
    assert "m4*lc4" in (tmp_path / "robot.csv").read_text(encoding="utf-8")
    code, text = dynid("export", result, tmp_path / "robot.toml", "--to", "toml")
    assert code == 0, text
    found = Identification.from_document(json.loads(result.read_text(encoding="utf-8")))
    written = load(tmp_path / "robot.toml")
    assert isinstance(written, SixUPRU)
    states = np.array([written.home]), np.full((1, 6), 0.1), np.full((1, 6), 0.5)
    force = written.inverse_dynamics(*states)
    lengths, rates, accelerations = written.joint_motion(*states)
    np.testing.assert_allclose(force, found.predict(lengths, rates, accelerations), rtol=1e-6)
    for kind in ("urdf", "c"):
        code, text = dynid("export", result, tmp_path / f"robot.{kind}", "--to", kind)
        assert code != 0
        assert "is a parallel robot" in text
        assert not (tmp_path / f"robot.{kind}").exists()


def test_a_payload_is_told_from_two_results_and_from_runs(folder: Path, dynid: Callable[..., tuple[int, str]]) -> None:
    bare, loaded = (identified(dynid, folder, file) for file in ("train", "loaded"))
    found = folder / "payload.json"
    ways = (
        ("--arm", bare, "--after", loaded),
        ("--arm", bare, "--loaded", folder / "loaded.csv", "--format", "csv"),
    )
    for way in ways:
        code, text = dynid("payload", *way, "--json", found)
        assert code == 0, text
        assert "payload, in the platform frame" in text
        document = json.loads(found.read_text(encoding="utf-8"))
        assert document["mass"] == pytest.approx(MASS, abs=0.3)
        np.testing.assert_allclose(document["centre"], COM, atol=0.02)
    code, text = dynid("payload", "--after", loaded)
    assert code != 0
    assert "give either --unloaded recordings" in text
    code, text = dynid("payload", "--arm", bare)
    assert code != 0
    assert "give either --loaded recordings" in text
