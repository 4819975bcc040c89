"""A service that serves Modbus, in a process of its own, and the unmodified client of pymodbus."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pymodbus.client import ModbusTcpClient

from drivers.virtual.process import VirtualUR10e
from service.modbus.register_map import RESULTS, Block
from service.storage import Database, feedforward, results, trajectories

UNIT, OTHER_UNIT = 1, 7
MAX_CONNECTIONS = 24
STOP_SECONDS = 20.0

Decoded = Mapping[str, int | float | tuple[int | float, ...]]


def decode(block: Block, registers: list[int]) -> Decoded:
    return {field.name: block.decode(registers, field.name) for field in block.fields}


@dataclass
class Served:
    """A running service and its database."""

    host: str
    port: int
    process: subprocess.Popen[str]
    database: Database

    def client(self) -> ModbusTcpClient:
        client = ModbusTcpClient(self.host, port=self.port, timeout=5.0, retries=0)
        assert client.connect()
        return client

    def results(self, unit: int = UNIT) -> Decoded:
        """The results block, as a client that is new reads it."""
        with self.client() as client:
            return decode(RESULTS, read_results(client, unit))


def read_results(client: ModbusTcpClient, unit: int = UNIT) -> list[int]:
    answer = client.read_input_registers(RESULTS.start, count=RESULTS.registers, device_id=unit)
    assert not answer.isError(), answer
    return answer.registers


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, virtual_ur10e: VirtualUR10e) -> Iterator[Served]:
    """One service with the virtual robot ``cell`` as a unit, and ``absent``, which cannot be reached."""
    folder = tmp_path_factory.mktemp("modbus")
    settings, log = folder / "dynid.toml", folder / "service.log"
    robots = {"cell": virtual_ur10e.host, "absent": "127.250.250.3"}
    lines = ['data_dir = "data"', 'runtime_dir = "run"', "port = 0", "workers = 1"]
    for name, host in robots.items():
        lines += [
            f"[robots.{name}]",
            'driver = "universal_robots"',
            f'host = "{host}"',
            'model = "ur10e"',
            "virtual = true",
        ]
    lines += [
        "[modbus]",
        "port = 0",
        f"max_connections = {MAX_CONNECTIONS}",
        f"units = {{ cell = {UNIT}, absent = {OTHER_UNIT} }}",
        'commands = ["acknowledge"]',
    ]
    settings.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with (
        log.open("w", encoding="utf-8") as log_file,
        subprocess.Popen(
            [sys.executable, "-m", "service.cli", "serve", "--config", str(settings)],
            stdout=subprocess.PIPE,
            stderr=log_file,
            text=True,
            env={**os.environ, "DYNID_API_KEY": "a key for the tests only"},
        ) as process,
    ):
        database = Database(f"sqlite:///{folder / 'data' / 'dynid.sqlite3'}")
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text(encoding="utf-8")
            assert json.loads(line)["event"] == "ready"
            yield Served("127.0.0.1", _port(log), process, database)
        finally:
            database.close()
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    text = log.read_text(encoding="utf-8")
    assert process.returncode == 0, text
    assert "Traceback" not in text, text
    assert "Warning" not in text, text


def _port(log: Path) -> int:
    """The port that the service took for Modbus, as it says."""
    said = re.search(r"Modbus is served on \S+ port (\d+)", log.read_text(encoding="utf-8"))
    assert said is not None
    return int(said.group(1))


@pytest.fixture
def client(served: Served) -> Iterator[ModbusTcpClient]:
    with served.client() as client:
        yield client


MakeTable = Callable[..., int]


@pytest.fixture(scope="module")
def result_of_cell(served: Served) -> str:
    """A result of ``cell`` that is in force."""
    report = {"rms_moving": [0.1, 0.2, 0.3, 0.4, 0.5, None], "relative_moving": [0.01] * 6}
    with served.database.session() as session:
        row = results.create(session, robot="cell", recording_ids=[], settings={}, document={})
        results.set_validation(session, row.id, {"passed": True, "reasons": [], "report": report})
        results.activate(session, row.id)
        return row.id


@pytest.fixture
def make_table(served: Served, result_of_cell: str) -> MakeTable:
    """Store a new table of ``cell`` (samples, 6) and return its version."""

    def make(torque: NDArray[np.float32], current: NDArray[np.float32] | None = None) -> int:
        data = torque.astype("<f4").tobytes()
        with served.database.session() as session:
            trajectory = trajectories.create(session, name="t", definition={"family": "x"}, n_joints=6, duration=1.0)
            row = feedforward.create(
                session,
                result_id=result_of_cell,
                trajectory_id=trajectory.id,
                cycle_time=0.002,
                samples=len(torque),
                n_joints=torque.shape[1],
                crc32=zlib.crc32(data),
                digest=f"{zlib.crc32(data):064x}",
                torque=data,
                current=None if current is None else current.astype("<f4").tobytes(),
                document={},
            )
            return row.version

    return make
