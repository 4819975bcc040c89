"""What pollers use: the newest table, status, waiting for something new, and answers from memory."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI, Request

from core.excitation import catalogue
from service.access import Principal, Role
from service.api.auth import PRINCIPAL
from service.api.conditional import not_modified
from service.api.http import LONGEST_HEAD
from service.api.long_poll import LongPolls, WaitFor
from service.api.newest_tables import NewestTables
from service.api.unchanged import Unchanged
from service.errors import ConflictError
from service.storage import Database, feedforward, results, trajectories

API = "/api/v1"
TABLE = f"{API}/robots/fixed/feedforward-table"
STATUS = f"{API}/robots/cell/status"
BINARY = {"format": "binary"}


def add_table(database: Database, robot: str, value: float) -> int:
    """Store a table of one number and return its version."""
    torque = np.full((2, 6), value, "<f4").tobytes()
    with database.session() as session:
        result = results.create(session, robot=robot, recording_ids=[], settings={}, document={})
        results.set_validation(session, result.id, {"passed": True, "reasons": [], "report": {}})
        definition = catalogue("ur10e_excitation").definition()
        trajectory = trajectories.create(session, name="t", definition=definition, n_joints=6, duration=1.0)
        row = feedforward.create(
            session,
            result_id=result.id,
            trajectory_id=trajectory.id,
            cycle_time=0.002,
            samples=2,
            n_joints=6,
            crc32=zlib.crc32(torque),
            digest=hashlib.sha256(os.urandom(8)).hexdigest(),
            torque=torque,
            current=None,
            document={},
        )
    return row.version


@pytest.fixture
def database(service: Any) -> Iterator[Database]:
    database = service.database
    yield database
    database.close()


def eventually(get: Callable[[], httpx.Response], version: int) -> httpx.Response:
    """What another process puts into the database is seen within half a second."""
    deadline = time.monotonic() + 10.0
    while (answer := get()).headers.get("dynid-version") != str(version):
        assert time.monotonic() < deadline
    return answer


def test_the_newest_table_is_polled(client: httpx.Client, database: Database, expect_problem: Any) -> None:
    if client.get(TABLE).status_code == 404:
        expect_problem(client.get(TABLE), 404, "feedforward-table-not-found")
    first = add_table(database, "fixed", 1.0)
    answer = eventually(lambda: client.get(TABLE, params=BINARY), first)
    assert answer.content == np.full((2, 6), 1.0, "<f4").tobytes()
    have = {"If-None-Match": answer.headers["etag"]}
    for _ in range(3):  # by its route, then from memory
        again = client.get(TABLE, params=BINARY, headers=have)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", have["If-None-Match"])
    assert client.get(TABLE, params={"format": "csv"}, headers=have).status_code == 200
    second = add_table(database, "fixed", 2.0)
    answer = eventually(lambda: client.get(TABLE, params=BINARY, headers=have), second)
    assert answer.content == np.full((2, 6), 2.0, "<f4").tobytes()


def test_a_table_is_answered_when_it_comes(client: httpx.Client, database: Database) -> None:
    version = add_table(database, "fixed", 3.0)
    have = {"If-None-Match": eventually(lambda: client.get(TABLE, params=BINARY), version).headers["etag"]}
    adding = threading.Timer(0.3, add_table, (database, "fixed", 4.0))
    adding.start()
    began = time.monotonic()
    answer = client.get(TABLE, params={**BINARY, "wait": 15}, headers=have)
    adding.join()
    assert answer.headers["dynid-version"] == str(version + 1)
    assert 0.3 <= time.monotonic() - began < 10.0


def test_status_is_answered_when_it_changes_or_when_the_wait_is_over(client: httpx.Client) -> None:
    first = client.get(STATUS)
    assert first.json()["permit"]["state"] == "disarmed"
    have = {"If-None-Match": first.headers["etag"]}
    began = time.monotonic()
    waited = client.get(STATUS, headers={**have, "Prefer": "respond-async, wait=1"})
    if waited.status_code == 200:  # the robot cannot be reached, and the reason may have changed
        have = {"If-None-Match": waited.headers["etag"]}
        began = time.monotonic()
        waited = client.get(STATUS, headers={**have, "Prefer": "wait=1"})
    assert (waited.status_code, waited.headers["preference-applied"]) == (304, "wait=1")
    assert time.monotonic() - began >= 1.0

    lease = f"{API}/robots/cell/lease"
    with ThreadPoolExecutor(1) as other:
        changed = other.submit(client.get, STATUS, params={"wait": 15}, headers=have)
        token = client.post(lease, json={"holder": "me", "seconds": 30}).json()["token"]
        assert changed.result().json()["lease"]["holder"] == "me"
    client.delete(lease, headers={"Lease-Token": token})


@pytest.mark.parametrize("wait", ["-1", "61", "nan", "soon"])
def test_a_wait_that_is_none_is_refused(client: httpx.Client, expect_problem: Any, wait: str) -> None:
    expect_problem(client.get(STATUS, params={"wait": wait}), 422, "request-invalid")


def test_a_head_without_end_is_refused(service: Any) -> None:
    host, port = httpx.URL(service.url).host, httpx.URL(service.url).port
    with socket.create_connection((host, port), timeout=10.0) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: ")
        for _ in range(2 * LONGEST_HEAD // 4096):
            try:
                connection.sendall(b"a" * 4096)
            except ConnectionError:
                break
        answer = connection.recv(100)
    assert answer.startswith(b"HTTP/1.1 400 ")


# --- the parts ----------------------------------------------------------------------------------------------


def wait_application(polls: LongPolls, unchanged: Callable[[], bool]) -> FastAPI:
    app = FastAPI()

    @app.get("/")
    async def poll(request: Request, wait: WaitFor) -> float:
        async def nothing_new() -> bool:
            return unchanged()

        try:
            await polls.wait(request, nothing_new, wait.seconds)
        except ConflictError:
            return -1.0
        return wait.seconds

    return app


def test_waiting_requests_are_limited_and_end_with_the_service() -> None:
    async def main() -> None:
        closing = asyncio.Event()
        polls = LongPolls(closing, limit=3)
        transport = httpx.ASGITransport(wait_application(polls, lambda: True))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            waiting = [asyncio.create_task(client.get("/?wait=60")) for _ in range(3)]
            while polls.waiting < 3:
                await asyncio.sleep(0)
            assert (await client.get("/?wait=60")).json() == -1.0
            closing.set()
            assert [(await each).json() for each in waiting] == [60.0] * 3
            assert polls.waiting == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [("wait=5", 5.0), ('foo; x, WAIT="7"', 7.0), ("wait=600", 60.0), ("nowait=3", 0.0), ("", 0.0)],
)
def test_preferences(prefer: str, seconds: float) -> None:
    async def main() -> float:
        transport = httpx.ASGITransport(wait_application(LongPolls(asyncio.Event()), lambda: False))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            found: float = (await client.get("/", headers={"Prefer": prefer})).json()
            return found

    assert asyncio.run(main()) == seconds


def test_what_this_process_writes_is_seen_at_once(tmp_path: Any) -> None:
    async def main() -> None:
        database = Database(f"sqlite:///{tmp_path / 'dynid.sqlite3'}")
        database.create()
        newest = NewestTables(database, ["cell"])
        assert await newest.of("cell") is None
        for number in (1, 2):
            assert add_table(database, "cell", float(number)) == number
            found = await asyncio.gather(*(newest.of("cell") for _ in range(20)))
            assert {id(table) for table in found} == {id(found[0])}
            assert found[0] is not None
            assert found[0].version == number
        database.close()

    asyncio.run(main())


def test_an_answer_is_remembered_for_the_same_request_only() -> None:
    def scope(path: str = "/x", robots: frozenset[str] | None = None, **headers: str) -> dict[str, Any]:
        return {
            "type": "http",
            "path": path,
            "query_string": b"",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
            "state": {PRINCIPAL: Principal("p", Role.VIEWER, robots)},
        }

    async def main() -> None:
        true = True

        async def still_true() -> bool:
            return true

        unchanged = Unchanged()
        answer = not_modified('"a"', '"a"')
        assert answer is not None
        asked = scope(if_none_match='"a"')
        unchanged.remember(Request(asked), answer, still_true)
        assert await unchanged.answer(asked) is answer
        for other in (
            scope(),
            scope("/y", if_none_match='"a"'),
            scope(if_none_match='"b"'),
            scope(robots=frozenset({"cell"}), if_none_match='"a"'),
            scope(if_none_match='"a"', accept="text/csv"),
            scope(if_none_match='"a"', prefer="wait=5"),
        ):
            assert await unchanged.answer(other) is None
        true = False
        assert await unchanged.answer(asked) is None
        true = True
        assert await unchanged.answer(asked) is None  # forgotten: its route finds it out anew

    asyncio.run(main())
