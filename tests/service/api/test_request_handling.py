"""What surrounds every request, on a small application of its own: problems, ids, limits, streams."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel

from core.errors import DynidError, InputError, MotionLimitError
from drivers.contract import DriverError, DriverUnreachable, MotionRefused
from service.api.problems import install_problem_handlers, status_of
from service.api.requests import BodyLimit, RequestContext
from service.api.sse import Event, EventStream, Streams
from service.errors import ConflictError, NotFoundError, StorageError


class Wish(BaseModel):
    speed: float


class Wishes(BaseModel):
    wishes: list[Wish]


class Figures(BaseModel):
    value: float
    anything: dict[str, Any]


def small_app(counted: list[tuple[str, int]]) -> FastAPI:
    app = FastAPI()
    install_problem_handlers(app)
    app.add_middleware(BodyLimit, limit=64)
    app.add_middleware(RequestContext, count=lambda method, status: counted.append((method, status)))

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("the secret is 42")

    @app.get("/busy")
    async def busy() -> None:
        raise ConflictError("arm is busy", code="robot-busy", robot="arm", since=float("nan"))

    @app.post("/wishes")
    async def wishes(body: Wishes) -> int:
        return len(body.wishes)

    @app.get("/figures")
    async def figures() -> Figures:
        return Figures(value=float("nan"), anything={"x": [float("inf"), 1.0]})

    return app


@pytest.fixture
def counted() -> list[tuple[str, int]]:
    return []


@pytest.fixture
def call(counted: list[tuple[str, int]]) -> Any:
    def send(method: str, path: str, **options: Any) -> httpx.Response:
        async def one() -> httpx.Response:
            transport = httpx.ASGITransport(small_app(counted))
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, path, **options)

        return asyncio.run(one())

    return send


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["status"] == status
    assert document["code"] == code
    assert document["type"] == f"urn:dynid:problem:{code}"
    assert document["request_id"] == response.headers["x-request-id"]
    return document


def test_error_of_the_tree_is_passed_on(call: Any) -> None:
    document = problem(call("GET", "/busy"), 409, "robot-busy")
    assert document["title"] == "Robot busy"
    assert document["detail"] == "arm is busy"
    assert document["instance"] == "/busy"
    assert document["context"] == {"robot": "arm", "since": None}


def test_unforeseen_error_is_logged_and_tells_nothing(call: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        response = call("GET", "/broken", headers={"X-Request-ID": "my-own-id"})
    problem(response, 500, "internal-error")
    assert "42" not in response.text
    assert response.headers["x-request-id"] == "my-own-id"
    assert "my-own-id" in caplog.text
    assert "the secret is 42" in caplog.text


@pytest.mark.parametrize("given", ["", "two words", "x" * 65, "newline%0a"])
def test_request_id_that_is_not_plain_is_replaced(call: Any, given: str) -> None:
    identifier = call("GET", "/figures", headers={"X-Request-ID": given}).headers["x-request-id"]
    assert len(identifier) == 32
    assert identifier != given


def test_fields_at_fault_are_pointed_at(call: Any) -> None:
    response = call("POST", "/wishes", json={"wishes": [{"speed": 1}, {"speed": "fast"}, {}]})
    document = problem(response, 422, "request-invalid")
    assert [(e["location"], e["pointer"]) for e in document["errors"]] == [
        ("body", "#/wishes/1/speed"),
        ("body", "#/wishes/2/speed"),
    ]
    assert "Field required" in document["errors"][1]["detail"]


def test_body_that_is_no_json(call: Any) -> None:
    response = call("POST", "/wishes", content="{,}", headers={"Content-Type": "application/json"})
    problem(response, 400, "body-not-json")


def test_unknown_path_and_method(call: Any) -> None:
    assert "/nowhere" in problem(call("GET", "/nowhere"), 404, "path-unknown")["detail"]
    response = call("DELETE", "/busy")
    assert "GET" in problem(response, 405, "method-not-allowed")["detail"]
    assert response.headers["allow"] == "GET"


def test_large_body_is_refused_announced_or_not(call: Any) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b'{"wishes": []}'

    problem(call("POST", "/wishes", content=b" " * 65), 413, "body-too-large")
    response = call("POST", "/wishes", content=chunks(), headers={"Content-Type": "application/json"})
    problem(response, 413, "body-too-large")


def test_not_a_number_becomes_null(call: Any) -> None:
    response = call("GET", "/figures")
    assert json.loads(response.text, parse_constant=pytest.fail) == {
        "value": None,
        "anything": {"x": [None, 1.0]},
    }


def test_answers_are_counted(call: Any, counted: list[tuple[str, int]]) -> None:
    call("GET", "/figures")
    call("GET", "/broken")
    assert counted == [("GET", 200), ("GET", 500)]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DynidError("x"), 500),
        (InputError("x"), 422),
        (MotionLimitError("x"), 422),
        (NotFoundError("x"), 404),
        (ConflictError("x"), 409),
        (ConflictError("x", code="queue-full"), 429),
        (StorageError("x"), 503),
        (DriverUnreachable("x"), 503),
        (MotionRefused("x", code="not-at-start"), 409),
        (DriverError("x"), 502),
        (DriverError("x", code="fault-persists"), 409),
        (DriverError("x", code="protective-stop"), 409),
    ],
)
def test_status_follows_class_unless_the_code_has_its_own(error: DynidError, status: int) -> None:
    assert status_of(error) == status


async def _events(log: list[str], count: int | None) -> AsyncGenerator[Event]:
    number = 0
    try:
        while count is None or number < count:
            yield Event("tick", {"number": number, "nan": float("nan")})
            number += 1
            await asyncio.sleep(0.0 if count else 3600.0)
    finally:
        log.append("closed")


async def _collect(stream: EventStream, after: int, do: Any) -> list[str]:
    got: list[str] = []
    async for part in stream.body_iterator:
        got.append(bytes(part).decode() if isinstance(part, bytes | memoryview) else part)
        if len(got) == after:
            do()
    return got


def test_stream_ends_with_its_events() -> None:
    async def run() -> tuple[list[str], list[str]]:
        log: list[str] = []
        stream = EventStream(_events(log, 2), asyncio.Event(), Streams())
        return await _collect(stream, 1, lambda: None), log

    got, log = asyncio.run(run())
    assert got[1:] == [f'event: tick\ndata: {{"number":{i},"nan":null}}\n\n' for i in range(2)]
    assert log == ["closed"]


def test_stream_beats_while_nothing_happens_and_ends_when_the_service_does() -> None:
    async def run() -> tuple[list[str], list[str]]:
        log: list[str] = []
        closing = asyncio.Event()
        stream = EventStream(_events(log, None), closing, Streams(), heartbeat=0.01)
        got = await _collect(stream, 4, closing.set)
        assert len(asyncio.all_tasks()) == 1  # nothing is left pending
        return got, log

    got, log = asyncio.run(run())
    assert got[2:4] == [": alive\n\n"] * 2
    assert log == ["closed"]
