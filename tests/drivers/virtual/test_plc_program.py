"""What the PLC does by itself: takes tables only whole, starts only where it should, stops when nobody watches."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from drivers.twincat_layout import (
    ANSWER,
    COMMAND,
    FEEDFORWARD_ROW,
    TABLE,
    TABLE_STATE,
    TRAJECTORY_ROW,
    Command,
    End,
    Error,
    Mode,
    Result,
    Status,
    TableState,
)
from drivers.virtual.twincat.path import FADE, STOP_RAMP
from drivers.virtual.twincat.program import CYCLE, START_TOLERANCE, WATCHDOG, Identity, PlcProgram
from drivers.virtual.upru_parameters import perturbed_upru, upru_model
from drivers.virtual.upru_plant import UpruPlant

PARAMETERS = perturbed_upru(upru_model(), 1)
DURATION = 0.6
PERIOD = 0.004
SWAY = np.array([1.0, -1.0, 0.5, 0.5, -0.5, 0.2])  # of the legs, m per m


class Bench:
    """A program, and the hand that writes its variables."""

    def __init__(self) -> None:
        self.program = PlcProgram(UpruPlant(PARAMETERS), Identity("test", "1"), "GVL")
        self.beating = True
        self._sequence = 0

    def view(self, name: str) -> NDArray[Any]:
        return self.program.symbols[f"GVL.{name}"]

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / CYCLE)):
            if self.beating:
                self.view("nHostBeat")[...] += 1
            self.program.run_cycle(running=True)

    def run_until(self, condition: Callable[[], bool], seconds: float = 5.0) -> float:
        for cycle in range(round(seconds / CYCLE)):
            if condition():
                return cycle * CYCLE
            self.run(CYCLE)
        pytest.fail(f"not within {seconds} s of the PLC's time")

    def command(self, command: int, *, version: int = 0, speed: float = 0.0, acceleration: float = 0.0) -> Result:
        self._sequence += 1
        self.view("stCommand")[...] = np.array((self._sequence, command, version, speed, acceleration), COMMAND.dtype)
        self.run(CYCLE)
        answer = np.array(self.view("stAnswer"), ANSWER.dtype)
        assert answer["nSequence"] == self._sequence
        return Result(int(answer["eResult"]))

    def load(self, name: str, rows: NDArray[Any], version: int, *, period: float = PERIOD, **header: int) -> TableState:
        crc = zlib.crc32(rows.tobytes())
        self.view(f"a{name}")[: rows.size] = rows
        values = {"nVersion": version, "nRows": rows.size, "nCrc": crc, "nTrajectoryCrc": 0} | header
        self.view(f"st{name}")[...] = np.array(
            (values["nVersion"], values["nRows"], period, values["nCrc"], values["nTrajectoryCrc"]), TABLE.dtype
        )
        state = self.view(f"st{name}State")
        self.run(CYCLE)
        self.run_until(lambda: state["eState"] != TableState.CHECKING)
        found = np.array(state, TABLE_STATE.dtype)
        assert found["nVersion"] == version
        return TableState(int(found["eState"]))

    @property
    def newest(self) -> NDArray[Any]:
        return self.view("aRing")[(int(self.view("nHead")) - 1) % 4096]


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.run(0.01)
    return made


def rows(bench: Bench, amplitude: float = 0.02, start: float = 0.0) -> NDArray[Any]:
    """Legs sway from where they stand, and back."""
    t = np.arange(0.0, DURATION + 1e-9, PERIOD)
    w = 2.0 * np.pi / DURATION
    table = np.empty(t.size, TRAJECTORY_ROW.dtype)
    home = bench.program.machine.measured[0]
    table["aLength"] = home + start + 0.5 * amplitude * np.outer(1.0 - np.cos(w * t), SWAY)
    table["aSpeed"] = 0.5 * amplitude * w * np.outer(np.sin(w * t), SWAY)
    return table


def test_it_holds_its_pose_and_counts_samples(bench: Bench) -> None:
    bench.run(0.1)
    sample = bench.newest
    assert sample["nSeq"] == int(bench.view("nHead")) - 1
    assert np.abs(sample["aLength"] - sample["aTargetLength"]).max() < 1e-4
    assert not sample["nStatus"] & (Status.MOVING | Status.PLAYING | Status.STOPPED_BY_PLC)
    before = bench.newest["tDC"].copy()
    bench.run(0.01)
    assert bench.newest["tDC"] - before == 10_000_000


def test_a_trajectory_is_approached_and_played(bench: Bench) -> None:
    table = rows(bench, start=0.01)
    assert bench.load("Trajectory", table, 5) is TableState.VALID
    assert bench.command(Command.START, version=5) is Result.NOT_AT_START
    assert bench.command(Command.APPROACH, version=5, speed=0.1, acceleration=0.5) is Result.DONE
    bench.run_until(lambda: bench.program.mode is Mode.HOLDING)
    assert np.abs(bench.newest["aTargetLength"] - table["aLength"][0]).max() < 1e-12
    bench.run(0.2)
    assert bench.command(Command.START, version=5) is Result.DONE
    targets, path_times = [], []

    def over() -> bool:
        targets.append(bench.newest["aTargetLength"].copy())
        path_times.append(float(bench.newest["fPathTime"]))
        return bench.program.mode is Mode.HOLDING

    taken = bench.run_until(over)
    assert taken == pytest.approx(DURATION, abs=2 * CYCLE)
    assert bench.program.end is End.COMPLETED
    shape = np.array(targets)
    assert np.abs(shape[:: round(PERIOD / CYCLE)][: len(table) - 1] - table["aLength"][: len(table) - 1]).max() < 1e-3
    assert max(path_times) == pytest.approx(DURATION, abs=2 * CYCLE)
    assert np.abs(np.diff(shape, n=2, axis=0)).max() / CYCLE**2 < 3.0  # m/s²: no jump


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"nCrc": 1}, TableState.BAD_CRC),
        ({"nRows": 0}, TableState.BAD_SIZE),
        ({"nRows": 10**6}, TableState.BAD_SIZE),
    ],
)
def test_a_table_that_is_not_whole_is_not_played(bench: Bench, change: dict[str, int], finding: TableState) -> None:
    assert bench.load("Trajectory", rows(bench), 5, **change) is finding
    assert bench.command(Command.START, version=5) is Result.NO_TRAJECTORY


def test_a_trajectory_beyond_the_stroke_is_not_played(bench: Bench) -> None:
    assert bench.load("Trajectory", rows(bench, amplitude=0.8), 5) is TableState.OUT_OF_STROKE
    assert bench.load("Trajectory", rows(bench), 6, period=float("nan")) is TableState.BAD_SIZE


def test_what_is_written_after_the_check_is_not_played(bench: Bench) -> None:
    bench.load("Trajectory", rows(bench), 5)
    bench.view("aTrajectory")[1:]["aLength"] += 0.5
    assert bench.command(Command.START, version=5) is Result.DONE
    bench.run_until(lambda: bench.program.mode is Mode.HOLDING)
    assert bench.program.end is End.COMPLETED


def test_motions_are_refused_without_their_conditions(bench: Bench) -> None:
    bench.load("Trajectory", rows(bench), 5)
    assert bench.command(Command.START, version=4) is Result.NO_TRAJECTORY
    assert bench.command(99) is Result.UNKNOWN_COMMAND
    for speed, acceleration in ((0.0, 1.0), (np.nan, 1.0), (5.0, 1.0), (0.1, 100.0)):
        answer = bench.command(Command.APPROACH, version=5, speed=speed, acceleration=acceleration)
        assert answer is Result.BAD_ARGUMENT
    bench.beating = False
    bench.run(WATCHDOG + 0.01)
    assert bench.command(Command.START, version=5) is Result.NO_HEARTBEAT
    assert bench.program.error is Error.NONE  # nobody has to beat while nothing moves


def started(bench: Bench) -> NDArray[Any]:
    table = rows(bench)
    bench.load("Trajectory", table, 5)
    assert bench.command(Command.START, version=5) is Result.DONE
    bench.run(DURATION / 3)
    assert bench.newest["nStatus"] & Status.MOVING
    return table


def test_a_heart_that_stops_ends_the_motion_on_its_path(bench: Bench) -> None:
    table = started(bench)
    bench.beating = False
    taken = bench.run_until(lambda: bench.program.mode is Mode.FAULTED)
    assert taken < WATCHDOG + STOP_RAMP + 0.01
    assert (bench.program.error, bench.program.end) == (Error.HEARTBEAT_LOST, End.FAULTED)
    way = bench.newest["aTargetLength"] - table["aLength"][0]
    assert np.abs(way - way[0] * SWAY).max() < 1e-9  # it has not left its path
    bench.beating = True
    bench.run(0.01)
    assert bench.command(Command.START, version=5) is Result.NOT_HOLDING  # latched
    assert bench.command(Command.RESET) is Result.DONE
    assert bench.program.mode is Mode.HOLDING


@pytest.mark.parametrize(("command", "longest"), [(Command.STOP, STOP_RAMP + 0.01), (Command.HALT, 0.1)])
def test_a_stop_ends_the_motion_in_time_and_without_a_jump(bench: Bench, command: Command, longest: float) -> None:
    started(bench)
    assert bench.command(command) is Result.DONE
    speeds = [bench.newest["aTargetSpeed"].copy()]

    def over() -> bool:
        speeds.append(bench.newest["aTargetSpeed"].copy())
        return bench.program.mode is Mode.HOLDING

    assert bench.run_until(over) < longest
    assert bench.program.end is End.STOPPED
    assert np.abs(np.diff(speeds, axis=0)).max() / CYCLE < 6.1  # m/s²


def test_a_drive_fault_and_the_emergency_stop_end_the_motion(bench: Bench) -> None:
    started(bench)
    bench.program.fail_drive(2, 0x8611)
    bench.run_until(lambda: bench.program.mode is Mode.FAULTED, 0.2)
    assert bench.view("stState")["aDriveError"].tolist() == [0, 0, 0x8611, 0, 0, 0]
    assert bench.command(Command.RESET) is Result.DONE
    bench.program.press_emergency_stop(True)
    bench.run(0.01)
    assert bench.program.mode is Mode.OFF
    assert bench.newest["nStatus"] & Status.EMERGENCY_STOP
    assert bench.command(Command.RESET) is Result.FAULT_PERSISTS
    bench.program.press_emergency_stop(False)
    bench.run(0.01)
    assert bench.view("stState")["aDriveState"].tolist() == [0x1650] * 6  # to release the button powers nothing
    assert bench.command(Command.RESET) is Result.DONE
    assert bench.program.mode is Mode.HOLDING
    bench.run(CYCLE)
    assert bench.view("stState")["aDriveState"].tolist() == [0x1637] * 6


def test_a_fault_while_the_path_slows_down_leaves_the_path(bench: Bench) -> None:
    started(bench)
    bench.beating = False
    bench.run_until(lambda: bench.program.error is Error.HEARTBEAT_LOST)
    assert bench.newest["fPathTime"] > 0.0
    bench.program.fail_drive(2, 0x8611)
    bench.run(CYCLE)
    assert bench.newest["fPathTime"] == 0.0
    bench.run_until(lambda: bench.program.mode is Mode.FAULTED, 0.2)
    assert (bench.program.end, bench.program.error) == (End.FAULTED, Error.HEARTBEAT_LOST)  # the first reason stays


def test_feedforward_is_added_only_to_its_trajectory_and_without_a_step(bench: Bench) -> None:
    table = rows(bench)
    currents = np.empty(table.size, FEEDFORWARD_ROW.dtype)
    currents["aCurrent"] = [0.5, 0.4, 0.3, 0.2, 0.1, 0.05]
    crc = zlib.crc32(table.tobytes())
    bench.load("Trajectory", table, 5)
    assert bench.load("Feedforward", currents, 1, nTrajectoryCrc=crc) is TableState.VALID
    assert bench.command(Command.START, version=5) is Result.DONE
    fed = []

    def over() -> bool:
        fed.append(bench.newest["aTargetCurrent"].copy())
        return bench.program.mode is Mode.HOLDING

    assert bench.run_until(over) == pytest.approx(FADE + DURATION, abs=3 * CYCLE)
    for _ in range(round(1.2 * FADE / CYCLE)):
        bench.run(CYCLE)
        fed.append(bench.newest["aTargetCurrent"].copy())
    feed = np.array(fed)
    assert feed[round((FADE + 0.5 * DURATION) / CYCLE)] == pytest.approx(currents["aCurrent"][0])
    assert np.abs(np.diff(feed, axis=0)).max() < 1.5 * CYCLE / FADE
    assert (feed[-1] == 0.0).all()
    bench.load("Feedforward", currents, 2, nTrajectoryCrc=crc + 1)  # of another one
    bench.run(0.5)
    assert bench.command(Command.START, version=5) is Result.DONE
    bench.run(FADE)
    assert (bench.newest["aTargetCurrent"] == 0.0).all()
    assert not bench.newest["nStatus"] & Status.FEEDFORWARD


def test_a_motion_outlives_an_online_change_but_not_a_download(bench: Bench) -> None:
    started(bench)
    head = int(bench.view("nHead"))
    bench.program.online_change()
    bench.run(0.05)
    assert int(bench.view("nHead")) == head + 50
    assert bench.program.mode is Mode.PLAYING
    bench.program.download()
    bench.run(0.01)
    assert bench.program.mode is Mode.HOLDING
    assert int(bench.view("nHead")) == 10


def test_the_start_tolerance_is_told() -> None:
    info = Bench().view("stInfo")
    assert (info["fStartTolerance"], info["fWatchdog"]) == (START_TOLERANCE, WATCHDOG)
