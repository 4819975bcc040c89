"""``dynid excite``: what it writes, and how it refuses."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from core.errors import InputError
from core.excitation import check_motion, trajectory_from_definition
from core.excitation.feasibility import InfeasibleError
from core.excitation.limits import limits_from_document, read_limits
from core.models import catalogue
from service.cli import app
from service.cli.excite import _processes
from service.cli.outputs import write_output

LIMITS = """
position_lower_deg = [-180, -180, -100, -180, -90, -90]
position_upper_deg = [180, 0, 100, 0, 90, 90]
start_deg = [0, -90, 0, -90, 0, 0]
velocity = [2.09, 2.09, 3.14, 3.14, 3.14, 3.14]
acceleration = [2, 1, 1, 1, 1, 2.5]
floor = 0.05
self_collision = 0.02
"""
QUICK = ("--model", "ur10e", "--harmonics", 2, "--period", 8, "--time-budget", 0.5)


@pytest.fixture
def limits(tmp_path: Path) -> Path:
    file = tmp_path / "limits.toml"
    file.write_text(LIMITS)
    return file


def run(*words: object) -> str:
    answer = CliRunner().invoke(app, ["excite", *(str(word) for word in words)], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_writes_result_samples_and_pictures(limits: Path, tmp_path: Path) -> None:
    result, table, pictures = tmp_path / "out.json", tmp_path / "out.csv", tmp_path / "plots"
    output = run(
        *QUICK, "--limits", limits, "--rotor-inertia", "--friction", "coulomb_viscous", "--seed", 3,
        "--json", result, "--samples", table, "--plot", pictures,
    )  # fmt: skip
    document = json.loads(result.read_text())
    assert f"{document['condition_number']:.2f}" in output
    assert (document["seed"], document["criterion"], len(document["columns"])) == (3, "cond", 58)
    assert document["condition_number_normalised"] < document["condition_number"]
    assert document["seconds"] > 0.0
    assert set(document["limit_use"]) == {"position", "speed", "acceleration", "jerk", "predicted torque"}
    assert all(clearance["least"] >= 0.0 for clearance in document["clearances"])

    trajectory = trajectory_from_definition(document["trajectory"])
    bounds = read_limits(limits, catalogue("ur10e"))
    robot = catalogue("ur10e").with_limits(velocity=bounds.joints.velocity, acceleration=bounds.joints.acceleration)
    samples = trajectory.sample(0.001)
    check_motion(samples, robot, bounds.workspace)

    header, *_ = table.read_text().splitlines()
    assert header.split(",")[:8] == ["t", "q1", "q2", "q3", "q4", "q5", "q6", "qd1"]
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    expected = np.column_stack([samples.t, samples.q, samples.qd, samples.qdd])
    np.testing.assert_allclose(rows, expected, rtol=1e-9, atol=1e-9)
    assert {file.name for file in pictures.iterdir()} == {"joints.png", "path.png", "criterion.png"}


def test_base_columns_only_and_a_warm_start(limits: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    run(*QUICK, "--limits", limits, "--json", first)
    run(*QUICK, "--limits", limits, "--json", second, "--warm-start", first)
    before, after = (json.loads(file.read_text()) for file in (first, second))
    assert len(before["columns"]) == 36
    assert after["value"] <= before["value"] + 1e-6


def test_interrupt_ends_with_the_best_so_far(limits: Path, tmp_path: Path) -> None:
    result = tmp_path / "out.json"
    before = signal.getsignal(signal.SIGINT)

    def interrupt() -> None:
        while signal.getsignal(signal.SIGINT) is before:  # until the command listens
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    output = run(
        "--model", "ur10e", "--harmonics", 2, "--period", 8, "--time-budget", 600, "--limits", limits, "--json", result
    )  # fmt: skip
    assert json.loads(result.read_text())["seconds"] < 300.0
    assert "of 600 s; this is the best that was found" in output


def test_friction_is_named_for_all_joints_or_for_each(limits: Path, tmp_path: Path) -> None:
    result = tmp_path / "out.json"
    each = ("arctan", "arctan", "stribeck", "coulomb_viscous", "power_viscous(alpha=0.5)", "two_regime_cubic")
    run("--model", "ur10e", "--harmonics", 2, "--period", 8, "--time-budget", 0.2, "--friction", *each,
        "--limits", limits, "--json", result)  # fmt: skip
    document = json.loads(result.read_text())
    assert len(document["columns"]) == 36 + 4 + 4 + 4 + 3 + 3 + 8
    assert document["settings"]["friction"] == list(each)
    for words, message in (
        (("arctan", "arctan"), "for 2 joints, the robot has 6"),
        (("arctan+load",), "columns of load depend on more than velocity"),
        (("stick",), "unknown law 'stick'"),
    ):
        with pytest.raises(InputError, match=message):
            run(*QUICK, "--limits", limits, "--friction", *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--period", "nan"), "duration must be positive"),
        (("--time-budget", "-1"), "time budget must be positive"),
        (("--family", "sine"), "unknown trajectory family 'sine'"),
        (("--family", "fourier", "--harmonics", 1), "at least 2 harmonics"),
        (("--criterion", "best"), "unknown criterion 'best'"),
        (("--optimizer", "luck"), "unknown optimizer 'luck'"),
        (("--family", "fourier_segments", "--optimizer", "slsqp"), "no other optimizer"),
        (("--warm-start", "list.json"), "holds no trajectory"),
        (("--warm-start", "text.json"), "is not JSON"),
        (("--warm-start", "deep.json"), "is not JSON: maximum recursion"),
        (("--json", "out", "--samples", "./out"), "one would replace the other"),
        (("--warm-start", "number.json"), "definition is a mapping"),
        (("--warm-start", "one_joint.json"), "moves 1 joints, 6 are wanted"),
        (("--json", "folder"), "folder is a folder; give the name of a file"),
        (("--samples", "folder"), "folder is a folder; give the name of a file"),
        (("--plot", "list.json"), "list.json is a file, not a folder"),
    ],
)
def test_bad_options_are_refused_with_the_reason(
    words: tuple[object, ...], message: str, limits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    one_joint = {"trajectory": {"family": "bspline", "duration": 2.0, "control": [[0, 0, 0, 0]]}}
    for name, text in (
        ("list.json", "[1]"),
        ("text.json", "x"),
        ("deep.json", "[" * 100_000),
        ("number.json", '{"trajectory": 3}'),
        ("one_joint.json", json.dumps(one_joint)),
    ):
        Path(name).write_text(text)
    with pytest.raises(InputError, match=message):
        run(*QUICK, "--limits", limits, *words)


def test_says_what_binds(limits: Path) -> None:
    limits.write_text(LIMITS.replace("floor = 0.05", "floor = 0.5"))
    with pytest.raises(InfeasibleError, match="shoulder_pan_joint above the floor"):
        run(*QUICK, "--limits", limits)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start = [0, 0", "not a TOML file"),
        ("velocity = [1, 1, 1, 1, 1, 1]", "start is missing"),
        ("start = [0, 0]", "start: expected 6 numbers"),
        ("start = [0, 0, 0, 0, 0, 'x']", "start: expected 6 numbers"),
        ("start = [0, 0, 0, 0, 0, 0]\nspeed = [1, 1, 1, 1, 1, 1]", "unknown keys ['speed']"),
        ("start = [0, 0, 0, 0, 0, 0]\nstart_deg = [0, 0, 0, 0, 0, 0]", "in rad and in degrees"),
        ("start = [0, 0, 0, 0, 0, 0]\njerk = [1, 1, 1, 1, 1, 0]", "positive limit"),
        ("start = [0, 0, 0, 0, 0, 0]\nfloor = 'low'", "floor: expected a number, got"),
        ("start = [0, 0, 0, 0, 0, 0]\nbox = [[0, 0, 0]]", "box: expected 2 x 3 numbers"),
        ("start = [0, 0, 0, 0, 0, 0]\nradii = [0.1]", "radii: expected 7 numbers"),
        ("start = ['0', '0', '0', '0', '0', '0']", "start: expected 6 numbers"),
        ("start = [0, 0, true, 0, 0, 0]", "start: expected 6 numbers"),
        ("start = [0, 0, 0, 0, 0, inf]", "start: expected 6 finite numbers"),
        ("start = [0, 0, 0, 0, 0, 0]\nvelocity = [nan, 1, 1, 1, 1, 1]", "velocity: expected 6 numbers"),
        (
            "start = [0, -90, 0, -90, 0, 0]",
            "-90 rad of joint 2 (shoulder_lift_joint) is more than four turns; if these are degrees, write start_deg",
        ),
        (f"start = [0, 0, 0, 0, 0, 0]\nvelocity = [1, 1, 1, 1, 1, {10**400}]", "a number of 401 digits"),
        (f"start = [0, 0, 0, 0, 0, 0]\nfloor = {10**400}", "floor: a number of 401 digits"),
        ("start = [0, 0, 0, 0, 0, 0]\nvelocity = 3.0", "velocity: expected 6 numbers, got 3.0"),
        ("start = [0, 0, 0, 0, 0, 0]\nfloor = true", "floor: expected a number, got"),
        ("start = [0, 0, 0, 0, 0, 0]\nself_collision = -0.1", "self_collision must not be negative"),
        ("start = [0, 0, 0, 0, 0, 0]\nbox = [[0, 0, 0], [1, -1, 1]]", "the least and the largest x, y, z"),
        (
            "start = [0, 0, 0, 0, 0, 0]\nposition_lower = [1, -1, -1, -1, -1, -1]\nposition_upper = [0, 1, 1, 1, 1, 1]",
            "lower position 1 of joint 1 is above the upper one, 0",
        ),
        (
            "start = [0, 0, 0, 0, 0, 0]\nposition_lower = [0, -1, -1, -1, -1, -1]\nposition_upper = [0, 1, 1, 1, 1, 1]",
            "joint 1 may not move",
        ),
    ],
)
def test_bad_limits_files_are_refused_with_the_reason(text: str, message: str, limits: Path) -> None:
    limits.write_text(text)
    with pytest.raises(InputError) as refused:
        run(*QUICK, "--limits", limits)
    assert message in refused.value.detail
    assert str(limits) in refused.value.detail


def test_missing_files_are_refused(tmp_path: Path, limits: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        run(*QUICK, "--limits", tmp_path / "none.toml")
    with pytest.raises(InputError, match="--warm-start: cannot read"):
        run(*QUICK, "--limits", limits, "--warm-start", tmp_path / "none.json")


def test_degrees_and_radians_mean_the_same() -> None:
    degrees = limits_from_document(tomllib.loads(LIMITS), catalogue("ur10e"))
    document = tomllib.loads(LIMITS)
    for key in ("position_lower", "position_upper", "start"):
        document[key] = np.deg2rad(document.pop(f"{key}_deg")).tolist()
    radians = limits_from_document(document, catalogue("ur10e"))
    np.testing.assert_array_equal(degrees.start, radians.start)
    np.testing.assert_array_equal(degrees.joints.position_lower, radians.joints.position_lower)
    assert np.all(np.isinf(radians.joints.jerk))


def test_what_could_not_be_written_is_refused_before_the_search(limits: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        run(*QUICK, "--limits", limits, "--json", tmp_path / "none" / "out.json")
    with pytest.raises(InputError, match="does not divide"):
        run("--model", "ur10e", "--period", 7.00007, "--limits", limits, "--samples", tmp_path / "out.csv")


def test_the_same_seed_and_number_of_candidates_give_the_same_trajectory(limits: Path, tmp_path: Path) -> None:
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file in files:
        run("--model", "ur10e", "--harmonics", 2, "--period", 8, "--max-candidates", 1, "--time-budget", 600,
            "--limits", limits, "--json", file)  # fmt: skip
    one, two = (json.loads(file.read_text()) for file in files)
    assert one["trajectory"] == two["trajectory"]


def test_one_output_that_fails_costs_no_other(limits: Path, tmp_path: Path) -> None:
    table = tmp_path / "out.csv"
    with pytest.raises(InputError, match="--json: cannot write /dev/full: No space left") as refused:
        run(*QUICK, "--limits", limits, "--json", "/dev/full", "--samples", table)
    assert refused.value.code == "output-unwritable"
    assert len(table.read_text().splitlines()) == 8002
    assert Path("/dev/full").is_char_device()


def test_a_result_is_replaced_whole_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "out.json"
    write_output("--json", file, "first")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InputError, match="No space left"):
        write_output("--json", file, "second")
    assert file.read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_duration_that_1_ms_does_not_divide_costs_no_result(tmp_path: Path) -> None:
    file, result = tmp_path / "limits.toml", tmp_path / "out.json"
    file.write_text("start = [0, 0, 0]")
    output = run("--model", "three_joint", "--period", 3.0005, "--time-budget", 0.2, "--limits", file, "--json", result)
    assert json.loads(result.read_text())["settings"]["period"] == 3.0005
    assert "no joint is limited" in output


def test_workers_that_are_still_starting_leave_an_interrupt_to_the_command() -> None:
    """A terminal sends Ctrl-C to the whole group of processes."""
    with _processes(2) as executor:
        starting = multiprocessing.active_children()
        assert len(starting) == 2
        for process in starting:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGINT)
        assert executor.submit(abs, -1).result() == 1
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


KILLED = """
import os, signal
from service.cli.excite import _processes

if __name__ == "__main__":
    with _processes(1) as executor:
        print(executor.submit(os.getpid).result(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_with_a_command_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "killed.py"
    file.write_text(KILLED)
    # the worker holds the output too: communicate() returns when all of them have ended
    command = subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, text=True)
    output, _ = command.communicate(timeout=60.0)
    assert command.returncode == -signal.SIGKILL
    assert int(output) != command.pid


def test_a_motion_that_a_service_would_refuse_is_named(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text("start_deg = [0, -90, 0, -90, 0, 0]\nvelocity = [9, 9, 9, 9, 9, 9]\n")
    output = run(*QUICK, "--limits", file)
    assert "a service with this model would refuse to play it" in output


def test_a_result_is_written_though_nobody_reads_what_is_printed(limits: Path, tmp_path: Path) -> None:
    result = tmp_path / "out.json"
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "service.cli", "excite", *QUICK, "--limits", limits, "--json", result]
    try:
        subprocess.run([*map(str, words)], stdout=writing, stderr=subprocess.DEVNULL, timeout=90, check=False)
    finally:
        os.close(writing)
    assert json.loads(result.read_text(encoding="utf-8"))["trajectory"]
